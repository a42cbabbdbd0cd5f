"""A tree of classifiers as a picture: the root on the left, each way out on a line of its own."""

from __future__ import annotations

from collections.abc import Sequence

from app.acquisition.outline import Stop
from app.api.charts.axis import short
from app.api.charts.svg import document, line, shortened, tag, text

_COLUMN, _ROW, _BOX = 275.0, 58.0, 190.0
_LEFT, _TOP = 24.0, 48.0


def tree_chart(title: str, names: Sequence[str], stops: Sequence[Stop]) -> str:
    """What each node asks for by name, what a path has cost there, and which score leads where."""
    rows = _rows(stops)
    depths = _depths(stops)
    width = 2 * _LEFT + _COLUMN * max(depths) + _BOX + 60
    height = _TOP + _ROW * (max(rows) + 1)
    ways = [_ways(stops, rows, depths, k) for k in range(len(stops))]
    boxes = [_box(stops[k], names, _LEFT + _COLUMN * depths[k], _TOP + _ROW * rows[k]) for k in range(len(stops))]
    described = f"{len(stops)} nodes; a path costs up to {short(max(stop.cost for stop in stops))}"
    body = text(_LEFT, 24, title, cls="heading") + "".join([*ways, *boxes])
    return document(width, height, title, described, body)


def _rows(stops: Sequence[Stop]) -> list[float]:
    """The line of each node: a leaf has its own, others are in the middle of their children."""
    rows = [0.0] * len(stops)
    free = 0

    def put(k: int) -> None:
        nonlocal free
        children = [child for child in (stops[k].upper, stops[k].lower) if child >= 0]
        for child in children:
            put(child)
        if children:
            rows[k] = sum(rows[child] for child in children) / len(children)
        else:
            rows[k], free = float(free), free + 1

    put(0)
    return rows


def _depths(stops: Sequence[Stop]) -> list[int]:
    depths = [0] * len(stops)
    waiting = [0]
    while waiting:
        k = waiting.pop()
        for child in (stops[k].upper, stops[k].lower):
            if child >= 0:
                depths[child] = depths[k] + 1
                waiting.append(child)
    return depths


def _ways(stops: Sequence[Stop], rows: Sequence[float], depths: Sequence[int], k: int) -> str:
    parts = []
    stop = stops[k]
    for child, sign in ((stop.upper, ">"), (stop.lower, "≤")):
        if child < 0:
            continue
        start, end = _TOP + _ROW * rows[k], _TOP + _ROW * rows[child]
        x = _LEFT + _COLUMN * depths[k] + _BOX
        parts.append(line(x, start + 18, x + _COLUMN - _BOX, end + 18, "axis"))
        parts.append(text(x + 6, (start + end) / 2 + 14, f"{sign} {short(stop.threshold)}", cls="soft"))
    return "".join(parts)


def _box(stop: Stop, names: Sequence[str], x: float, y: float) -> str:
    asked = ", ".join(names[j] for j in stop.asks) or "nothing new"
    ends = stop.upper < 0 and stop.lower < 0
    some = not ends and (stop.upper < 0 or stop.lower < 0)
    what = f"cost {short(stop.cost)}" + (", predict" if ends else ", predict or go on" if some else "")
    return (
        tag("rect", x=x, y=y - 4, width=_BOX, height=44, cls="paper")
        + tag("rect", x=x, y=y - 4, width=_BOX, height=44, cls="best-whisker", fill="none", rx=4)
        + text(x + 8, y + 14, shortened(asked, 27))
        + text(x + 8, y + 32, what, cls="best-text" if ends else "soft")
    )
