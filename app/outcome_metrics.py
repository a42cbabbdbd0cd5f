"""Prometheus metrics of recorded decisions and of what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app.outcomes.intake import LAGS, Totals

_MAX_MODELS = 200  # versions with lines of their own
_LABELS = ("model", "version")


class OutcomeMetrics(Collector):
    """What this process recorded and was told.

    Sums of benefits may fall, so that Prometheus could not tell a fall from a new start: of outcomes gains and losses
    are counters of their own.
    """

    def __init__(self, totals: Totals, registry: CollectorRegistry, dropped: Callable[[], int] = lambda: 0) -> None:
        self._totals = totals
        self._dropped = dropped
        registry.register(self)

    def describe(self) -> list[Metric]:
        return []  # spares a look-up at registration

    def collect(self) -> Iterator[Metric]:
        yield from self._decisions()
        yield from self._outcomes()
        missed = "Decisions that a challenger did not make: it cannot keep up, or failed"
        yield CounterMetricFamily("payoff_shadow_dropped", missed, self._dropped())

    def _decisions(self) -> Iterator[Metric]:
        recorded = _counter("payoff_decisions_recorded", "Decisions stored")
        promised = "Expected benefit of the decisions stored"
        expected = GaugeMetricFamily("payoff_expected_benefit_total", promised, labels=_LABELS)
        for (model, version), count in list(self._totals.recorded.items())[:_MAX_MODELS]:
            recorded.add_metric((model, str(version)), count)
            expected.add_metric((model, str(version)), self._totals.expected.get((model, version), 0.0))
        failed = "Requests whose decisions could not be stored"
        yield from (recorded, expected, CounterMetricFamily("payoff_recording_failures", failed, self._totals.failures))

    def _outcomes(self) -> Iterator[Metric]:
        outcomes = _counter("payoff_outcomes", "First outcomes of decisions")
        overridden = _counter("payoff_decisions_overridden", "Outcomes that name another action than the decision")
        carried_out = "Expected and realised benefit of decisions with an outcome that were carried out"
        benefit = _counter("payoff_outcome_benefit", carried_out, "kind", "sign")
        squared = _counter("payoff_outcome_benefit_error_squared", "Squared differences of the two")
        variances = "Variances of these, by the probabilities of the decisions"
        variance = _counter("payoff_outcome_benefit_variance", variances)
        third = _counter("payoff_outcome_benefit_third_moment", "Third central moments, likewise", "sign")
        elapsed = "Time from a decision to its first outcome"
        lag = HistogramMetricFamily("payoff_outcome_lag_seconds", elapsed, labels=_LABELS)
        for (model, version), told in list(self._totals.told.items())[:_MAX_MODELS]:
            labels = model, str(version)
            outcomes.add_metric(labels, told.outcomes)
            overridden.add_metric(labels, told.overridden)
            for kind, sums in (("expected", told.expected), ("realised", told.realised)):
                for sign, total in zip(("gain", "loss"), sums, strict=True):
                    benefit.add_metric((*labels, kind, sign), total)
            squared.add_metric(labels, told.squared)
            variance.add_metric(labels, told.variance)
            for sign, total in zip(("gain", "loss"), told.third, strict=True):
                third.add_metric((*labels, sign), total)
            counts = zip([*map(str, LAGS), "+Inf"], accumulate(told.lags), strict=True)
            lag.add_metric(labels, list(counts), told.lag_seconds)
        yield from (outcomes, overridden, benefit, squared, variance, third, lag)


def _counter(name: str, text: str, *more: str) -> CounterMetricFamily:
    """A counter by model, version, and those labels."""
    return CounterMetricFamily(name, text, labels=(*_LABELS, *more))
