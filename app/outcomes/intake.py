"""Storing of outcomes: each is stored once, however often and in whatever order it is sent.

`Totals` are the decisions and outcomes of one process, by model and version, for Prometheus.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from time import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sqlalchemy import Connection, delete, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from app.outcomes import rows
from app.outcomes.archive import Located
from app.outcomes.decision import DAY, Outcome, Row
from app.outcomes.rows import Day, SealedFile, chunks, sealed_files
from app.outcomes.tables import OUTCOMES, SEALED_FILES

# The upper bounds of the histogram's buckets, in seconds.
_LAG_BUCKETS = (60.0, 3600.0, *(float(days * DAY) for days in (1, 7, 30, 90, 365)))
_SIGNS = ("gain", "loss")
_VERSION = ("model", "version")


@dataclass
class Received:
    """What became of the outcomes of a request.

    `conflicts` has the id, the stored and the sent outcome, where the two contradict. Among the
    accepted, `first` are the first ones of their decisions; `corrected` has the ids of decisions
    whose stored outcome was replaced.
    """

    accepted: int = 0
    unchanged: int = 0
    conflicts: list[tuple[str, Outcome, Outcome]] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    first: list[tuple[Located, Outcome]] = field(default_factory=list)


class DecisionsMoved(Exception):
    """Decisions were sealed or erased, or outcomes of them stored, since they were located."""


def store(
    connection: Connection,
    outcomes: Mapping[str, tuple[Located, Outcome]],
    *,
    correct: bool,
) -> Received:
    """Store outcomes with their located decisions, by the ids, in the transaction of `connection`.

    Fields that the stored outcome lacks are added. One that contradicts it replaces it with
    `correct`, else it is a conflict. Raises DecisionsMoved, after which the transaction must be
    rolled back and the decisions located again, at most `ROUNDS` times. O(n log n).
    """
    rows.lock(connection, shared=True)
    if _moved(connection, outcomes):
        raise DecisionsMoved
    outcomes = dict(sorted(outcomes.items()))
    stored = _lock_rows(connection, outcomes)
    received = Received()
    new: dict[str, dict[str, Any]] = {}
    for id_, (decision, outcome) in outcomes.items():
        before, revision = stored.get(id_, (decision.outcome, decision.revision))
        after = (
            outcome if before is None or outcome == before else before.joined(outcome)
        )
        if after == before:
            received.unchanged += 1
            continue
        if before is not None and before.contradicts(outcome):
            if not correct:
                received.conflicts.append((id_, before, outcome))
                continue
            received.corrected.append(id_)
            # No field of the stored outcome stays: a benefit that was reported with another truth
            # or action is no longer true.
            after = outcome
        received.accepted += 1
        if before is None:
            received.first.append((decision, after))
        place = {"id": id_, "model": decision.model, "day": decision.day}
        new[id_] = {
            **place,
            "received_at": time(),
            "revision": revision + 1,
            **vars(after),
        }
    for ids in chunks(id_ for id_ in new if id_ in stored):
        connection.execute(delete(OUTCOMES).where(OUTCOMES.c.id.in_(ids)))
    if new:
        try:
            connection.execute(insert(OUTCOMES), list(new.values()))
        except (
            IntegrityError
        ) as error:  # another request has stored an outcome of one of them
            raise DecisionsMoved from error
    return received


def _lock_rows(
    connection: Connection, sorted_ids: Iterable[str]
) -> dict[str, tuple[Outcome, int]]:
    """The outcomes in the table and their revisions, by id.

    Rows are locked in the order of the ids, so that two requests never wait for each other.
    """
    table = OUTCOMES.c
    stored: dict[str, tuple[Outcome, int]] = {}
    for ids in chunks(sorted_ids):
        query = (
            select(OUTCOMES)
            .where(table.id.in_(ids))
            .order_by(table.id)
            .with_for_update()
        )
        for row in connection.execute(query):
            outcome = Outcome(row.truth, row.action, row.benefit, row.at, row.number)
            stored[row.id] = outcome, row.revision
    return stored


def _moved(
    connection: Connection, outcomes: Mapping[str, tuple[Located, Outcome]]
) -> bool:
    """Whether a decision was sealed or erased, or a file of its day replaced, since `locate`."""
    located = {
        (decision.model, decision.day): decision.files
        for decision, _ in outcomes.values()
    }
    files: dict[Day, list[SealedFile]] = {}
    for days in chunks(sorted(located)):
        of_days = tuple_(SEALED_FILES.c.model, SEALED_FILES.c.day).in_(days)
        files |= sealed_files(connection, of_days)
    if any(
        files.get(day, ()) != located_files for day, located_files in located.items()
    ):
        return True
    return bool(rows.erased(connection, outcomes))


class Totals:
    """Decisions recorded and their expected benefit, requests that could not be recorded, and first
    outcomes.

    Benefits are those of decisions that were carried out and stated benefits. Their sums may fall,
    and Prometheus could not distinguish a fall from a restart: gains and losses are counters of
    their own. `_squared` sums the squares of the differences between realised and expected benefit,
    `_variance` their variances by the probabilities of the decisions.
    """

    def __init__(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*_VERSION, *labels), registry=None)

        self.recorded = counter("payoff_decisions_recorded", "Decisions stored")
        text = "Expected benefit of the decisions stored"
        self.expected = Gauge(
            "payoff_expected_benefit_total", text, _VERSION, registry=None
        )
        text = "Requests whose decisions could not be stored"
        self.failures = Counter("payoff_recording_failures", text, registry=None)
        self._outcomes = counter("payoff_outcomes", "First outcomes of decisions")
        text = "Time from a decision to its first outcome"
        self._lag = Histogram(
            "payoff_outcome_lag_seconds",
            text,
            _VERSION,
            buckets=_LAG_BUCKETS,
            registry=None,
        )
        text = "Outcomes that name another action than the decision"
        self._overridden = counter("payoff_decisions_overridden", text)
        text = "Expected and realised benefit of decisions with an outcome that were carried out"
        self._benefit = counter("payoff_outcome_benefit", text, "kind", "sign")
        text = "Squared differences of the two"
        self._squared = counter("payoff_outcome_benefit_error_squared", text)
        text = "Variances of these, by the probabilities of the decisions"
        self._variance = counter("payoff_outcome_benefit_variance", text)
        self._labels = cache(self._start)

    def register(self, registry: CollectorRegistry) -> None:
        """Add the metrics to a registry."""
        for metric in vars(self).values():
            if isinstance(metric, Counter | Gauge | Histogram):
                registry.register(metric)

    def add(self, rows: Sequence[Row]) -> None:
        """Count recorded decisions."""
        sums: dict[tuple[str, int], list[float]] = {}
        for row in rows:
            sums.setdefault((row.model, row.version), []).append(row.expected or 0.0)
        for key, expected in sums.items():
            labels = self._labels(*key)
            self.recorded.labels(*labels).inc(len(expected))
            self.expected.labels(*labels).inc(sum(expected))

    def add_outcomes(
        self, outcomes: Iterable[tuple[Located, Outcome]], received_at: float
    ) -> None:
        """Count the first outcomes of decisions."""
        sums = defaultdict[tuple[Counter, tuple[str, ...]], float](float)
        for decision, outcome in outcomes:
            labels = self._labels(decision.model, decision.version)
            outcome_at = received_at if outcome.at is None else outcome.at
            self._lag.labels(*labels).observe(max(outcome_at - decision.at, 0.0))
            sums[self._outcomes, labels] += 1
            if outcome.action not in (None, decision.choice):
                sums[self._overridden, labels] += 1
            elif decision.expected is not None and decision.terms.benefits is not None:
                stated = decision.terms.benefits[outcome.truth][decision.choice]
                realised = stated if outcome.benefit is None else outcome.benefit
                for kind, amount in (
                    ("expected", decision.expected),
                    ("realised", realised),
                ):
                    sums[self._benefit, (*labels, kind, _SIGNS[amount < 0])] += abs(
                        amount
                    )
                sums[self._squared, labels] += (realised - decision.expected) ** 2
                sums[self._variance, labels] += decision.variance
        for (counter, names), total in sums.items():
            counter.labels(*names).inc(total)

    def _start(self, model: str, version: int) -> tuple[str, str]:
        """The labels of a version, after its counters were set to 0: a rate needs the start."""
        labels = model, str(version)
        for counter in (
            self._outcomes,
            self._overridden,
            self._squared,
            self._variance,
        ):
            counter.labels(*labels)
        for kind, sign in product(("expected", "realised"), _SIGNS):
            self._benefit.labels(*labels, kind, sign)
        return labels
