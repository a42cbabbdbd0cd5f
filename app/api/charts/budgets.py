"""What asking feature by feature costs, and what it brings, budget by budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api.charts.axis import Axis
from app.api.charts.svg import CHARACTER, document, line, shifted, tag, text

_WIDTH, _HEIGHT = 860.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 24.0, 24.0, 84.0, 284.0
_WAYS = {
    "plain": ("asked to the end", "plain"),
    "vote_stopping": ("until the vote is settled", "posterior"),
    "worth_stopping": ("while it is worth the price", "line"),
}
_TARGETED = {**_WAYS, "worth_stopping": ("until the target", "line")}


def acquisition_chart(simulation: Mapping[str, Any]) -> str:
    """Error against mean cost, and with benefits the net benefit, too."""
    name = f"{simulation['model']['name']}:{simulation['model']['version']}"
    error = "Error" if simulation["measure"] == "error_rate" else "Mean squared error"
    priced = simulation["nothing"]["net_benefit"] is not None
    ways = _WAYS if priced else _TARGETED
    measures = [("error", f"{error} against cost: {name}, {simulation['rows']} rows")]
    if priced:
        measures.append(("net_benefit", "Net benefit (benefit less cost) against cost"))
    panels = [shifted(i * _HEIGHT, _panel(simulation, *measure, ways)) for i, measure in enumerate(measures)]
    description = "Mean cost per row against " + " and ".join(measure.replace("_", " ") for measure, _ in measures)
    return document(_WIDTH, _HEIGHT * len(panels), f"Asking step by step: {name}", description, "".join(panels))


def _panel(simulation: Mapping[str, Any], measure: str, heading: str, ways: Mapping[str, tuple[str, str]]) -> str:
    lines = {
        way: [(run[way]["cost"], run[way][measure]) for run in simulation["budgets"] if run.get(way)]
        for way in ways
        if (way, measure, ways) != ("worth_stopping", "error", _WAYS)  # there the matrix decides, not the vote
    }
    ends = [(words, simulation[words]["cost"], simulation[words][measure]) for words in ("nothing", "everything")]
    places = [point for points in lines.values() for point in points] + [(cost, value) for _, cost, value in ends]
    y = Axis.around([value for _, value in places], _BOTTOM, _TOP)
    left = _LEFT + max(len(label) for _, label in y.ticks(5)) * CHARACTER + 8
    x = Axis.around([cost for cost, _ in places], left, _WIDTH - _RIGHT)
    return "".join(
        (
            text(_LEFT, 24, heading, cls="heading"),
            _key([ways[way] for way, points in lines.items() if points]),
            _frame(x, y),
            *(_line(x, y, way, sorted(points)) for way, points in lines.items() if points),
            *(_end(x, y, *end) for end in ends),
        )
    )


def _line(x: Axis, y: Axis, way: str, points: list[tuple[float, float]]) -> str:
    style = _WAYS[way][1]
    path = " ".join(f"{x.at(cost):.1f},{y.at(value):.1f}" for cost, value in points)
    dot = "best" if style == "line" else "posterior-dot" if style == "posterior" else "dot"
    dots = (tag("circle", cx=x.at(cost), cy=y.at(value), r=3.5, cls=dot) for cost, value in points)
    return tag("polyline", points=path, cls=style, fill="none") + "".join(dots)


def _end(x: Axis, y: Axis, words: str, cost: float, value: float) -> str:
    at = x.at(cost)
    anchor = "end" if at > (x.start + x.end) / 2 else "start"
    mark = tag("rect", x=at - 4, y=y.at(value) - 4, width=8, height=8, cls="dot")
    return mark + text(
        at - 8 if anchor == "end" else at + 8, y.at(value) - 8, f"buy {words}", cls="soft", anchor=anchor
    )


def _frame(x: Axis, y: Axis) -> str:
    parts = []
    for value, label in y.ticks(5):
        at = y.at(value)
        parts += [line(x.start, at, x.end, at, "grid"), text(x.start - 8, at + 4, label, cls="soft", anchor="end")]
    for value, label in x.ticks(8):
        at = x.at(value)
        parts += [line(at, y.start, at, y.start + 4, "axis")]
        parts += [text(at, y.start + 18, label, cls="soft", anchor="middle")]
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text((x.start + x.end) / 2, y.start + 38, "mean cost per row", cls="soft", anchor="middle"))
    return "".join(parts)


def _key(ways: list[tuple[str, str]]) -> str:
    parts, left = [], _LEFT
    for words, style in ways:
        parts += [line(left, 46, left + 26, 46, style), text(left + 34, 50, words)]
        left += 34 + len(words) * CHARACTER + 24
    return "".join(parts)
