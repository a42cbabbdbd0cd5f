"""What asking feature by feature costs, and what it brings, budget by budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api.charts.axis import Axis, short
from app.api.charts.frame import BELOW, Points, frame, heading, key, plot, through
from app.api.charts.svg import document, stacked, tag, text

_WIDTH, _TOP, _BOTTOM = 860.0, 92.0, 292.0
_HEIGHT = _BOTTOM + BELOW
_WAYS = {
    "plain": ("asked to the end", "plain"),
    "vote_stopping": ("until the vote is settled", "posterior"),
    "worth_stopping": ("while it is worth the price", "line"),
}
_TARGETED = {**_WAYS, "worth_stopping": ("until the target", "line")}


def acquisition_chart(simulation: Mapping[str, Any]) -> str:
    """Error against mean cost, and with benefits the net benefit, too."""
    name = f"{simulation['model']['name']}:{simulation['model']['version']}"
    error = "Error rate" if simulation["measure"] == "error_rate" else "Mean squared error"
    priced = simulation["nothing"]["net_benefit"] is not None
    ways = _WAYS if priced else _TARGETED
    panels = [_panel(simulation, "error", f"{error} against cost: {name}, {simulation['rows']} rows", error, ways)]
    if priced:
        earned = "Net benefit (benefit less cost)"
        panels.append(_panel(simulation, "net_benefit", f"{earned} against cost", f"{earned} per row", ways))
    description = f"{_told(simulation, 'error', error, ways)}. Straight lines join budgets that were simulated."
    return document(
        _WIDTH, *stacked([(_HEIGHT, panel) for panel in panels]), f"Asking step by step: {name}", description
    )


def _panel(
    simulation: Mapping[str, Any], measure: str, title: str, up: str, ways: Mapping[str, tuple[str, str]]
) -> str:
    lines = _lines(simulation, measure, ways)
    ends = [(words, simulation[words]["cost"], simulation[words][measure]) for words in ("nothing", "everything")]
    places = [point for points in lines.values() for point in points] + [(cost, value) for _, cost, value in ends]
    x, y = plot([value for _, value in places], [cost for cost, _ in places], _WIDTH, _TOP, _BOTTOM)
    return "".join(
        (
            heading(title, _WIDTH),
            key([ways[way] for way in lines], _WIDTH, 50)[1],
            frame(x, y, "mean cost per row", up),
            *(_line(x, y, way, points) for way, points in lines.items()),
            *(_end(x, y, *end) for end in ends),
        )
    )


def _lines(simulation: Mapping[str, Any], measure: str, ways: Mapping[str, tuple[str, str]]) -> dict[str, Points]:
    """Cost and measure of each way's budgets, by cost."""
    lines = {
        way: sorted((run[way]["cost"], run[way][measure]) for run in simulation["budgets"] if run.get(way))
        for way in ways
        if (way, measure, ways) != ("worth_stopping", "error", _WAYS)  # there the matrix decides, not the vote
    }
    return {way: points for way, points in lines.items() if points}


def _told(simulation: Mapping[str, Any], measure: str, name: str, ways: Mapping[str, tuple[str, str]]) -> str:
    parts = [f"{name}: {short(simulation['nothing'][measure])} when nothing is bought"]
    for way, points in _lines(simulation, measure, ways).items():
        (first, low), (last, high) = points[0], points[-1]
        parts.append(f"{ways[way][0]} {short(low)} at cost {short(first)} to {short(high)} at cost {short(last)}")
    whole = simulation["everything"]
    return "; ".join([*parts, f"{short(whole[measure])} at cost {short(whole['cost'])} when everything is bought"])


def _line(x: Axis, y: Axis, way: str, points: Points) -> str:
    style = _WAYS[way][1]
    dot = "best" if style == "line" else "posterior-dot" if style == "posterior" else "dot"
    dots = (tag("circle", cx=x.at(cost), cy=y.at(value), r=3.5, cls=dot) for cost, value in points)
    return through(x, y, points, style) + "".join(dots)


def _end(x: Axis, y: Axis, words: str, cost: float, value: float) -> str:
    """A square with its words towards the middle: the cheapest end is on the left."""
    at, side, anchor = (x.at(cost), 8, "start") if words == "nothing" else (x.at(cost), -8, "end")
    mark = tag("rect", x=at - 4, y=y.at(value) - 4, width=8, height=8, cls="dot")
    return mark + text(at + side, y.at(value) - 8, f"buy {words}", cls="soft over", anchor=anchor)
