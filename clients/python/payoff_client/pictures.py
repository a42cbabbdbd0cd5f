"""Pictures of reports as inline SVG, for notebooks: readable in light and in dark.

Text and axes have the colour of the text around them, so that they suit any theme; the colours of
lines have a contrast of at least 3 on white and on black.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, Literal, NamedTuple

Style = Literal["first", "second", "plain"]
_STYLES: Mapping[Style, str] = {
    "first": 'color="#3a80d2"',
    "second": 'color="#c06a1c" stroke-dasharray="8 3"',
    "plain": 'stroke-dasharray="2 4"',
}
# The ends of a plot, in pixels.
_TOP = 50
_BOTTOM = 280
_LEFT = 78
_RIGHT = 594


class Line(NamedTuple):
    """A line through points (x, y), and its `band`: the low and the high end at each point.

    Of `dots` the points are not joined, and the band are their whiskers.
    """

    words: str
    points: Sequence[tuple[float, float]]
    style: Style = "first"
    band: Sequence[Sequence[float]] = ()
    dots: bool = False


def plot(
    title: str, titles: tuple[str, str], lines: Sequence[Line], *, dates: bool = False
) -> str:
    """Lines under the `titles` of x and y, as inline SVG; of `dates` x are ordinals of days.

    Without a title of x its numbers mean nothing, and are not written.
    """
    places = [x for line in lines for x, _ in line.points]
    heights = [y for line in lines for _, y in line.points]
    heights += [y for line in lines for pair in line.band for y in pair]
    x, x_ticks = _axis(places, _LEFT, _RIGHT, least=float(dates))
    y, y_ticks = _axis(heights, _BOTTOM, _TOP)
    parts = [
        _text(0, 16, title),
        _text(0, _TOP - 14, titles[1]),
        _text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, titles[0], "middle"),
    ]
    for value in y_ticks:
        parts.append(f'<path d="M{_LEFT} {y(value)}H{_RIGHT}" opacity=".2"/>')
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:,.6g}", "end"))
    for value in x_ticks if titles[0] else []:
        words = f"{date.fromordinal(int(value)):%d %b}" if dates else f"{value:,.6g}"
        parts.append(f'<path d="M{x(value)} {_BOTTOM}v4"/>')
        parts.append(_text(x(value), _BOTTOM + 18, words, "middle"))
    for row, line in enumerate(lines):
        height = _BOTTOM + 64 + 20 * row
        drawn = f'{_drawn(line, x, y)}<path d="M0 {height - 4}h26"/>'
        parts.append(f"<g {_STYLES[line.style]}>{drawn}</g>")
        parts.append(_text(34, height, line.words))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 0 624 {height + 16}"'
        f' width="624" role="img" aria-label="{escape(title)}" fill="none"'
        ' stroke="currentColor" stroke-width="1.6" stroke-linecap="round"'
        ' style="display:block;max-width:100%;font:12px system-ui,sans-serif">'
        f'{"".join(parts)}<path d="M{_LEFT} {_BOTTOM}H{_RIGHT}"/></svg>'
    )


def _outcomes(report: Mapping[str, Any]) -> str:
    """The difference beside what is tolerated; and promised and realised benefit, added up by day,
    from 0 on the day before the first.
    """
    gap, series = report["difference"], report["series"]
    is_known = gap["low"] is not None
    days = [date.fromisoformat(day).toordinal() for day in series["day"]]
    money = {
        name: [(days[0] - 1, 0.0), *zip(days, series[name], strict=True)]
        for name in ("realised", "promised")
    }
    band = [(0, 0), *zip(series["low"], series["high"], strict=True)]
    earnings = [
        Line(
            "realised, with its 95 % interval",
            money["realised"],
            band=band if is_known else [],
        ),
        Line("promised", money["promised"], "second"),
    ]
    difference = [
        Line(
            "as promised, with the tolerance",
            [(0, 0), (2, 0)],
            "plain",
            [(-gap["tolerance"], gap["tolerance"])] * 2,
        ),
        Line(
            "decided less promised, with its 95 % interval",
            [(1, gap["mean"])],
            band=[(gap["low"], gap["high"])] if is_known else [],
            dots=True,
        ),
    ]
    return plot("The difference", ("", "benefit per decision"), difference) + plot(
        "Promised and realised",
        ("day of the decision", "benefit, added up"),
        earnings,
        dates=True,
    )


def _decision_curve(report: Mapping[str, Any]) -> str:
    """The mean benefit at each threshold, in steps; the last rule is one action for all."""
    curve = [(point["threshold"], point["benefit"]) for point in report["curve"]]
    steps = [(after[0], y) for b, after in pairwise(curve) for y in (b[1], after[1])]
    bound, for_all = report["upper_bound"], report["rules"][-1]["benefit"]
    lines = [
        Line("mean benefit", [curve[0], *steps]),
        Line("upper bound", [(0, bound), (1, bound)], "second"),
        Line("one action for all", [(0, for_all), (1, for_all)], "plain"),
    ]
    return plot(
        "Decision curve",
        ("probability at which the action changes", "benefit per row"),
        lines,
    )


def _calibration(report: Mapping[str, Any]) -> str:
    """How often what was stated with a probability was true."""
    points = report["calibration_curve"]
    dots = [(point["stated"], point["occurred"]) for point in points]
    band = [point["interval"] for point in points]
    ends = sorted(value for pair in (*dots, *band) for value in pair)
    lines = [
        Line(
            "as often as stated",
            [(end, end) for end in ends[:: len(ends) - 1]],
            "plain",
        ),
        Line(
            "rows of about equal probability, with 95 % intervals",
            dots,
            band=band,
            dots=True,
        ),
    ]
    return plot(
        "Calibration curve",
        ("mean probability", "share of rows in which it was true"),
        lines,
    )


# By the field of a report that they draw, which no table repeats.
PICTURES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "series": _outcomes,
    "curve": _decision_curve,
    "calibration_curve": _calibration,
}


def _axis(
    values: Sequence[float], start: float, end: float, least: float = 0.0
) -> tuple[Callable[[float], float], list[float]]:
    """The pixel of a value, and about five round numbers, at least so far apart."""
    room = 0.05 * (max(values) - min(values)) or abs(values[0]) or 1.0
    low, high = min(values) - room, max(values) + room
    power = 10.0 ** floor(log10((high - low) / 5))
    steps = (factor * power for factor in (1, 2, 5, 10))
    step = max(next(step for step in steps if 5.001 * step >= high - low), least)
    ticks = [step * i for i in range(ceil(low / step), floor(high / step) + 1)]
    scale = (end - start) / (high - low)
    return lambda value: round(start + (value - low) * scale, 1), ticks


def _drawn(line: Line, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """The whiskers and the dots, which are lines of no length with round ends; or band and line."""
    at = [f"{x(px)} {y(py)}" for px, py in line.points]
    ends = [*zip(line.points, line.band, strict=False)]
    low, high = ([f"{x(px)} {y(end[i])}" for (px, _), end in ends] for i in (0, 1))
    if line.dots:
        bars = "".join(f"M{a}L{b}" for a, b in zip(low, high, strict=True))
        whiskers = f'<path d="{bars}" stroke-dasharray="none"/>'
        return f'{whiskers}<path d="M{"h0M".join(at)}h0" stroke-width="9"/>'
    area = "L".join([*high, *reversed(low)]) or at[0]
    shade = f'<path d="M{area}Z" fill="currentColor" opacity=".16" stroke="none"/>'
    return f'{shade}<path d="M{"L".join(at)}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} fill="currentColor" stroke="none">{escape(words)}</text>'
