"""The three answers that have a chart, and when it is sent: what a cut earns, a comparison, a loss by size of set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response

from app.api.charts.axes import short
from app.api.charts.panels import Across, Dot, Mark, Panel, curve, curve_in_words, dots, dots_in_words, losses
from app.api.charts.svg import document, stacked
from app.api.codecs.media_types import JSON, SVG
from app.api.routing import media_type_of_answer

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"  # it is drawn with styles of its own
SVG_CONTENT: dict[str, Any] = {SVG: {"schema": {"type": "string"}}}
_WIDTH = 860.0
_MOST = 12  # sets of one chart


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
