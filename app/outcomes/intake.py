"""Outcomes on their way into the store: each is there once, whoever sends it how often, and in
whatever order.

And what one process recorded and was told, by model and version, as metrics for Prometheus.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from time import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from sqlalchemy import Connection, delete, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from app.database.engine import Database
from app.errors import Unavailable
from app.outcomes import rows
from app.outcomes.archive import Located
from app.outcomes.decision import DAY, Outcome, Row
from app.outcomes.rows import ROUNDS, Day, SealedFile, chunks, sealed_files
from app.outcomes.tables import OUTCOMES, SEALED_FILES

Also = Callable[[Connection], None]
_LAGS = (
    60.0,
    3600.0,
    *(float(days * DAY) for days in (1, 7, 30, 90, 365)),
)  # upper bounds of classes, in seconds
_SIGNS = ("gain", "loss")
_VERSION = ("model", "version")


@dataclass
class Received:
    """What became of the outcomes of a request. Of those that contradict what is stored,
    `conflicts` has id, stored and sent.

    Among the accepted, `first` are the first ones of their decisions, `corrected` those that were
    another before.
    """

    accepted: int = 0
    unchanged: int = 0
    conflicts: list[tuple[str, Outcome, Outcome]] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    first: list[tuple[Located, Outcome]] = field(default_factory=list)


Resolve = Callable[[], Mapping[str, tuple[Located, Outcome]]]


def receive(
    database: Database, resolve: Resolve, *, correct: bool, also: Callable[[Received], Also | None]
) -> Received:
    """Store outcomes in one transaction.

    `resolve` locates their decisions; it is called again where a file of their days changed
    meanwhile, or a decision was erased. Fields that the stored outcome lacks are added. One that
    contradicts it replaces it with `correct`, else it is a conflict. `also` gives what is written
    in the same transaction. Raises Unavailable where decisions keep moving. O(n log n).
    """
    for _ in range(ROUNDS):
        sent = resolve()
        try:
            with database.writing() as connection:
                rows.lock(connection, shared=True)
                located = {
                    (decision.model, decision.day): decision.files for decision, _ in sent.values()
                }
                files: dict[Day, list[SealedFile]] = {}
                for days in chunks(sorted(located)):
                    files |= sealed_files(
                        connection, tuple_(SEALED_FILES.c.model, SEALED_FILES.c.day).in_(days)
                    )
                is_moved = any(files.get(day, ()) != before for day, before in located.items())
                if is_moved or rows.erased(connection, sent):
                    continue
                received = _store(connection, dict(sorted(sent.items())), correct=correct)
                if (write := also(received)) is not None:
                    write(connection)
                return received
        except IntegrityError:  # another request has stored an outcome of them
            continue
    raise Unavailable("recorded decisions are being moved by another process; try again later")


def _store(
    connection: Connection, sent: Mapping[str, tuple[Located, Outcome]], *, correct: bool
) -> Received:
    """In the order of the ids, so that two requests never wait for each other."""
    table = OUTCOMES.c  # locked in the order of the ids until the transaction ends
    found = rows.fetched(
        connection,
        lambda some: (
            select(OUTCOMES).where(table.id.in_(some)).order_by(table.id).with_for_update()
        ),
        sent,
    )
    stored = {row.id: row for row in found}
    received = Received()
    new: dict[str, dict[str, Any]] = {}
    for id_, (decision, outcome) in sent.items():
        row = stored.get(id_)
        before, revision = decision.told, decision.revision
        if row is not None:
            before, revision = (
                Outcome(row.truth, row.action, row.benefit, row.at, row.number),
                row.revision,
            )
        after = outcome if before is None or outcome == before else before.joined(outcome)
        if after == before:
            received.unchanged += 1
            continue
        if before is not None and before.contradicts(outcome):
            if not correct:
                received.conflicts.append((id_, before, outcome))
                continue
            received.corrected.append(id_)
            after = outcome  # all of it: a benefit that was told with another truth or action is no longer true
        received.accepted += 1
        if before is None:
            received.first.append((decision, after))
        place = {"id": id_, "model": decision.model, "day": decision.day}
        new[id_] = {**place, "received_at": time(), "revision": revision + 1, **vars(after)}
    for some in chunks(id_ for id_ in new if id_ in stored):
        connection.execute(delete(OUTCOMES).where(OUTCOMES.c.id.in_(some)))
    if new:
        connection.execute(insert(OUTCOMES), list(new.values()))
    return received


class Totals:
    """Decisions recorded and their expected benefit, requests that could not be recorded, and first
    outcomes.

    Benefits are those of decisions that were carried out and stated benefits. Their sums may fall,
    and Prometheus could not tell a fall from a new start: gains and losses are counters of their
    own. `squared` sums the squares of the differences between realised and expected benefit,
    `variance` their variances by the probabilities of the decisions.
    """

    def __init__(self) -> None:
        def counter(name: str, text: str, *more: str) -> Counter:
            return Counter(name, text, (*_VERSION, *more), registry=None)

        stored = "Expected benefit of the decisions stored"
        self.recorded = counter("payoff_decisions_recorded", "Decisions stored")
        self.expected = Gauge("payoff_expected_benefit_total", stored, _VERSION, registry=None)
        failed = "Requests whose decisions could not be stored"
        self.failures = Counter("payoff_recording_failures", failed, registry=None)
        self._outcomes = counter("payoff_outcomes", "First outcomes of decisions")
        elapsed = "Time from a decision to its first outcome"
        self._lag = Histogram(
            "payoff_outcome_lag_seconds", elapsed, _VERSION, buckets=_LAGS, registry=None
        )
        other = "Outcomes that name another action than the decision"
        self._overridden = counter("payoff_decisions_overridden", other)
        carried_out = (
            "Expected and realised benefit of decisions with an outcome that were carried out"
        )
        self._benefit = counter("payoff_outcome_benefit", carried_out, "kind", "sign")
        self._squared = counter(
            "payoff_outcome_benefit_error_squared", "Squared differences of the two"
        )
        variances = "Variances of these, by the probabilities of the decisions"
        self._variance = counter("payoff_outcome_benefit_variance", variances)
        self._labels = cache(self._begun)

    def register(self, registry: CollectorRegistry) -> None:
        """Show them in what the registry tells."""
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

    def hear(self, outcomes: Iterable[tuple[Located, Outcome]], received_at: float) -> None:
        """Count the first outcomes of decisions."""
        sums = defaultdict[tuple[Counter, tuple[str, ...]], float](float)
        for decision, outcome in outcomes:
            labels = self._labels(decision.model, decision.version)
            lag = max((received_at if outcome.at is None else outcome.at) - decision.at, 0.0)
            self._lag.labels(*labels).observe(lag)
            sums[self._outcomes, labels] += 1
            if outcome.action not in (None, decision.choice):
                sums[self._overridden, labels] += 1
            elif decision.expected is not None and decision.terms.benefits is not None:
                stated = decision.terms.benefits[outcome.truth][decision.choice]
                realised = stated if outcome.benefit is None else outcome.benefit
                for kind, amount in (("expected", decision.expected), ("realised", realised)):
                    sums[self._benefit, (*labels, kind, _SIGNS[amount < 0])] += abs(amount)
                sums[self._squared, labels] += (realised - decision.expected) ** 2
                sums[self._variance, labels] += decision.variance
        for (counter, names), total in sums.items():
            counter.labels(*names).inc(total)

    def _begun(self, model: str, version: int) -> tuple[str, str]:
        """The labels of a version, whose outcomes are counted from 0 on: a rate needs the start."""
        labels = model, str(version)
        for counter in (self._outcomes, self._overridden, self._squared, self._variance):
            counter.labels(*labels)
        for kind, sign in product(("expected", "realised"), _SIGNS):
            self._benefit.labels(*labels, kind, sign)
        return labels
