"""Panels of charts: a cut's benefit as a curve, a loss by size of set, contenders as dots with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from app.api.charts.axes import BELOW, MARGIN, Axis, Points, frame, heading, key, plot, scale, short, spread, through
from app.api.charts.svg import CHARACTER, fitted, line, shortened, tag, text

_PLOT = 212.0
_POINTS = 500  # of a curve over sizes: a step each is finer than paper shows
_DOTS = {"cut": "best", "posterior": "posterior-dot"}
_TOP, _ROW = 90.0, 22.0
_INDENT = 14.0
_COLUMN = "benefit (95 % interval)"
_SHARE = ", share of bound"
_LONGEST = 34
_GAP = 20.0
_LEAST = 300.0  # pixels of the scale
_FAR = 2.0  # a line farther off than this many ranges would leave the dots no room


@dataclass(frozen=True)
class Mark:
    """A threshold with what it earns; `place` None: only told in words."""

    words: str
    style: str
    place: float | None = None
    height: float | None = None


def curve(width: float, title: str, points: Points, bound: float, marks: Sequence[Mark]) -> tuple[float, str]:
    """A panel's height and content: B(t) in steps through points (t, B), its bound across, and marks at thresholds.

    The steps pass through the best cut, too.
    """
    entries = [("mean benefit B(t) on rows not seen", "line"), (f"upper bound {short(bound)}", "bound")]
    rows, words = key([*entries, *((mark.words, mark.style) for mark in marks)], width, 52)
    top = 52 + rows + 22
    x, y = plot([bound, *(value for _, value in points)], 1.0, width, top, top + _PLOT)
    drawn = [(mark.place, mark.height, mark.style) for mark in marks if mark.place is not None]
    known = [(place, height, style) for place, height, style in drawn if height is not None]
    best = [(place, height) for place, height, style in known if style == "cut"]
    body = [
        heading(title, width),
        words,
        frame(x, y, "threshold t on the score", "mean benefit per row"),
        line(x.start, y.at(bound), x.end, y.at(bound), "bound"),
        *(line(x.at(place), y.end, x.at(place), y.start, style) for place, _, style in drawn),
        through(x, y, sorted([*points, *best]), "line", steps=True),
        *(tag("circle", cx=x.at(place), cy=y.at(height), r=4.5, cls=_DOTS[style]) for place, height, style in known),
    ]
    return y.start + BELOW, "".join(body)


def curve_in_words(points: Points, marks: Sequence[Mark]) -> str:
    """The curve in words, for those who do not see it."""
    (first, low), (last, high) = points[0], points[-1]
    ends = f"B(t) is {short(low)} at threshold {short(first)} and {short(high)} at {short(last)}"
    return "; ".join([ends, *(mark.words for mark in marks)]) + "."


def losses(width: float, title: str, curve: Sequence[float], k: int) -> tuple[float, str]:
    """A panel's height and content: the expected loss of the best 0, 1, … n items, and the size that was chosen."""
    size = len(curve) - 1
    shown = sorted({k, *(size * place // _POINTS for place in range(_POINTS + 1))})
    top = 52 + 18 + 22
    x, y = plot([curve[n] for n in shown], max(size, 1), width, top, top + _PLOT)
    body = [
        heading(title, width),
        key([("expected loss", "line"), (f"retrieved: {k} of {size} items, {short(curve[k])}", "cut")], width, 52)[1],
        frame(x, y, "items retrieved", "expected loss"),
        line(x.at(k), y.end, x.at(k), y.start, "cut"),
        through(x, y, [(n, curve[n]) for n in shown], "line"),
        tag("circle", cx=x.at(k), cy=y.at(curve[k]), r=4.5, cls="best"),
    ]
    return y.start + BELOW, "".join(body)


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
    return f"{short(one.value)} ({short(one.low)} … {short(one.high)}){share}"
