"""What recorded decisions earned, against what was expected of them: the pass over all cases, and
the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from time import time
from typing import Any, Literal

import numpy as np

from app.outcomes.decision import UNIT_COSTS, UNKNOWN, Cases, Label, date_of
from app.registry.index import check_listed
from app.registry.snapshot import Reference
from app.report.changes import (
    Changed,
    ClassShares,
    Scores,
    Trained,
    drift,
    feature_changes,
    trained,
)
from app.report.earned import UNEQUAL, Account, ActionCounts, basis
from app.report.quantities import Quantities
from app.report.slices import Slice, slices
from app.report.ways import Exploration, Ways, gain
from app.stores import Stores
from app.tables.text import some_of
from app.training.models import card_of
from payoff.errors import Invalid
from payoff.evidence.drift import holm
from payoff.evidence.intervals import SIGNIFICANT
from payoff.evidence.truths import ALPHA, Arrivals, Maturity

_WRONG = ("over_promises", "under_promises")
_NAMED = 10  # features
MOST_GROUPS = 1_000
_TIMED_CLASSES = 100  # of which each is timed apart; the others together

By = Literal["day", "week", "action", "version", "key"]


def report(
    stores: Stores,
    reference: str,
    *,
    since: float | None = None,
    until: float | None = None,
    by: By | None = None,
) -> dict[str, Any]:
    """The report on the decisions of `name` (all versions), `name:3` or `name@alias`, of [since,
    until) in seconds.

    Raises NotFound for what is not published, Invalid at /by with more than 1,000 groups. Three
    passes, O(decisions).
    """
    wanted = Reference.parse(reference)
    versions: list[int] | None = None
    if wanted.version is None and wanted.alias is None:
        with stores.database.reading() as connection:
            check_listed(connection, wanted.name)
    else:
        versions = [card_of(stores, reference).version]

    recorded = partial(
        stores.archive.cases, wanted.name, since=since, until=until, versions=versions
    )
    maturity = matured(recorded(arrivals_only=True), time())
    read = Read(cache(partial(trained, stores, wanted.name)), by, maturity)
    for cases in recorded():
        read.add(cases)
    scores = read.scores.changes()
    features = feature_changes(recorded(arrivals_only=True, with_instances=True))
    found = document(read, [*scores, *features])
    if found["quantities"] and not found["decisions"]:
        if by is not None:
            raise Invalid.at("/by", "quantities have no groups; leave out 'by'")
        found = {name: found[name] for name in ("quantities", "maturing", "warnings")}
    elif not found["decisions"]:
        fix = 'send "record": true to /predict'
        if versions is not None:
            fix = f"ask for {wanted.name}, which is all versions, or {fix}"
        found["warnings"].append(f"no decision of {reference} is recorded in this period: {fix}")
    model = {"name": wanted.name, "version": versions[0] if versions else None}
    period = {
        "since": since,
        "until": until,
    }  # as moments: of a number, pydantic would guess the unit
    ends = {
        name: None if at is None else datetime.fromtimestamp(at, UTC) for name, at in period.items()
    }
    return found | {"model": model} | ends


def document(read: Read, changes: Sequence[Changed]) -> dict[str, Any]:
    """All sections of the report."""
    total, maturity = read.total, read.maturity
    selective = read.actions.document()
    about = basis(total.known, total.decisions, selective=selective["is"], reason=maturity.reason)
    doubt = maturity.reason or (UNEQUAL if selective["is"] else None)
    missing = None if total.known == total.decisions else read.shares.missing(read.classes)
    drifted = drift(changes)
    details = {
        "maturing": maturing(maturity),
        "selective": selective,
        "exploration": read.exploration.document(maturity.reason),
        "alternatives": read.ways.alternatives(about),
        "overrides": read.ways.overriding(about, doubt),
        "told_benefits": gain(read.ways.told, about),
        "priors": read.shares.document(
            read.trained, read.classes, about, selective=doubt is not None
        ),
        "drift": {
            "scores": [line for line in drifted if "version" in line],
            "features": [line for line in drifted if "feature" in line],
            "not_compared": [name for name, change in changes if change is None],
        },
        "shadow": read.ways.challengers(about, doubt),
        "groups": None
        if read.by is None
        else _grouped(read.groups, about, maturity.reason or missing),
    }
    first = total.document(about, maturity.reason or missing)
    return {
        **first,
        "advice": list(_advice(first["verdict"], details)),
        "warnings": list(_warnings(read, selective)),
        "by": read.by,
        **details,
        "quantities": read.quantities.document(maturity.reason)
        if read.quantities.decisions
        else None,
    }


def _advice(verdict: str, details: Mapping[str, Any]) -> Iterator[str]:
    """What to do about what the report found."""
    if verdict in _WRONG:
        changed = any(version["changed"] for version in details["priors"]["versions"])
        first = (
            'send the shares of the classes, which have changed, as "priors", or '
            if changed
            else ""
        )
        yield f"{first}train again, also on what was seen (POST /datasets/from-outcomes)"
    for one in details["shadow"]:
        if one["verdict"] == "better":
            yield f"{one['challenger']} earns more on the same cases: point the alias at it"
    if details["overrides"]["right"] == "people":
        yield "people who took another action earned more: find out what they know that the model is not told"
    if details["selective"]["is"]:
        yield f'{UNEQUAL}: "explore" a share of the decisions, so that it becomes known after each'
    moved = [line["feature"] for line in details["drift"]["features"] if line["drifted"]]
    if moved:
        yield f"these features have changed, so look at what sends them: {some_of(list(dict.fromkeys(moved)), _NAMED)}"


def maturing(maturity: Maturity) -> dict[str, Any]:
    """The section on truths that are not used yet."""
    return {
        "since": None if maturity.since is None else date_of(maturity.since).isoformat(),
        "known_left_out": maturity.left_out,
        "lags_by_class_differ": None if maturity.p_value is None else maturity.p_value < ALPHA,
        "p_value": maturity.p_value,
        "reason": maturity.reason,
    }


def _grouped(groups: Mapping[Any, Account], basis: str, reason: str | None) -> list[dict[str, Any]]:
    """By name, of several kinds by its text. Verdicts are corrected for the number of groups
    (Holm).
    """
    names = sorted(
        groups,
        key=lambda name: (isinstance(name, str), name if isinstance(name, int) else 0, str(name)),
    )
    figures = [groups[name].document(basis, reason) for name in names]
    p_values = [one["difference"]["p_value"] for one in figures]
    tested = [i for i, p in enumerate(p_values) if p is not None]
    adjusted = dict(
        zip(tested, holm(np.array([p_values[i] for i in tested])).tolist(), strict=True)
    )
    for i, one in enumerate(figures):
        one["adjusted_p_value"] = adjusted.get(i)
        if one["verdict"] in _WRONG and not adjusted.get(i, 1.0) < SIGNIFICANT:
            one["verdict"] = "undecided"
    return [{"group": name, **one} for name, one in zip(names, figures, strict=True)]


def reservations(maturity: Maturity, *, selective: bool) -> Iterator[str]:
    """What lateness and selection of truths do to figures about known cases."""
    if maturity.since is not None:
        yield (
            f"many truths of decisions since {date_of(maturity.since).isoformat()} are still to come:"
            f" the {maturity.left_out} that are known are left out, as they may differ from the others"
        )
    if maturity.reason is not None:
        yield f"nothing is concluded: {maturity.reason}"
    if selective:
        yield f"{UNEQUAL}: known cases are no fair sample, figures about them no estimates for all"


def _warnings(read: Read, selective: Mapping[str, Any]) -> Iterator[str]:
    total = read.total
    yield from reservations(read.maturity, selective=selective["is"])
    known, decisions = (
        total.known + read.quantities.realised.count,
        total.decisions + read.quantities.decisions,
    )
    if not known and not read.maturity.left_out and decisions:
        yield "no truth is known: send what became of the decisions to POST /outcomes"
    elif not selective["is"] and 0 < total.known < total.decisions:
        yield "truth is not known for all decisions: what is unknown may differ; see bounds"
    if len(total.promise.days) == 1:
        yield "all known truths are of one day: the verdict is about that day, as the next one may differ"
    unpriced = total.decisions - total.expecting
    if unpriced:
        yield f"{unpriced} decisions have no benefit matrix; they are counted, and no amount is about them"
    if read.exploration.cases.stride > 1:
        yield "exploration is of evenly spaced cases, as there are many"


def matured(days: Iterable[Cases], now: float) -> Maturity:
    """Which truths are not to be used yet at `now`, in seconds: those of days of which many are
    still to come.

    Where clients say when truths were known, they may send them later, so none is expected after
    the last one sent.
    """
    arrivals, labels, last, is_stated = Arrivals(now), dict[Label, int](), -np.inf, False
    for cases in filter(len, days):
        codes = [
            [labels.setdefault(label, len(labels)) for label in term.classes]
            for term in cases.terms
        ]
        width = max(map(len, codes))
        table = np.array([[*own, *[0] * (width - len(own))] for own in codes]).reshape(-1, width)
        known = cases.truth != UNKNOWN
        truth = np.full(len(cases), UNKNOWN)
        truth[known] = np.minimum(table[cases.term[known], cases.truth[known]], _TIMED_CLASSES - 1)
        known_at = np.where(np.isnan(cases.outcome_at), cases.received_at, cases.outcome_at)
        arrivals.add(cases.day, cases.at, truth, known_at, min(len(labels), _TIMED_CLASSES))
        last = float(np.fmax.reduce(cases.received_at, initial=last))
        is_stated = is_stated or not np.isnan(cases.outcome_at).all()
    if is_stated:
        arrivals.now = min(now, last)
    return arrivals.judge()


@dataclass
class Read:
    """The sections of a report, each of which reads the cases slice by slice."""

    trained: Trained
    by: By | None = None
    maturity: Maturity = field(default_factory=Maturity)
    total: Account = field(default_factory=Account)
    actions: ActionCounts = field(default_factory=ActionCounts)
    ways: Ways = field(default_factory=Ways)
    exploration: Exploration = field(default_factory=Exploration)
    quantities: Quantities = field(default_factory=Quantities)
    shares: ClassShares = field(default_factory=ClassShares)
    scores: Scores = field(default_factory=Scores)
    groups: dict[Any, Account] = field(default_factory=dict)
    classes: dict[int, tuple[Label, ...]] = field(default_factory=dict)

    def add(self, cases: Cases) -> None:
        """The cases of a day, or a part of them."""
        sections = (self.total, self.actions, self.ways, self.exploration, self.scores)
        for part in slices(cases, self.maturity.since):
            if part.stack.terms[0].rule == UNIT_COSTS:
                self.quantities.add(part)
                continue
            for section in sections:
                section.add(part)
            self.shares.add(part, self.trained)
            if self.by is not None:
                self._group(part, self.by)
        for term in cases.terms:
            self.classes.setdefault(term.version, term.classes)

    def _group(self, part: Slice, by: By) -> None:
        names, code = groups(part, by)
        for place in np.unique(code):
            if names[place] not in self.groups and len(self.groups) >= MOST_GROUPS:
                raise Invalid.at(
                    "/by", f"there are more than {MOST_GROUPS:,} groups; send since and until"
                )
            self.groups.setdefault(names[place], Account()).add(part, np.flatnonzero(code == place))


def groups(part: Slice, by: By) -> tuple[list[Label | None], np.ndarray]:
    """What the cases are grouped by, and the code (n,) of each case's group."""
    if by == "action":
        return list(part.stack.actions), part.choice
    if by == "version":
        return [part.stack.version], np.zeros(len(part), dtype=np.intp)
    if by == "key":
        return list(part.keys), part.key
    own = date_of(part.day)
    start = own - timedelta(days=own.weekday()) if by == "week" else own
    return [start.isoformat()], np.zeros(len(part), dtype=np.intp)
