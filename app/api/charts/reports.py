"""Charts of answers: what a cut earns, a comparison, a loss by size of set; and their panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fastapi import Request, Response

from app.api.charts.drawing import (
    BELOW,
    CHARACTER,
    MARGIN,
    Axis,
    Points,
    document,
    fitted,
    frame,
    heading,
    key,
    line,
    plot,
    scale,
    short,
    shortened,
    spread,
    stacked,
    tag,
    text,
    through,
)
from app.api.codecs.media_types import JSON, SVG
from app.api.routing import media_type_of_answer

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"  # it is drawn with styles of its own
SVG_CONTENT: dict[str, Any] = {SVG: {"schema": {"type": "string"}}}
_WIDTH = 860.0
_MOST = 12  # sets of one chart
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


def wants_svg(request: Request) -> bool:
    """Whether `Accept` wants the chart more than JSON, which any wildcard stands for; of equals the first counts."""
    return media_type_of_answer(request, (SVG, JSON, "application/*", "*/*")) == SVG


def svg(content: str) -> Response:
    return Response(content, media_type=SVG, headers={"Vary": "Accept", "Content-Security-Policy": _POLICY})


def benefit_chart(report: Mapping[str, Any], *, corrected: bool) -> str:
    """A benefit report: B(t) where there is one, and every rule with its interval.

    `corrected`: probabilities were corrected for priors, so the posterior threshold is not on the scores' axis.
    """
    model = report["model"]
    name = "the probabilities sent" if model is None else f"{model['name']}:{model['version']}"
    contenders = [_dot("", standing, best=standing["rule"] == report["best"]["rule"]) for standing in report["rules"]]
    best = report["best"]
    runner_up = best["runner_up"] and best["runner_up"].replace("_", " ")
    notes = _verdict(best["rule"].replace("_", " "), runner_up, best)
    title = f"What each rule earns: {name}, {report['rows']} rows ({report['evaluation']})"
    across = [Across("upper bound", report["upper_bound"], "bound")]
    rules = Panel(title, notes, "rule", "benefit per row", contenders, across)
    width = max(_WIDTH, rules.width)
    panels, told = [dots(width, rules)], [*notes, dots_in_words(contenders)]
    if report["curve"] is not None:
        points = [(point["threshold"], point["benefit"]) for point in report["curve"]]
        marks = _marks(report, corrected=corrected)
        panels.insert(0, curve(width, f"What a cut would earn: {name}", points, report["upper_bound"], marks))
        told.append(curve_in_words(points, marks))
    return document(width, *stacked(panels), f"Benefit of {name}", " ".join(told))


def comparison_chart(result: Mapping[str, Any]) -> str:
    """The table of a comparison: learners as groups, rules as their rows."""
    best = result["best"]
    contenders = [
        _dot(row["learner"] or "no model", row, best=(row["learner"], row["rule"]) == (best["learner"], best["rule"]))
        for row in result["table"]
    ]
    runner_up = None if best["runner_up"] is None else _named(best["runner_up"])
    notes = _verdict(_named(best), runner_up, best)
    across = [
        Across("upper bound", result["upper_bound"], "bound"),
        Across("best single action for all", result["same_for_all"]["benefit"], "plain"),
    ]
    title = f"What each learner earns with each rule, {result['rows']} rows"
    panel = Panel(title, notes, "learner and rule", "benefit per row", contenders, across)
    width = max(_WIDTH, panel.width)
    told = " ".join([*notes, dots_in_words(contenders)])
    return document(width, *dots(width, panel), "Comparison of learners and rules", told)


def retrieval_chart(loss: str, sets: Sequence[tuple[Sequence[float], int]]) -> str:
    """The expected loss by number of items of the first sets: each its curve, and how many were retrieved."""
    words = f"Expected loss ({loss.replace('_', ' ')}) by number of items"
    shown = [(f"{words}: set {place} of {len(sets)}", one) for place, one in enumerate(sets[:_MOST], 1)]
    panels = [losses(_WIDTH, title, curve, k) for title, (curve, k) in shown]
    told = [f"{title}: {short(curve[k])} with {k} of {len(curve) - 1}, {short(curve[0])} with none,"
            f" {short(curve[-1])} with all" for title, (curve, k) in shown]  # fmt: skip
    return document(_WIDTH, *stacked(panels), words, "; ".join(told) + ".")


def _dot(group: str, standing: Mapping[str, Any], *, best: bool) -> Dot:
    low, high = standing["interval"]
    name = standing["rule"].replace("_", " ")
    return Dot(group, name, standing["benefit"], low, high, standing["mu"], best)


def _named(contender: Mapping[str, Any]) -> str:
    rule = contender["rule"].replace("_", " ")
    return rule if contender["learner"] is None else f"{contender['learner']} with {rule}"


def _verdict(best: str, runner_up: str | None, lead: Mapping[str, Any]) -> list[str]:
    if runner_up is None:
        return [f"Best: {best}.", "All earn the same on every row."]
    noise = "is more than noise" if lead["significant"] else "may be noise"
    return [f"Best: {best}.", f"Its lead of {short(lead['difference'])} {noise}; next comes {runner_up}."]


def _marks(report: Mapping[str, Any], *, corrected: bool) -> list[Mark]:
    marks = []
    threshold, posterior = report["threshold"], report["posterior_threshold"]
    if threshold is None:
        marks.append(Mark(f"one action is best throughout: {short(report['benefit'])}", "cut"))
    else:
        words = f"t* = {short(threshold)}, best on these rows: {short(report['benefit'])}"
        marks.append(Mark(words, "cut", threshold, report["benefit"]))
    earned = next((rule["benefit"] for rule in report["rules"] if rule["rule"] == "threshold_posterior"), None)
    if posterior is not None and earned is not None:
        on_axis = 0 <= posterior <= 1 and not corrected
        words = f"posterior threshold {short(posterior)}{'' if on_axis else ' (off this axis)'}: {short(earned)}"
        marks.append(Mark(words, "posterior", posterior if on_axis else None, earned if on_axis else None))
    return marks
