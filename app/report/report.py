"""The report on recorded decisions: the pass over all cases, and the document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from time import time
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from app.outcomes.decision import GUARANTEED, UNIT_COSTS, UNKNOWN, Cases, Label, date_of
from app.registry.index import check_listed
from app.registry.snapshot import Reference
from app.report.changes import (
    Changed,
    ClassShares,
    Scores,
    Trained,
    drift,
    feature_changes,
    lacked,
    trained,
)
from app.report.earned import UNEQUAL, Account, ActionCounts, GroupAccount, basis
from app.report.guarantees import Guarantees
from app.report.quantities import Quantities
from app.report.rewards import RewardDecisions, RewardSums
from app.report.slices import Slice, slices
from app.report.ways import Exploration, Ways, gain
from app.stores import Stores
from app.tables.text import some_of
from app.training.models import card_of
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.errors import MAX_NAME, Invalid
from payoff.evidence.drift import holm_of_known
from payoff.evidence.intervals import SIGNIFICANT
from payoff.evidence.truths import ALPHA, Arrivals, Maturity

_WRONG = ("over_promises", "under_promises")
_MAX_NAMED_FEATURES = 10
MAX_GROUPS = 1_000
# the lags of so many classes are separate; further classes share one
_TIMED_CLASSES = 100

SEGMENT = "segment:"  # before the name of a column by whose values cases are grouped
OTHER = "other"  # the group of values that few cases have
_MOST_SEGMENTS = 50
_MOST_COUNTED = 10_000  # values of a segment; later ones count as few
By = Annotated[
    str,
    Field(
        pattern=f"^(day|week|action|version|key|{SEGMENT}.{{1,{MAX_NAME}}})$",
        description="day, week, action, version, key, or `segment:` and a column that decisions"
        " were recorded with",
        examples=["week"],
    ),
]


def report(
    stores: Stores,
    reference: str,
    *,
    since: float | None = None,
    until: float | None = None,
    by: By | None = None,
    series: bool = False,
) -> dict[str, Any]:
    """The report on the decisions of `name` (all versions), `name:3` or `name@alias`, of [since,
    until) in seconds; with `series` also `Account.series`.

    Raises NotFound for a model that is not published, Invalid at /by with more than `MAX_GROUPS`
    groups. Three passes, O(decisions).
    """
    model = Reference.parse(reference)
    versions = versions_of(stores, reference)
    recorded = partial(
        stores.archive.cases, model.name, since=since, until=until, versions=versions
    )
    counts: Counter[str | None] = Counter()
    arrivals = recorded(arrivals_only=True)
    if by is not None and by.startswith(SEGMENT):
        arrivals = _counted(arrivals, by.removeprefix(SEGMENT), counts)
    maturity = matured(arrivals, time())
    common = frozenset(
        value
        for value, count in counts.most_common(_MOST_SEGMENTS)
        if count >= MIN_ROWS_TO_COMPARE
    )
    if counts.keys() == {None}:
        message = f"no decision of this period was recorded with {by!r}"
        raise Invalid.at("/by", f'{message}: send "record": {{"segments": […]}}')
    read = Read(cache(partial(trained, stores, model.name)), by, maturity, common)
    for cases in recorded():
        read.add(cases)
    scores = read.scores.changes()
    instances = recorded(arrivals_only=True, with_instances=True)
    features = feature_changes(instances, partial(lacked, stores, model.name))
    sections = document(read, [*scores, *features])
    if (sections["quantities"] or sections["rewards"]) and not sections["decisions"]:
        if by is not None and sections["quantities"]:
            raise Invalid.at("/by", "quantities have no groups; leave out 'by'")
        sections = {
            name: sections[name]
            for name in ("quantities", "rewards", "maturing", "warnings")
        }
    elif not sections["decisions"]:
        fix = 'send "record": true to /predict'
        if versions is not None:
            fix = f"ask for {model.name}, which is all versions, or {fix}"
        sections["warnings"].append(
            f"no decision of {reference} is recorded in this period: {fix}"
        )
    elif series and read.total.promise.count:
        sections["series"] = read.total.series(sections["realised"])
    return {
        **sections,
        "model": {"name": model.name, "version": versions[0] if versions else None},
        "since": None if since is None else moment(since),
        "until": None if until is None else moment(until),
    }


def _counted(
    days: Iterable[Cases], column: str, counts: Counter[str | None]
) -> Iterator[Cases]:
    """The cases as they are; adds the number of cases with each value of the segment to counts."""
    for cases in days:
        sizes = np.bincount(cases.segment, minlength=len(cases.segments)).tolist()
        for values, size in zip(cases.segments, sizes, strict=True):
            value = (values or {}).get(column)
            if size and (value in counts or len(counts) < _MOST_COUNTED):
                counts[value] += size
        yield cases


def versions_of(stores: Stores, reference: str) -> list[int] | None:
    """The versions that a reference means; None for all. NotFound where there is none."""
    model = Reference.parse(reference)
    if model.version is not None or model.alias is not None:
        return [card_of(stores, reference).version]
    with stores.database.reading() as connection:
        check_listed(connection, model.name)
    return None


def moment(seconds: float) -> datetime:
    """A time in seconds as a moment: of a number, pydantic would guess the unit."""
    return datetime.fromtimestamp(seconds, UTC)


def document(read: Read, changes: Sequence[Changed]) -> dict[str, Any]:
    """All sections of the report."""
    total = read.total
    maturity = read.maturity
    selective = read.actions.document()
    about = basis(
        total.known, total.decisions, selective=selective["is"], reason=maturity.reason
    )
    doubt = maturity.reason or (UNEQUAL if selective["is"] else None)
    missing = (
        None if total.known == total.decisions else read.shares.missing(read.classes)
    )
    doubt_of_promise = maturity.reason or missing
    drifted = drift(changes)
    guarantees = []
    if read.guarantees.uses:
        changed = (line for line in drifted if "version" in line and line["drifted"])
        guarantees = read.guarantees.document(
            maturity.reason, {line["version"] for line in changed}
        )
    groups = quantities = rewards = None
    if read.by is not None:
        groups = _grouped(
            {
                name: group.document(about, doubt_of_promise)
                for name, group in read.groups.items()
            }
        )
    if read.quantities.decisions:
        quantities = read.quantities.document(maturity.reason)
    if read.rewards.decisions:
        rewards = read.rewards.document(doubt) | read.rewards.policies(doubt)
        if read.by is not None:
            of_groups = {
                name: group.document(doubt)
                for name, group in read.reward_groups.items()
            }
            rewards["groups"] = _grouped(of_groups, ("difference",))
    details = {
        "maturing": maturing(maturity),
        "selective": selective,
        "exploration": read.exploration.document(maturity.reason),
        "alternatives": read.ways.alternatives(about),
        "overrides": read.ways.overriding(about, doubt),
        "told_benefits": gain(read.ways.reported, about),
        "priors": read.shares.document(
            read.trained, read.classes, about, selective=doubt is not None
        ),
        "drift": {
            "scores": [line for line in drifted if "version" in line],
            "features": [line for line in drifted if "feature" in line],
            "not_compared": [name for name, change in changes if change is None],
        },
        "shadow": read.ways.challengers(about, doubt),
        "guarantees": guarantees,
        "groups": groups,
    }
    account = total.document(about, doubt_of_promise)
    return {
        **account,
        "advice": list(_advice(account["verdict"], details)),
        "warnings": list(_warnings(read, selective)),
        "by": read.by,
        **details,
        "quantities": quantities,
        "rewards": rewards,
    }


def _advice(verdict: str, details: Mapping[str, Any]) -> Iterator[str]:
    """What to do about the verdict and the other sections."""
    if verdict in _WRONG:
        retrain = "train again, also on what was seen (POST /datasets/from-outcomes)"
        if any(version["changed"] for version in details["priors"]["versions"]):
            retrain = (
                'send the shares of the classes, which have changed, as "priors", '
                f"or {retrain}"
            )
        yield retrain
    for challenger in details["shadow"]:
        if challenger["verdict"] == "better":
            yield f"{challenger['challenger']} earns more on the same cases: point the alias at it"
    if details["overrides"]["right"] == "people":
        yield (
            "people who took another action earned more:"
            " find out what they know that the model is not told"
        )
    if details["selective"]["is"]:
        yield f'{UNEQUAL}: "explore" a share of the decisions, so that it becomes known after each'
    for line in details["guarantees"]:
        if line["verdict"] == "broken":
            yield (
                f"the guarantee {line['guarantee']!r} is broken: certify it again on what was seen"
            )
    features = [
        line["feature"] for line in details["drift"]["features"] if line["drifted"]
    ]
    if features:
        names = some_of(list(dict.fromkeys(features)), _MAX_NAMED_FEATURES)
        yield f"these features have changed, so look at what sends them: {names}"


def maturing(maturity: Maturity) -> dict[str, Any]:
    """The section on truths that are not used yet."""
    return {
        "since": None
        if maturity.since is None
        else date_of(maturity.since).isoformat(),
        "known_left_out": maturity.left_out,
        "lags_by_class_differ": None
        if maturity.p_value is None
        else maturity.p_value < ALPHA,
        "p_value": maturity.p_value,
        "reason": maturity.reason,
    }


def _grouped(
    groups: Mapping[Any, dict[str, Any]],
    tested: Sequence[str] = ("difference", "calibration"),
) -> list[dict[str, Any]]:
    """The figures of each group, in the order of its name: numbers before text. Verdicts are
    corrected for the number of groups (Holm).
    """

    def order(name: Any) -> tuple[bool, int, str]:
        return isinstance(name, str), name if isinstance(name, int) else 0, str(name)

    names = sorted(groups, key=order)
    accounts = [groups[name] for name in names]
    parts: list[list[dict[str, Any]]] = [
        [account[name] for account in accounts] for name in tested
    ]
    for part in parts:
        adjusted = holm_of_known([line["p_value"] for line in part])
        for line, p_value in zip(part, adjusted, strict=True):
            line["adjusted_p_value"] = p_value
    for account in accounts:
        p_value = account["difference"].pop("adjusted_p_value")
        account["adjusted_p_value"] = p_value
        is_clear = p_value is not None and p_value < SIGNIFICANT
        if account["verdict"] in _WRONG and not is_clear:
            account["verdict"] = "undecided"
    return [
        {"group": name, **account}
        for name, account in zip(names, accounts, strict=True)
    ]


def reservations(maturity: Maturity, *, selective: bool) -> Iterator[str]:
    """Warnings on figures about known cases, where truths come late or depend on the action."""
    if maturity.since is not None:
        yield (
            f"many truths of decisions since {date_of(maturity.since).isoformat()} are still to"
            f" come: the {maturity.left_out} that are known are left out, as they may differ from"
            " the others"
        )
    if maturity.reason is not None:
        yield f"nothing is concluded: {maturity.reason}"
    if selective:
        yield f"{UNEQUAL}: known cases are no fair sample, figures about them no estimates for all"


def _warnings(read: Read, selective: Mapping[str, Any]) -> Iterator[str]:
    total = read.total
    yield from reservations(read.maturity, selective=selective["is"])
    apart = (read.quantities, read.rewards)
    known = total.known + sum(section.realised.count for section in apart)
    decisions = total.decisions + sum(section.decisions for section in apart)
    if not known and not read.maturity.left_out and decisions:
        yield "no truth is known: send what became of the decisions to POST /outcomes"
    elif not selective["is"] and 0 < total.known < total.decisions:
        yield "truth is not known for all decisions: what is unknown may differ; see bounds"
    if len(total.promise.days) == 1:
        yield (
            "all known truths are of one day:"
            " the verdict is about that day, as the next one may differ"
        )
    unpriced = total.decisions - total.with_expectation
    if unpriced:
        yield (
            f"{unpriced} decisions have no benefit matrix;"
            " they are counted, and no amount is about them"
        )
    if read.exploration.cases.stride > 1:
        yield "exploration is of evenly spaced cases, as there are many"


def matured(days: Iterable[Cases], at: float) -> Maturity:
    """Which truths must not be used yet at the time `at`, in seconds: those of days of which many
    truths are still to come.

    Where clients report when truths were known, they may send them later, so no truth is expected
    after the last one that was sent.
    """
    arrivals = Arrivals(at)
    labels: dict[Label, int] = {}
    last = -np.inf
    is_stated = False
    for cases in filter(len, days):
        codes = [
            [labels.setdefault(label, len(labels)) for label in terms.classes]
            for terms in cases.terms
        ]
        width = max(map(len, codes))
        padded = [[*row, *[0] * (width - len(row))] for row in codes]
        table = np.array(padded).reshape(-1, width)
        known = cases.truth != UNKNOWN
        truth = np.full(len(cases), UNKNOWN)
        truth[known] = np.minimum(
            table[cases.term[known], cases.truth[known]], _TIMED_CLASSES - 1
        )
        known_at = np.where(
            np.isnan(cases.outcome_at), cases.received_at, cases.outcome_at
        )
        arrivals.add(
            cases.day, cases.at, truth, known_at, min(len(labels), _TIMED_CLASSES)
        )
        last = float(np.fmax.reduce(cases.received_at, initial=last))
        is_stated = is_stated or not np.isnan(cases.outcome_at).all()
    if is_stated:
        arrivals.now = min(at, last)
    return arrivals.maturity()


@dataclass
class Read:
    """The sections of a report, each of which reads the cases slice by slice."""

    trained: Trained
    by: By | None = None
    maturity: Maturity = field(default_factory=Maturity)
    common: Collection[str | None] = ()
    total: Account = field(default_factory=Account)
    actions: ActionCounts = field(default_factory=ActionCounts)
    ways: Ways = field(default_factory=Ways)
    exploration: Exploration = field(default_factory=Exploration)
    quantities: Quantities = field(default_factory=Quantities)
    rewards: RewardDecisions = field(default_factory=RewardDecisions)
    shares: ClassShares = field(default_factory=ClassShares)
    scores: Scores = field(default_factory=Scores)
    guarantees: Guarantees = field(default_factory=Guarantees)
    groups: dict[Any, GroupAccount] = field(
        default_factory=partial(defaultdict, GroupAccount)
    )
    reward_groups: dict[Any, RewardSums] = field(
        default_factory=partial(defaultdict, RewardSums)
    )
    classes: dict[int, tuple[Label, ...]] = field(default_factory=dict)

    def add(self, cases: Cases) -> None:
        """The cases of a day, or a part of them."""
        sections = (
            self.total,
            self.actions,
            self.ways,
            self.exploration,
            self.scores,
        )
        for part in slices(cases, self.maturity.since):
            if part.stack.terms[0].rule == UNIT_COSTS:
                self.quantities.add(part)
                continue
            if part.stack.terms[0].rewarded:
                self.rewards.add(part)
                self.actions.add(part)
                if self.by is not None:
                    self._group(part, self.by, self.reward_groups)
                continue
            for section in sections:
                section.add(part)
            if any(terms.rule == GUARANTEED for terms in part.stack.terms):
                self.guarantees.add(part)
            self.shares.add(part, self.trained)
            if self.by is not None:
                self._group(part, self.by, self.groups)
        for term in cases.terms:
            self.classes.setdefault(term.version, term.classes)

    def _group(
        self,
        part: Slice,
        by: By,
        accounts: Mapping[Any, GroupAccount] | Mapping[Any, RewardSums],
    ) -> None:
        """Add the cases to the accounts of their groups, of which each is made when needed."""
        names, code = groups(part, by, self.common)
        for place in np.unique(code):
            if names[place] not in accounts and len(accounts) >= MAX_GROUPS:
                raise Invalid.at(
                    "/by",
                    f"there are more than {MAX_GROUPS:,} groups; send since and until",
                )
            accounts[names[place]].add(part, np.flatnonzero(code == place))


def groups(
    part: Slice, by: By, common: Collection[str | None] = ()
) -> tuple[list[Label | None], np.ndarray]:
    """The names of the groups of a slice, and the index (n,) of each case's group; segments that
    are not `common` are one.
    """
    if by.startswith(SEGMENT):
        column = by.removeprefix(SEGMENT)
        values = [(values or {}).get(column) for values in part.segments]
        kinds = [v if v is None or v in common else OTHER for v in values]
        names: list[Label | None] = [*dict.fromkeys(kinds)]
        places = np.array([names.index(kind) for kind in kinds], dtype=np.intp)
        return names, places[part.segment]
    if by == "action":
        return list(part.stack.actions), part.choice
    if by == "version":
        return [part.stack.version], np.zeros(len(part), dtype=np.intp)
    if by == "key":
        return list(part.keys), part.key
    date = date_of(part.day)
    if by == "week":
        date -= timedelta(days=date.weekday())
    return [date.isoformat()], np.zeros(len(part), dtype=np.intp)
