"""Charts of answers: what each threshold earns, a comparison, a loss by size of set."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response

from app.api.bodies import media_type_of_answer
from app.api.codecs.media_types import JSON, SVG
from app.api.drawing import Dot, Mark, plot, ranked, short, stacked

SVG_CONTENT: dict[str, Any] = {SVG: {"schema": {"type": "string"}}}
# A chart has styles of its own.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_MAX_SETS = 12  # of one chart
_MAX_STEPS = 500  # of a curve over sizes: more are finer than paper shows


def wants_svg(request: Request) -> bool:
    """Whether `Accept` prefers the chart to JSON, which any wildcard stands for; of equals the
    first counts.
    """
    return media_type_of_answer(request, (SVG, JSON, "application/*", "*/*")) == SVG


def svg(content: str) -> Response:
    return Response(
        content,
        media_type=SVG,
        headers={"Vary": "Accept", "Content-Security-Policy": _POLICY},
    )


def benefit_chart(report: Mapping[str, Any], *, corrected: bool) -> str:
    """A benefit report: B(t) where there is one, and every rule with its interval.

    `corrected`: probabilities were corrected for priors, so the posterior threshold is not on the
    scores' axis.
    """
    model = report["model"]
    best = report["best"]
    bound = report["upper_bound"]
    name = (
        "the probabilities sent"
        if model is None
        else f"{model['name']}:{model['version']}"
    )
    contenders = [
        _dot("", standing, best=standing["rule"] == best["rule"])
        for standing in report["rules"]
    ]
    notes = _verdict(
        _spaced(best["rule"]), best["runner_up"] and _spaced(best["runner_up"]), best
    )
    title = (
        f"What each rule earns: {name}, {report['rows']} rows ({report['evaluation']})"
    )
    marks = [Mark(f"upper bound {short(bound)}", "bound", bound)]
    panels = [ranked(title, notes, "rule", contenders, marks)]
    if report["curve"] is not None:
        points = [(point["threshold"], point["benefit"]) for point in report["curve"]]
        entries = [
            Mark("decision curve B(t): mean benefit on rows not seen", "line"),
            Mark(f"upper bound {short(bound)}", "bound", height=bound),
            *_thresholds(report, corrected=corrected),
        ]
        titles = "threshold t on the score", "mean benefit per row"
        panels.insert(
            0, plot(f"What a cut would earn: {name}", points, entries, titles)
        )
    return stacked(panels, f"Benefit of {name}")


def comparison_chart(result: Mapping[str, Any]) -> str:
    """The table of a comparison: learners as groups, rules as their rows."""
    best = result["best"]
    bound = result["upper_bound"]
    same_for_all = result["same_for_all"]["benefit"]
    contenders = []
    for row in result["table"]:
        is_best = (row["learner"], row["rule"]) == (best["learner"], best["rule"])
        contenders.append(_dot(row["learner"] or "no model", row, best=is_best))
    notes = _verdict(
        _named(best), best["runner_up"] and _named(best["runner_up"]), best
    )
    title = f"What each learner earns with each rule, {result['rows']} rows"
    lines = [
        Mark(f"upper bound {short(bound)}", "bound", bound),
        Mark(
            f"best single action for all {short(same_for_all)}", "plain", same_for_all
        ),
    ]
    panel = ranked(title, notes, "learner and rule", contenders, lines)
    return stacked([panel], "Comparison of learners and rules")


def retrieval_chart(loss: str, sets: Sequence[tuple[Sequence[float], int]]) -> str:
    """The expected loss by number of items of the first sets: each its curve, and how many were
    retrieved.
    """
    words = f"Expected loss ({_spaced(loss)}) by number of items"
    panels = []
    for number, (curve, k) in enumerate(sets[:_MAX_SETS], 1):
        size = len(curve) - 1
        sizes = sorted(
            {k, *(size * step // _MAX_STEPS for step in range(_MAX_STEPS + 1))}
        )
        points = [(float(n), curve[n]) for n in sizes]
        retrieved = f"retrieved: {k} of {size} items, {short(curve[k])}"
        entries = [Mark("expected loss", "line"), Mark(retrieved, "cut", k, curve[k])]
        titles = "items retrieved", "expected loss"
        panels.append(
            plot(f"{words}: set {number} of {len(sets)}", points, entries, titles)
        )
    return stacked(panels, words)


def _dot(group: str, standing: Mapping[str, Any], *, best: bool) -> Dot:
    low, high = standing["interval"]
    name = _spaced(standing["rule"])
    return Dot(group, name, standing["benefit"], low, high, standing["mu"], best)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _named(contender: Mapping[str, Any]) -> str:
    rule = _spaced(contender["rule"])
    return (
        rule if contender["learner"] is None else f"{contender['learner']} with {rule}"
    )


def _verdict(best: str, runner_up: str | None, lead: Mapping[str, Any]) -> list[str]:
    if runner_up is None:
        return [f"Best: {best}.", "All earn the same on every row."]
    noise = "is more than noise" if lead["significant"] else "may be noise"
    return [
        f"Best: {best}.",
        f"Its lead of {short(lead['difference'])} {noise}; next comes {runner_up}.",
    ]


def _thresholds(report: Mapping[str, Any], *, corrected: bool) -> list[Mark]:
    """The best cut and the one that the matrix alone gives, with their benefits."""
    threshold = report["threshold"]
    benefit = report["benefit"]
    if threshold is None:
        marks = [Mark(f"one action is best throughout: {short(benefit)}", "cut")]
    else:
        words = f"best cut = {short(threshold)}, best on these rows: {short(benefit)}"
        marks = [Mark(words, "cut", threshold, benefit)]
    posterior = report["posterior_threshold"]
    benefits = {rule["rule"]: rule["benefit"] for rule in report["rules"]}
    earned = benefits.get("threshold_posterior")
    if posterior is not None and earned is not None:
        is_on_axis = 0 <= posterior <= 1 and not corrected
        suffix = "" if is_on_axis else " (off this axis)"
        words = f"posterior threshold {short(posterior)}{suffix}: {short(earned)}"
        place = (posterior, earned) if is_on_axis else ()
        marks.append(Mark(words, "posterior", *place))
    return marks
