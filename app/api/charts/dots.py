"""Contenders as dots with intervals, the best one marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.api.charts.axis import Axis, short
from app.api.charts.svg import CHARACTER, fitted, line, shortened, tag, text

_LEFT, _RIGHT, _TOP, _ROW, _BELOW = 24.0, 24.0, 90.0, 22.0, 60.0
_INDENT = 14.0
_COLUMN = "benefit (95 % interval)"
_SHARE = ", share of bound"
_LONGEST = 34
_GAP = 20.0
_FAR = 2.0  # a line farther off than this many ranges would leave the dots no room


@dataclass(frozen=True)
class Dot:
    """A contender: its group (or ""), its name, its mean with an interval, and its share of the bound."""

    group: str
    name: str
    value: float
    low: float
    high: float
    mu: float | None
    best: bool


@dataclass(frozen=True)
class Across:
    """A value to compare with."""

    words: str
    value: float
    style: str


def dots(
    width: float, heading: str, notes: Sequence[str], contenders: Sequence[Dot], lines: Sequence[Across]
) -> tuple[float, str]:
    """A panel's height and content: one row for each contender, under a row for each group that has a name."""
    rows = [(group, list(members)) for group, members in groupby(contenders, key=lambda one: one.group)]
    bottom = _TOP + _ROW * (len(contenders) + sum(bool(group) for group, _ in rows))
    shown = [across for across in lines if _near(across.value, contenders)]
    x = _axis(width, contenders, shown)
    parts = [text(_LEFT, 24, heading, cls="heading")]
    parts += [text(_LEFT, 44 + 18 * place, shortened(words, 124), cls="soft") for place, words in enumerate(notes)]
    column = _COLUMN + (_SHARE if any(one.mu is not None for one in contenders) else "")
    parts += [text(width - _RIGHT, _TOP - 8, column, cls="soft", anchor="end"), _grid(x, bottom)]
    parts += [line(x.at(across.value), _TOP, x.at(across.value), bottom, across.style) for across in shown]
    height = _TOP
    for group, members in rows:
        if group:
            parts.append(fitted(_LEFT, height + 15, width - _LEFT, group, 90, cls="group"))
            height += _ROW
        for one in members:
            parts.append(_contender(x, height + _ROW / 2, width, one))
            height += _ROW
    return bottom + _BELOW, "".join([*parts, _key(lines, bottom + 44)])


def _axis(width: float, contenders: Sequence[Dot], shown: Sequence[Across]) -> Axis:
    """What the names on the left and the figures on the right leave."""
    values = [value for one in contenders for value in (one.low, one.high)] + [across.value for across in shown]
    names = max(len(shortened(one.name, _LONGEST)) for one in contenders) * CHARACTER
    figures = max(len(_figures(one)) for one in contenders) * CHARACTER
    return Axis.around(values, _LEFT + _INDENT + names + _GAP, width - _RIGHT - figures - _GAP)


def _near(value: float, contenders: Sequence[Dot]) -> bool:
    low, high = min(one.low for one in contenders), max(one.high for one in contenders)
    room = _FAR * max(high - low, 1e-12 * max(abs(low), abs(high)))
    return low - room <= value <= high + room


def _contender(x: Axis, y: float, width: float, one: Dot) -> str:
    whisker, dot, words = ("best-whisker", "best", "best-text") if one.best else ("whisker", "dot", "")
    return "".join(
        (
            fitted(_LEFT + _INDENT, y + 4, x.start - _GAP / 2 - _LEFT - _INDENT, one.name, _LONGEST, cls=words),
            line(x.at(one.low), y, x.at(one.high), y, whisker),
            tag("circle", cx=x.at(one.value), cy=y, r=4.5 if one.best else 3.5, cls=dot),
            text(width - _RIGHT, y + 4, _figures(one), cls=words, anchor="end"),
        )
    )


def _figures(one: Dot) -> str:
    share = "" if one.mu is None else f", {short(100 * one.mu)} %"
    return f"{short(one.value)} ({short(one.low)} … {short(one.high)}){share}"


def _grid(x: Axis, bottom: float) -> str:
    parts = []
    for value, label in x.ticks():
        at = x.at(value)
        parts += [line(at, _TOP, at, bottom, "grid"), text(at, bottom + 16, label, cls="soft", anchor="middle")]
    return "".join([*parts, line(x.start, bottom, x.end, bottom, "axis")])


def _key(lines: Sequence[Across], y: float) -> str:
    parts, left = [], _LEFT
    for across in lines:
        words = f"{across.words} {short(across.value)}"
        parts += [line(left, y - 4, left + 26, y - 4, across.style), text(left + 34, y, words)]
        left += 34 + len(words) * CHARACTER + 24
    return "".join(parts)
