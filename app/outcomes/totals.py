"""What one process recorded and was told, by model and version, as metrics for Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.outcomes.archive import Located
from app.outcomes.decision import DAY, Row
from app.outcomes.intake import Outcome

_MAX_VERSIONS = 200  # with lines of their own
_LAGS = (60.0, 3600.0, *(float(days * DAY) for days in (1, 7, 30, 90, 365)))  # upper bounds of classes, in seconds
_SIGNS = ("gain", "loss")
_VERSION = ("model", "version")


class Totals:
    """Decisions recorded and their expected benefit, requests that could not be recorded, and first outcomes.

    Benefits are those of decisions that were carried out and stated benefits. Their sums may fall, and Prometheus could
    not tell a fall from a new start: gains and losses are counters of their own. `squared` sums the squares of the
    differences between realised and expected benefit, `variance` and `third` their variances and third central moments
    by the probabilities of the decisions.
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
        self._lag = Histogram("payoff_outcome_lag_seconds", elapsed, _VERSION, buckets=_LAGS, registry=None)
        other = "Outcomes that name another action than the decision"
        self._overridden = counter("payoff_decisions_overridden", other)
        carried_out = "Expected and realised benefit of decisions with an outcome that were carried out"
        self._benefit = counter("payoff_outcome_benefit", carried_out, "kind", "sign")
        self._squared = counter("payoff_outcome_benefit_error_squared", "Squared differences of the two")
        variances = "Variances of these, by the probabilities of the decisions"
        self._variance = counter("payoff_outcome_benefit_variance", variances)
        self._third = counter("payoff_outcome_benefit_third_moment", "Third central moments, likewise", "sign")
        self._labels: dict[tuple[str, int], tuple[str, str]] = {}

    def register(self, registry: CollectorRegistry) -> None:
        """Show them in what the registry tells."""
        for metric in vars(self).values():
            if isinstance(metric, Counter | Gauge | Histogram):
                registry.register(metric)

    def add(self, rows: Sequence[Row]) -> None:
        """Count recorded decisions."""
        sums = defaultdict[tuple[str, int], list[float]](lambda: [0.0, 0.0])
        for row in rows:
            own = sums[row.model, row.version]
            own[0] += 1
            own[1] += row.expected or 0.0
        for key, (count, expected) in sums.items():
            labels = self._labels_of(*key)
            self.recorded.labels(*labels).inc(count)
            self.expected.labels(*labels).inc(expected)

    def hear(self, outcomes: Iterable[tuple[Located, Outcome]], received_at: float) -> None:
        """Count the first outcomes of decisions."""
        sums = defaultdict[tuple[Counter, tuple[str, ...]], float](float)
        for decision, outcome in outcomes:
            labels = self._labels_of(decision.model, decision.version)
            lag = max((received_at if outcome.at is None else outcome.at) - decision.at, 0.0)
            self._lag.labels(*labels).observe(lag)
            sums[self._outcomes, labels] += 1
            if outcome.action not in (None, decision.choice):
                sums[self._overridden, labels] += 1
            elif decision.expected is not None and decision.terms.benefits is not None:
                stated = decision.terms.benefits[outcome.truth][decision.choice]
                realised = stated if outcome.benefit is None else outcome.benefit
                variance, third = decision.moments
                for kind, amount in (("expected", decision.expected), ("realised", realised)):
                    sums[self._benefit, (*labels, kind, _SIGNS[amount < 0])] += abs(amount)
                sums[self._squared, labels] += (realised - decision.expected) ** 2
                sums[self._variance, labels] += variance
                sums[self._third, (*labels, _SIGNS[third < 0])] += abs(third)
        for (counter, names), total in sums.items():
            counter.labels(*names).inc(total)

    def _labels_of(self, model: str, version: int) -> tuple[str, str]:
        """The labels of a version, whose outcomes are counted from 0 on, since a rate needs the start; of the versions
        beyond so many the same.
        """
        labels = self._labels.get((model, version))
        if labels is None:
            labels = (model, str(version)) if len(self._labels) < _MAX_VERSIONS else ("other", "")
            self._labels[model, version] = labels
            for counter in (self._outcomes, self._overridden, self._squared, self._variance):
                counter.labels(*labels)
            for sign in _SIGNS:
                self._third.labels(*labels, sign)
            for kind, sign in product(("expected", "realised"), _SIGNS):
                self._benefit.labels(*labels, kind, sign)
        return labels
