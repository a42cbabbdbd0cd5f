"""B(t): what a cut at t would have earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.api.charts.axis import Axis, short
from app.api.charts.svg import CHARACTER, line, shortened, tag, text

HEIGHT = 352.0
_LEFT, _RIGHT = 24.0, 24.0
_TOP, _BOTTOM = 92.0, 304.0
_KEY_TOP, _KEY_ROW = 52.0, 18.0


@dataclass(frozen=True)
class Mark:
    """A threshold with what it earns; `place` None: only told in words."""

    words: str
    style: str
    place: float | None = None
    height: float | None = None


def curve(
    width: float, heading: str, points: Sequence[tuple[float, float]], bound: float, marks: Sequence[Mark]
) -> str:
    """A panel `HEIGHT` high: the curve through points (t, B), the bound as a line across, and marks at thresholds."""
    y = Axis.around([bound, *(value for _, value in points)], _BOTTOM, _TOP)
    x = Axis(0.0, 1.0, _LEFT + max(len(label) for _, label in y.ticks(5)) * CHARACTER + 8, width - _RIGHT)
    path = " ".join(f"{x.at(t):.1f},{y.at(value):.1f}" for t, value in points)
    key = [("mean benefit B(t) on rows not seen", "line"), (f"upper bound {short(bound)}", "bound")]
    key += [(mark.words, mark.style) for mark in marks]
    return "".join(
        (
            text(_LEFT, 24, heading, cls="heading"),
            _key(key, width),
            _frame(x, y),
            line(x.start, y.at(bound), x.end, y.at(bound), "bound"),
            *(
                line(x.at(mark.place), _TOP, x.at(mark.place), _BOTTOM, mark.style)
                for mark in marks
                if mark.place is not None
            ),
            tag("polyline", points=path, cls="line"),
            *(_dot(x, y, mark) for mark in marks),
        )
    )


def _dot(x: Axis, y: Axis, mark: Mark) -> str:
    if mark.place is None or mark.height is None:
        return ""
    style = "posterior-dot" if mark.style == "posterior" else "best"
    return tag("circle", cx=x.at(mark.place), cy=y.at(mark.height), r=4.5, cls=style)


def _frame(x: Axis, y: Axis) -> str:
    parts = []
    for value, label in y.ticks(5):
        at = y.at(value)
        parts += [line(x.start, at, x.end, at, "grid"), text(x.start - 8, at + 4, label, cls="soft", anchor="end")]
    for value, label in x.ticks(10):
        at = x.at(value)
        parts += [
            line(at, y.start, at, y.start + 4, "axis"),
            text(at, y.start + 18, label, cls="soft", anchor="middle"),
        ]
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text((x.start + x.end) / 2, y.start + 38, "threshold t on the score", cls="soft", anchor="middle"))
    return "".join(parts)


def _key(entries: Sequence[tuple[str, str]], width: float) -> str:
    """Two columns of samples with words."""
    parts = []
    column = (width - _LEFT - _RIGHT) / 2
    for place, (words, style) in enumerate(entries):
        left = _LEFT + column * (place % 2)
        height = _KEY_TOP + _KEY_ROW * (place // 2)
        parts.append(line(left, height - 4, left + 26, height - 4, style))
        parts.append(text(left + 34, height, shortened(words, 60)))
    return "".join(parts)
