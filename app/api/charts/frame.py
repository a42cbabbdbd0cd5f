"""What charts with two axes share: the frame and its words, lines through points, the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.api.charts.axis import Axis
from app.api.charts.svg import CHARACTER, fitted, line, tag, text

MARGIN = 24.0
BELOW = 48.0  # pixels under the plot for labels and the axis' title
_ROW, _SAMPLE, _GAP = 18.0, 34.0, 24.0
_APART = 10.0  # pixels between labels

Points = Sequence[tuple[float, float]]


def heading(words: str, width: float) -> str:
    return fitted(MARGIN, 24, width - 2 * MARGIN, words, 200, cls="heading")


def plot(ys: Iterable[float], xs: Iterable[float] | None, width: float, top: float, bottom: float) -> tuple[Axis, Axis]:
    """The axes x and y of a plot beside the labels of `y`; `xs` None: from 0 to 1."""
    y = Axis.around(ys, bottom, top)
    left = MARGIN + max(len(label) for _, label in y.ticks(5)) * CHARACTER + 8
    right = width - MARGIN
    return Axis(0.0, 1.0, left, right) if xs is None else Axis.around(xs, left, right), y


def frame(x: Axis, y: Axis, across: str, up: str) -> str:
    """Grid and labels of both axes, with the title `across` of x below it and `up` of y above it."""
    parts = [text(MARGIN, y.end - 16, up, cls="soft")]
    for value, label in y.ticks(5):
        at = y.at(value)
        parts += [line(x.start, at, x.end, at, "grid"), text(x.start - 8, at + 4, label, cls="soft", anchor="end")]
    parts += [line(x.at(value), y.start, x.at(value), y.start + 4, "axis") for value, _ in spread(x, 10)]
    return "".join([*parts, scale(x, y.start, across)])


def scale(x: Axis, bottom: float, title: str) -> str:
    """The line of an axis at the bottom with labels that do not touch, and its title."""
    parts = [line(x.start, bottom, x.end, bottom, "axis")]
    for value, label in spread(x, 10):
        inside = x.end + MARGIN - len(label) * CHARACTER / 2
        parts.append(text(min(x.at(value), inside), bottom + 18, label, cls="soft", anchor="middle"))
    parts.append(text((x.start + x.end) / 2, bottom + 38, title, cls="soft", anchor="middle"))
    return "".join(parts)


def spread(x: Axis, most: int) -> list[tuple[float, str]]:
    """About `most` ticks, or as many fewer as their labels side by side leave room for."""
    for about in range(most, 0, -1):
        ticks = x.ticks(about)
        widest = max(len(label) for _, label in ticks) * CHARACTER + _APART
        if len(ticks) == 1 or x.at(ticks[1][0]) - x.at(ticks[0][0]) >= widest:
            return ticks
    return x.ticks(1)[:1]


def through(x: Axis, y: Axis, points: Points, cls: str, *, steps: bool = False) -> str:
    """A line through points from left to right; with `steps` each value holds up to the next point."""
    parts: list[str] = []
    height = ""
    for place, (across, up) in enumerate(points):
        at, before, height = f"{x.at(across):.1f}", height, f"{y.at(up):.1f}"
        if not place or not steps:
            parts.append(f"{'L' if place else 'M'}{at} {height}")
        elif height != before or place == len(points) - 1:
            parts.append(f"H{at}V{height}")
    return tag("path", d="".join(parts), cls=cls)


def key(entries: Sequence[tuple[str, str]], width: float, top: float) -> tuple[float, str]:
    """Samples of styles with their words, in as many rows as they need; and the height of these."""
    parts, left, row = [], MARGIN, 0
    for words, style in entries:
        room = min(len(words) * CHARACTER, width - 2 * MARGIN - _SAMPLE)
        if left > MARGIN and left + _SAMPLE + room > width - MARGIN:
            left, row = MARGIN, row + 1
        y = top + _ROW * row
        parts += [line(left, y - 4, left + 26, y - 4, style)]
        parts += [fitted(left + _SAMPLE, y, width - MARGIN - left - _SAMPLE, words, 200)]
        left += _SAMPLE + room + _GAP
    return _ROW * (row + 1), "".join(parts)
