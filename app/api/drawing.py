"""The parts of charts as SVG: axes, plots of curves, and ranks with their intervals.

They suit light and dark viewers. A chart is panels, one below the other; a panel is its height and
its content.
"""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple, Self

# The mean width of a character of a wide 12 pixel font: labels are laid out without measuring them.
CHARACTER = 7.3
# Pixels
_WIDTH = 860.0
_MARGIN = 24.0
_ROW = 22.0
_PLOT = 212.0  # the height of a plot
_BELOW_PLOT = 48.0  # for labels and the title of the axis
_INDENT = 14.0
_COLUMN_GAP = 20.0
_LABEL_GAP = 10.0
_MAX_NAME = 34  # characters of a contender's name
# A line that is farther off than this many ranges is not drawn: it would leave the dots no room.
_MAX_DISTANCE = 2.0
_PADDING = 0.05  # of a range, on both sides of it
_DOTS = {"cut": "best", "posterior": "posterior-dot"}  # by the style of a mark
# A range below these is widened. Relative: its ticks could not be told apart; absolute: a sixth or
# a twentieth of it may be 0.
_MIN_RANGE = 1e-9
_MIN_SIZE = 1e-300
# Characters that no escape makes legal in XML.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_STYLE = """
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;fill:#1b1f24}
.heading{font-size:15px;font-weight:600}.group{font-weight:600}
.soft{fill:#5b6470}.best-text{fill:#0a58b5;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e4e7eb}.axis{stroke:#8a939e}path{fill:none}
.line{stroke:#0a58b5;stroke-width:2}
.bound{stroke:#008f6b;stroke-width:1.5;stroke-dasharray:6 4}
.cut{stroke:#0a58b5;stroke-width:1.5;stroke-dasharray:2 3}
.posterior{stroke:#b34700;stroke-width:1.5;stroke-dasharray:8 3 2 3}
.plain{stroke:#8a939e;stroke-width:1.5;stroke-dasharray:2 3}
.dot{fill:#5b6470}.best{fill:#0a58b5}.posterior-dot{fill:#b34700}
.whisker{stroke:#5b6470;stroke-width:1.5}
.best-whisker{stroke:#0a58b5;stroke-width:2}
@media (prefers-color-scheme:dark){
text{fill:#e6e9ed}.soft{fill:#9aa4b0}.best-text{fill:#6cb0ff}
.paper{fill:#15181c}.grid{stroke:#2a2f36}.axis{stroke:#6b7480}.line{stroke:#6cb0ff}
.bound{stroke:#3ddbb0}.cut{stroke:#6cb0ff}.posterior{stroke:#ff9a3c}.plain{stroke:#6b7480}
.dot{fill:#9aa4b0}.best{fill:#6cb0ff}.posterior-dot{fill:#ff9a3c}
.whisker{stroke:#9aa4b0}.best-whisker{stroke:#6cb0ff}}
"""

Points = Sequence[tuple[float, float]]
Panel = tuple[float, str]


class Mark(NamedTuple):
    """A value to compare with, or a threshold with its benefit; without `place` and `height` it is
    in the key alone.
    """

    words: str
    style: str
    place: float | None = None
    height: float | None = None


class Dot(NamedTuple):
    """A contender: its group (or ""), its name, its mean with an interval, and its share of the
    bound.
    """

    group: str
    name: str
    value: float
    low: float
    high: float
    mu: float | None
    best: bool

    @property
    def figures(self) -> str:
        share = "" if self.mu is None else f", {short(100 * self.mu)} %"
        return f"{short(self.value)} ({short(self.low)} … {short(self.high)}){share}"


class Axis(NamedTuple):
    """The range from `low` to `high` drawn from pixel `start` to `end` (which may be the smaller
    one).
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> Self:
        """A range that holds all finite `values` (at least one) and a little room on both sides."""
        listed = list(values)
        low, high = min(listed), max(listed)
        size = max(abs(low), abs(high))
        margin = (high - low) * _PADDING
        if high - low <= max(_MIN_RANGE * size, _MIN_SIZE):
            margin = size * _PADDING if size > _MIN_SIZE else 1.0
        return cls(low - margin, high + margin, start, end)

    def at(self, value: float) -> float:
        """The pixel of a value; values outside the range are put on its edge."""
        inside = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * (
            (inside - self.low) / (self.high - self.low)
        )

    def ticks(self, about: int = 6) -> list[tuple[float, str]]:
        """Some `about` round numbers within the range, with their labels."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(
            factor * power
            for factor in (1, 2, 5, 10)
            if factor * power >= raw * (1 - 1e-9)
        )
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [
            (count * step, _written(count * step)) for count in range(first, last + 1)
        ]

    def spread(self) -> list[tuple[float, str]]:
        """About ten ticks, or as many fewer as their labels side by side leave room for."""
        for about in range(10, 0, -1):
            ticks = self.ticks(about)
            widest = max(len(label) for _, label in ticks) * CHARACTER + _LABEL_GAP
            if len(ticks) == 1 or self.at(ticks[1][0]) - self.at(ticks[0][0]) >= widest:
                return ticks
        return self.ticks(1)[:1]


def _written(value: float) -> str:
    """With at most twelve digits, commas between thousands, and a real minus sign."""
    return f"{value:,.12g}".replace("-", "\N{MINUS SIGN}")


def short(value: float) -> str:
    """With three significant digits: 0.123, 1,230,000."""
    return _written(float(f"{value:.3g}"))


def escaped(words: str) -> str:
    """Words for a place between tags or quotes; what XML cannot hold at all becomes U+FFFD."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", words))


def tag(element: str, content: str = "", **attributes: float | str) -> str:
    """An element; `content` is SVG already. Attribute `cls` is `class`, and `_` in a name stands
    for `-`.
    """
    written = "".join(
        f" {_attribute(name, value)}" for name, value in attributes.items()
    )
    return (
        f"<{element}{written}>{content}</{element}>"
        if content
        else f"<{element}{written}/>"
    )


def _attribute(name: str, value: float | str) -> str:
    key = "class" if name == "cls" else name.replace("_", "-")
    words = value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
    return f'{key}="{escaped(words)}"'


def text(
    x: float, y: float, words: str, *, cls: str = "", anchor: str = "start"
) -> str:
    return tag("text", escaped(words), x=x, y=y, cls=cls, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def stacked(panels: Sequence[Panel], title: str) -> str:
    """The picture; screen readers read its `title`, and its texts in their order."""
    parts = [
        tag("title", escaped(title)),
        tag("style", _STYLE),
        tag("rect", width="100%", height="100%", cls="paper"),
    ]
    top = 0.0
    for height, body in panels:
        parts.append(tag("g", body, transform=f"translate(0 {top:g})"))
        top += height
    size = {
        "width": f"{_WIDTH:g}",
        "height": f"{top:g}",
        "viewBox": f"0 0 {_WIDTH:g} {top:g}",
    }
    return tag("svg", "".join(parts), xmlns="http://www.w3.org/2000/svg", **size)


def frame(x: Axis, y: Axis, across: str, up: str) -> str:
    """Grid and labels of both axes, with the title `across` of x below and `up` of y above."""
    parts = [text(_MARGIN, y.end - 16, up, cls="soft")]
    for value, label in y.ticks(5):
        height = y.at(value)
        parts += [
            line(x.start, height, x.end, height, "grid"),
            text(x.start - 8, height + 4, label, cls="soft", anchor="end"),
        ]
    parts += [
        line(x.at(value), y.start, x.at(value), y.start + 4, "axis")
        for value, _ in x.spread()
    ]
    return "".join([*parts, _scale(x, y.start, across)])


def _scale(x: Axis, bottom: float, title: str) -> str:
    """The line of an axis at the bottom with labels that do not touch, and its title."""
    parts = [line(x.start, bottom, x.end, bottom, "axis")]
    for value, label in x.spread():
        rightmost = x.end + _MARGIN - len(label) * CHARACTER / 2
        place = min(x.at(value), rightmost)
        parts.append(text(place, bottom + 18, label, cls="soft", anchor="middle"))
    parts.append(
        text((x.start + x.end) / 2, bottom + 38, title, cls="soft", anchor="middle")
    )
    return "".join(parts)


def steps(x: Axis, y: Axis, points: Points, cls: str) -> str:
    """A line through points from left to right, in steps: each value holds up to the next point."""
    first, *following = ((x.at(across), y.at(up)) for across, up in points)
    path = f"M{first[0]:.1f} {first[1]:.1f}"
    path += "".join(f"H{across:.1f}V{up:.1f}" for across, up in following)
    return tag("path", d=path, cls=cls)


def _key(entries: Sequence[Mark], top: float) -> str:
    """Samples of styles with their words, one a row."""
    rows = [(top + _ROW * row, entry) for row, entry in enumerate(entries)]
    return "".join(
        line(_MARGIN, y - 4, _MARGIN + 26, y - 4, entry.style)
        + text(_MARGIN + 34, y, entry.words)
        for y, entry in rows
    )


def plot(
    title: str, points: Points, entries: Sequence[Mark], titles: tuple[str, str]
) -> Panel:
    """A panel: a line through points (x, y), x from 0, which passes through the best cut, too; and
    the entries of its key with a height, those without a place as lines across.
    """
    top = 52 + _ROW * len(entries) + 18
    marks = [
        (mark.place, mark.height, mark.style)
        for mark in entries
        if mark.height is not None
    ]
    heights = [value for _, value in points] + [height for _, height, _ in marks]
    y = Axis.around(heights, top + _PLOT, top)
    labels_end = _MARGIN + max(len(label) for _, label in y.ticks(5)) * CHARACTER + 8
    x = Axis(0.0, max(points[-1][0], 1.0), labels_end, _WIDTH - _MARGIN)
    cuts = [
        (place, height)
        for place, height, style in marks
        if place is not None and style == "cut"
    ]
    parts = [
        text(_MARGIN, 24, title, cls="heading"),
        _key(entries, 52),
        frame(x, y, *titles),
    ]
    parts.append(steps(x, y, sorted([*points, *cuts]), "line"))
    for place, height, style in marks:
        if place is None:
            parts.append(line(x.start, y.at(height), x.end, y.at(height), style))
        else:
            parts.append(line(x.at(place), y.end, x.at(place), y.start, style))
            parts.append(
                tag("circle", cx=x.at(place), cy=y.at(height), r=4.5, cls=_DOTS[style])
            )
    return y.start + _BELOW_PLOT, "".join(parts)


def ranked(
    title: str,
    notes: Sequence[str],
    names: str,
    contenders: Sequence[Dot],
    lines: Sequence[Mark],
) -> Panel:
    """A panel: one row for each contender, under a row for each group that has a name; lines at
    values to compare.
    """
    groups = [
        (name, list(dots))
        for name, dots in groupby(contenders, key=lambda dot: dot.group)
    ]
    top = 90.0
    bottom = top + _ROW * (len(contenders) + sum(bool(name) for name, _ in groups))
    marks = _near_marks(contenders, lines)
    x = _axis_of_dots(contenders, [place for place, _ in marks])
    column = "benefit (95 % interval)"
    if any(dot.mu is not None for dot in contenders):
        column += ", share of bound"
    parts = [text(_MARGIN, 24, title, cls="heading")]
    parts += [
        text(_MARGIN, 44 + 18 * place, words, cls="soft")
        for place, words in enumerate(notes)
    ]
    parts += [text(_WIDTH - _MARGIN, top - 8, column, cls="soft", anchor="end")]
    parts += [text(_MARGIN, top - 8, names, cls="soft")]
    parts += [
        line(x.at(value), top, x.at(value), bottom, "grid") for value, _ in x.spread()
    ]
    parts += [
        line(x.at(place), top, x.at(place), bottom, style) for place, style in marks
    ]
    height = top
    for name, dots in groups:
        if name:
            parts.append(text(_MARGIN, height + 15, name, cls="group"))
            height += _ROW
        for dot in dots:
            parts += _row(dot, x, height + _ROW / 2)
            height += _ROW
    parts += [
        _scale(x, bottom, "benefit per row"),
        _key(lines, bottom + _BELOW_PLOT + 10),
    ]
    return bottom + _BELOW_PLOT + _ROW * len(lines) + 6, "".join(parts)


def _near_marks(
    contenders: Sequence[Dot], marks: Sequence[Mark]
) -> list[tuple[float, str]]:
    """Place and style of the marks that are near enough to the contenders to be drawn."""
    low, high = _range_of(contenders)
    distance = _MAX_DISTANCE * max(high - low, 1e-12 * max(abs(low), abs(high)))
    return [
        (mark.place, mark.style)
        for mark in marks
        if mark.place is not None and low - distance <= mark.place <= high + distance
    ]


def _axis_of_dots(contenders: Sequence[Dot], places: Sequence[float]) -> Axis:
    """The axis between the names of the contenders and their figures."""
    name_length = max(len(_shortened(dot.name)) for dot in contenders)
    figures_length = max(len(dot.figures) for dot in contenders)
    start = _MARGIN + _INDENT + name_length * CHARACTER + _COLUMN_GAP
    end = _WIDTH - _MARGIN - figures_length * CHARACTER - _COLUMN_GAP
    return Axis.around([*_range_of(contenders), *places], start, end)


def _range_of(contenders: Sequence[Dot]) -> tuple[float, float]:
    return min(dot.low for dot in contenders), max(dot.high for dot in contenders)


def _row(dot: Dot, x: Axis, y: float) -> list[str]:
    """The row of a contender: its name, interval, dot and figures."""
    whisker, circle, words = "whisker", "dot", ""
    if dot.best:
        whisker, circle, words = "best-whisker", "best", "best-text"
    return [
        text(_MARGIN + _INDENT, y + 4, _shortened(dot.name), cls=words),
        line(x.at(dot.low), y, x.at(dot.high), y, whisker),
        tag("circle", cx=x.at(dot.value), cy=y, r=4.5 if dot.best else 3.5, cls=circle),
        text(_WIDTH - _MARGIN, y + 4, dot.figures, cls=words, anchor="end"),
    ]


def _shortened(words: str) -> str:
    return words if len(words) <= _MAX_NAME else words[: _MAX_NAME - 1] + "…"
