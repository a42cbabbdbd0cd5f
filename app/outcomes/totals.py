"""What one process recorded and was told, by model and version, for its metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from app.outcomes.archive import Located
from app.outcomes.decided import Row
from app.outcomes.identity import DAY
from app.outcomes.intake import Outcome

Key = tuple[str, int]
LAGS = (60.0, 3600.0, *(float(days * DAY) for days in (1, 7, 30, 90, 365)))
"""Upper bounds of the classes of lags, in seconds."""


@dataclass
class OutcomeTotals:
    """First outcomes of the decisions of one version.

    Benefits are those of decisions that were carried out and stated benefits: gains and losses apart, as sums that only
    grow. `squared` sums the squares of the differences between realised and expected benefit, `variance` and `third`
    their variances and third central moments by the probabilities of the decisions.
    """

    outcomes: int = 0
    overridden: int = 0
    expected: list[float] = field(default_factory=lambda: [0.0, 0.0])  # gains, losses
    realised: list[float] = field(default_factory=lambda: [0.0, 0.0])
    squared: float = 0.0
    variance: float = 0.0
    third: list[float] = field(default_factory=lambda: [0.0, 0.0])  # positive, negative
    lags: list[int] = field(default_factory=lambda: [0] * (len(LAGS) + 1))
    lag_seconds: float = 0.0

    def add(self, decision: Located, outcome: Outcome, received_at: float) -> None:
        lag = max((received_at if outcome.at is None else outcome.at) - decision.at, 0.0)
        self.outcomes += 1
        self.lags[sum(lag > bound for bound in LAGS)] += 1
        self.lag_seconds += lag
        if outcome.action not in (None, decision.choice):
            self.overridden += 1
        elif decision.expected is not None and decision.terms.benefits is not None:
            stated = decision.terms.benefits[outcome.truth][decision.choice]
            realised = stated if outcome.benefit is None else outcome.benefit
            self.expected[decision.expected < 0] += abs(decision.expected)
            self.realised[realised < 0] += abs(realised)
            self.squared += (realised - decision.expected) ** 2
            self.variance += decision.moments[0]
            self.third[decision.moments[1] < 0] += abs(decision.moments[1])


class Totals:
    """Decisions recorded and their expected benefit, requests that could not be recorded, and outcomes."""

    def __init__(self) -> None:
        self.recorded: dict[Key, int] = {}
        self.expected: dict[Key, float] = {}
        self.failures = 0  # requests whose decisions could not be recorded
        self.told: defaultdict[Key, OutcomeTotals] = defaultdict(OutcomeTotals)
        self._lock = Lock()

    def add(self, rows: Sequence[Row]) -> None:
        """Count recorded decisions; called by one thread."""
        for row in rows:
            key = row.model, row.version
            self.recorded[key] = self.recorded.get(key, 0) + 1
            if row.expected is not None:
                self.expected[key] = self.expected.get(key, 0.0) + row.expected

    def hear(self, outcomes: Iterable[tuple[Located, Outcome]], received_at: float) -> None:
        """Count the first outcomes of decisions."""
        with self._lock:
            for decision, outcome in outcomes:
                self.told[decision.model, decision.version].add(decision, outcome, received_at)
