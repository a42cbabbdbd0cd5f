"""Contenders as dots with intervals, the best one marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.api.charts.axis import Axis, short
from app.api.charts.frame import BELOW, MARGIN, heading, key, scale, spread
from app.api.charts.svg import CHARACTER, fitted, line, shortened, tag, text

_TOP, _ROW = 90.0, 22.0
_INDENT = 14.0
_COLUMN = "benefit (95 % interval)"
_SHARE = ", share of bound"
_LONGEST = 34
_GAP = 20.0
_LEAST = 300.0  # pixels of the scale
_FAR = 2.0  # a line farther off than this many ranges would leave the dots no room


@dataclass(frozen=True)
class Dot:
    """A contender: its group (or ""), its name, its mean with an interval, its share of the bound, and what the mean is
    about; equal ends are no interval.
    """

    group: str
    name: str
    value: float
    low: float
    high: float
    mu: float | None
    best: bool
    note: str = ""


@dataclass(frozen=True)
class Across:
    """A value to compare with."""

    words: str
    value: float
    style: str


@dataclass(frozen=True)
class Panel:
    """What a panel of dots shows: words above it, what the names and the scale are, and values to compare with."""

    title: str
    notes: Sequence[str]
    names: str
    scale: str
    contenders: Sequence[Dot]
    lines: Sequence[Across] = ()

    @property
    def width(self) -> float:
        """The pixels that names, figures and a scale of some width need."""
        names, figures = _widths(self.contenders)
        return 2 * MARGIN + _INDENT + names + figures + 2 * _GAP + _LEAST


def dots(width: float, panel: Panel) -> tuple[float, str]:
    """A panel's height and content: one row for each contender, under a row for each group that has a name."""
    rows = [(group, list(members)) for group, members in groupby(panel.contenders, key=lambda one: one.group)]
    bottom = _TOP + _ROW * (len(panel.contenders) + sum(bool(group) for group, _ in rows))
    shown = [across for across in panel.lines if _near(across.value, panel.contenders)]
    x = _axis(width, panel.contenders, shown)
    notes = enumerate(panel.notes)
    parts = [heading(panel.title, width)]
    parts += [fitted(MARGIN, 44 + 18 * place, width - 2 * MARGIN, words, 200, cls="soft") for place, words in notes]
    column = _COLUMN + (_SHARE if any(one.mu is not None for one in panel.contenders) else "")
    parts += [text(width - MARGIN, _TOP - 8, column, cls="soft", anchor="end")]
    parts += [text(MARGIN, _TOP - 8, panel.names, cls="soft")]
    parts += [line(x.at(value), _TOP, x.at(value), bottom, "grid") for value, _ in spread(x, 10)]
    parts += [line(x.at(across.value), _TOP, x.at(across.value), bottom, across.style) for across in shown]
    height = _TOP
    for group, members in rows:
        if group:
            parts.append(fitted(MARGIN, height + 15, width - MARGIN, group, 90, cls="over group"))
            height += _ROW
        for one in members:
            parts.append(_contender(x, height + _ROW / 2, width, one))
            height += _ROW
    entries = [(f"{across.words} {short(across.value)}", across.style) for across in panel.lines]
    below, words = key(entries, width, bottom + BELOW + 10)
    return bottom + BELOW + (below + 6 if entries else 0), "".join([*parts, scale(x, bottom, panel.scale), words])


def dots_in_words(contenders: Sequence[Dot]) -> str:
    """The figures in words, for those who do not see them."""
    return "; ".join(f"{one.group} {one.name} {_figures(one)}".lstrip() for one in contenders) + "."


def _axis(width: float, contenders: Sequence[Dot], shown: Sequence[Across]) -> Axis:
    """What the names on the left and the figures on the right leave."""
    values = [value for one in contenders for value in (one.low, one.high)] + [across.value for across in shown]
    names, figures = _widths(contenders)
    return Axis.around(values, MARGIN + _INDENT + names + _GAP, width - MARGIN - figures - _GAP)


def _widths(contenders: Sequence[Dot]) -> tuple[float, float]:
    names = max(len(shortened(one.name, _LONGEST)) for one in contenders)
    return names * CHARACTER, max(len(_figures(one)) for one in contenders) * CHARACTER


def _near(value: float, contenders: Sequence[Dot]) -> bool:
    low, high = min(one.low for one in contenders), max(one.high for one in contenders)
    room = _FAR * max(high - low, 1e-12 * max(abs(low), abs(high)))
    return low - room <= value <= high + room


def _contender(x: Axis, y: float, width: float, one: Dot) -> str:
    whisker, dot, words = ("best-whisker", "best", "best-text") if one.best else ("whisker", "dot", "")
    return "".join(
        (
            fitted(MARGIN + _INDENT, y + 4, x.start - _GAP / 2 - MARGIN - _INDENT, one.name, _LONGEST, cls=words),
            line(x.at(one.low), y, x.at(one.high), y, whisker),
            tag("circle", cx=x.at(one.value), cy=y, r=4.5 if one.best else 3.5, cls=dot),
            text(width - MARGIN, y + 4, _figures(one), cls=words, anchor="end"),
        )
    )


def _figures(one: Dot) -> str:
    share = "" if one.mu is None else f", {short(100 * one.mu)} %"
    interval = "" if one.note and one.low == one.high else f" ({short(one.low)} … {short(one.high)})"
    return f"{short(one.value)}{interval}{share}{', ' if one.note else ''}{one.note}"
