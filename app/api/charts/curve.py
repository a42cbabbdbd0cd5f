"""B(t): what a cut at t would have earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.api.charts.axis import short
from app.api.charts.frame import BELOW, Points, frame, heading, key, plot, through
from app.api.charts.svg import line, tag

_PLOT = 212.0
_DOTS = {"cut": "best", "posterior": "posterior-dot"}


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
    x, y = plot([bound, *(value for _, value in points)], None, width, top, top + _PLOT)
    drawn = [(mark.place, mark.height, mark.style) for mark in marks if mark.place is not None]
    dots = [(place, height, style) for place, height, style in drawn if height is not None]
    best = [(place, height) for place, height, style in dots if style == "cut"]
    body = [
        heading(title, width),
        words,
        frame(x, y, "threshold t on the score", "mean benefit per row"),
        line(x.start, y.at(bound), x.end, y.at(bound), "bound"),
        *(line(x.at(place), y.end, x.at(place), y.start, style) for place, _, style in drawn),
        through(x, y, sorted([*points, *best]), "line", steps=True),
        *(tag("circle", cx=x.at(place), cy=y.at(height), r=4.5, cls=_DOTS[style]) for place, height, style in dots),
    ]
    return y.start + BELOW, "".join(body)


def curve_in_words(points: Points, marks: Sequence[Mark]) -> str:
    """The curve in words, for those who do not see it."""
    (first, low), (last, high) = points[0], points[-1]
    ends = f"B(t) is {short(low)} at threshold {short(first)} and {short(high)} at {short(last)}"
    return "; ".join([ends, *(mark.words for mark in marks)]) + "."
