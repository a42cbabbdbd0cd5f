"""The service's answers as charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api.charts.axis import short
from app.api.charts.curve import Mark, curve, curve_in_words
from app.api.charts.dots import Across, Dot, Panel, dots, dots_in_words
from app.api.charts.svg import document, stacked

_WIDTH = 860.0


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
