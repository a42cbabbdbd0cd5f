"""A tree of classifiers as a picture: the root on the left, each way out on a line of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.charts.axis import short
from app.api.charts.frame import heading
from app.api.charts.svg import document, fitted, line, tag, text

_COLUMN, _ROW, _BOX = 275.0, 58.0, 190.0
_LEFT, _TOP = 24.0, 48.0


_Node = Mapping[str, Any]


def tree_chart(title: str, nodes: Sequence[_Node]) -> str:
    """What each node `asks` for, what a path has `cost` there, and which score leads to nodes `upper` and `lower`."""
    rows = _rows(nodes)
    depths = _depths(nodes)
    width = 2 * _LEFT + _COLUMN * max(depths) + _BOX + 60
    height = _TOP + _ROW * (max(rows) + 1)
    ways = [_ways(nodes, rows, depths, k) for k in range(len(nodes))]
    boxes = [_box(nodes[k], _LEFT + _COLUMN * depths[k], _TOP + _ROW * rows[k]) for k in range(len(nodes))]
    described = f"{len(nodes)} nodes; a path costs up to {short(max(node['cost'] for node in nodes))}. "
    described += "; ".join(_told(place, node) for place, node in enumerate(nodes)) + "."
    body = heading(title, width) + "".join([*ways, *boxes])
    return document(width, height, body, title, described)


def _told(place: int, node: _Node) -> str:
    ways = ((node["upper"], ">"), (node["lower"], "≤"))
    leads = [f"{sign} {short(node['threshold'])} to node {way + 1}" for way, sign in ways if way is not None]
    asked = ", ".join(node["asks"]) or "nothing new"
    return f"node {place + 1}: {asked}, cost {short(node['cost'])}, {', '.join(leads) or 'predict'}"


def _rows(nodes: Sequence[_Node]) -> list[float]:
    """The line of each node: a leaf has its own, others are in the middle of their children."""
    rows = [0.0] * len(nodes)
    free = 0

    def put(k: int) -> None:
        nonlocal free
        children = [child for child in (nodes[k]["upper"], nodes[k]["lower"]) if child is not None]
        for child in children:
            put(child)
        if children:
            rows[k] = sum(rows[child] for child in children) / len(children)
        else:
            rows[k], free = float(free), free + 1

    put(0)
    return rows


def _depths(nodes: Sequence[_Node]) -> list[int]:
    depths = [0] * len(nodes)
    waiting = [0]
    while waiting:
        k = waiting.pop()
        for child in (nodes[k]["upper"], nodes[k]["lower"]):
            if child is not None:
                depths[child] = depths[k] + 1
                waiting.append(child)
    return depths


def _ways(nodes: Sequence[_Node], rows: Sequence[float], depths: Sequence[int], k: int) -> str:
    parts = []
    node = nodes[k]
    for child, sign in ((node["upper"], ">"), (node["lower"], "≤")):
        if child is None:
            continue
        start, end = _TOP + _ROW * rows[k], _TOP + _ROW * rows[child]
        x = _LEFT + _COLUMN * depths[k] + _BOX
        parts.append(line(x, start + 18, x + _COLUMN - _BOX, end + 18, "axis"))
        parts.append(text(x + 6, (start + end) / 2 + 14, f"{sign} {short(node['threshold'])}", cls="soft"))
    return "".join(parts)


def _box(node: _Node, x: float, y: float) -> str:
    asked = ", ".join(node["asks"]) or "nothing new"
    ends = node["upper"] is None and node["lower"] is None
    some = not ends and (node["upper"] is None or node["lower"] is None)
    what = f"cost {short(node['cost'])}" + (", predict" if ends else ", predict or go on" if some else "")
    return (
        tag("rect", x=x, y=y - 4, width=_BOX, height=44, cls="paper")
        + tag("rect", x=x, y=y - 4, width=_BOX, height=44, cls="best-whisker", fill="none", rx=4)
        + fitted(x + 8, y + 14, _BOX - 12, asked, 27)
        + text(x + 8, y + 32, what, cls="best-text" if ends else "soft")
    )
