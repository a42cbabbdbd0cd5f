"""The report on outcomes as a chart: what was promised, what it earned, and what else would have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.api.charts.axis import short
from app.api.charts.dots import Across, Dot, Panel, dots, dots_in_words
from app.api.charts.svg import document, stacked

_WIDTH = 860.0
_VERDICTS = {
    "as_promised": "The decisions earn what was promised.",
    "over_promises": "The model over-promises: decisions earn less than expected.",
    "under_promises": "The model under-promises: decisions earn more than expected.",
    "undecided": "Undecided: the known cases do not prove either.",
}
_MOST = 60  # groups in the chart; the JSON has all


def outcomes_chart(report: Mapping[str, Any]) -> str:
    """Benefit per decision with 95 % intervals; the difference by group; expected and realised by decile."""
    model = report["model"]
    name = model["name"] if model["version"] is None else f"{model['name']}:{model['version']}"
    selective = report["selective"]["is"]
    notes = [
        _VERDICTS[report["verdict"]],
        f"Truth is known for {report['known']:,} of {report['decisions']:,} decisions"
        + (", more often after some actions: these figures are no estimates for all." if selective else "."),
    ]
    known = [_noted("", selective=selective)]
    unlike = f"Decisions, judged by their matrix, less what was promised, by {report['by']}"
    parts = "Decisions, judged by their matrix, in parts by expected benefit"
    even = [Across("as expected:", 0.0, "plain")]
    listed = [
        Panel(f"Benefit per decision: {name}", notes, "", "benefit per decision", [*_means(report)], _across(report)),
        Panel(unlike, known, report["by"] or "", "difference per decision", [*_groups(report)], even),
        Panel(parts, known, "tenth of the decisions", "benefit per decision", [*_deciles(report)]),
    ]
    panels = [panel for panel in listed if panel.contenders]
    width = max(_WIDTH, *(panel.width for panel in panels))
    told = " ".join([*notes, *(f"{panel.title}: {dots_in_words(panel.contenders)}" for panel in panels)])
    return document(width, *stacked([dots(width, panel) for panel in panels]), f"Outcomes of {name}", told)


def _noted(words: str, *, selective: bool) -> str:
    """Which cases an amount is about."""
    return f"{words}known cases only, selected by action" if selective else f"{words}known cases"


def _means(report: Mapping[str, Any]) -> Iterator[Dot]:
    note = _noted("", selective=report["selective"]["is"])
    expected, realised, alternatives = report["expected"], report["realised"], report["alternatives"]
    if expected["mean"] is not None:
        yield _dot("promise", "expected", expected["mean"], None, None, "all decisions, by the model")
    if realised["mean"] is not None:
        promised, difference = expected["mean_of_known"], report["difference"]
        yield _dot("promise", "expected", promised, None, None, note)
        if difference["mean"] is not None:  # what the verdict is about
            low, high = (None if difference[end] is None else promised + difference[end] for end in ("low", "high"))
            yield _dot(
                "promise", "decisions", promised + difference["mean"], low, high, f"{note}, by the matrix", best=True
            )
        received = f"{note}, with what people did and reported"
        yield _dot("promise", "received", realised["mean"], realised["low"], realised["high"], received)
    bounds = report["bounds"]
    if bounds["unknown"] and bounds["cases"]:
        held = bounds["if_probabilities_hold"]["mean"]
        yield _dot("promise", "bounds", held, bounds["mean_low"], bounds["mean_high"], "all decisions; worst and best")
    if alternatives is None:
        if expected["mean"] is None:
            yield _dot("promise", "nothing is known yet", 0.0, None, None, note)
        return
    base = alternatives["decided"]["mean"]
    yield _dot("on the same cases", "decided", base, None, None, note)
    for way in ("most_probable", "best_single_action", "perfect"):
        own = alternatives[way]
        if own is not None:
            low, high = (None if own["gain"][end] is None else base + own["gain"][end] for end in ("low", "high"))
            yield _dot("on the same cases", way.replace("_", " "), own["mean"], low, high, note)


def _groups(report: Mapping[str, Any]) -> Iterator[Dot]:
    note = _noted("", selective=report["selective"]["is"])
    for group in (report["groups"] or [])[-_MOST:]:
        own = group["difference"]
        if own["mean"] is not None:
            yield _dot("", str(group["group"]), own["mean"], own["low"], own["high"], note)


def _deciles(report: Mapping[str, Any]) -> Iterator[Dot]:
    note = _noted("", selective=report["selective"]["is"])
    for place, part in enumerate(report["deciles"], 1):
        cases = f"{part['cases']:,} cases, expected {short(part['expected'])}, {note}"
        yield _dot("", f"part {place}", part["realised"], None, None, cases)


def _dot(
    group: str, name: str, value: float, low: float | None, high: float | None, note: str, *, best: bool = False
) -> Dot:
    return Dot(group, name, value, value if low is None else low, value if high is None else high, None, best, note)


def _across(report: Mapping[str, Any]) -> list[Across]:
    expected = report["expected"]["mean_of_known"]
    note = _noted("expected, ", selective=report["selective"]["is"])
    return [] if expected is None else [Across(note, expected, "bound")]
