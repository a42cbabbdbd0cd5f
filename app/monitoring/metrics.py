"""Prometheus metrics: requests, jobs, models in memory, and the state that all processes share.

Dashboards and alerts depend on the names; docs/how-to/operation.md lists them, and a test compares
the two.
"""

import platform
from collections.abc import Iterator
from functools import cache
from time import monotonic

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from app import __version__
from app.jobs.job import Job, Status
from app.jobs.queue import Queue
from app.jobs.worker import Worker
from app.storage.store_calls import ERRORS
from app.stores import Stores
from payoff.errors import PayoffError

disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series
_log = structlog.get_logger("payoff")
_REQUEST_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_JOB_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400)


class RequestMetrics:
    """What the service counts of its requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        took = "Time from a request's head to its answer's end"
        labels = ("method", "route", "status")
        times = Histogram(
            "payoff_request_seconds", took, labels, buckets=_REQUEST_BUCKETS, registry=registry
        )
        self._timed = cache(times.labels)  # which would take 3 µs for each request
        decisions = Counter(
            "payoff_decisions",
            "Instances that /predict decided",
            ("model", "version"),
            registry=registry,
        )
        self._counted = cache(decisions.labels)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._timed(method, route, status).observe(seconds)

    def decided(self, name: str, version: int, instances: int) -> None:
        self._counted(name, version).inc(instances)


class JobMetrics:
    """What a worker counts of its jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "payoff_jobs_ended", "Jobs that ended here", ("kind", "status"), registry=registry
        )
        again = "Attempts after which the job had to be tried again"
        self._lost = Counter("payoff_job_attempts_lost", again, ("kind",), registry=registry)
        took = "From the beginning of a job's last attempt to its end"
        self._seconds = Histogram(
            "payoff_job_seconds", took, ("kind",), buckets=_JOB_BUCKETS, registry=registry
        )

    def hear(self, job: Job) -> None:
        """Count a job that was put back or has ended, as its status says."""
        if job.status is Status.QUEUED:
            self._lost.labels(job.kind).inc()
        elif job.status is not Status.RUNNING:
            self._ended.labels(job.kind, job.status.value).inc()
            if job.started_at is not None and job.finished_at is not None:
                self._seconds.labels(job.kind).observe(max(job.finished_at - job.started_at, 0.0))


class DatabaseMetrics(Collector):
    """The job table that all processes share, looked up when asked for, and how often the database
    did not answer.

    While it does not, the numbers of jobs are absent; their age goes on.
    """

    def __init__(self, queue: Queue, registry: CollectorRegistry) -> None:
        self._queue = queue
        self._read_at = monotonic()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        began, known = monotonic(), None
        try:
            known = self._queue.status()
            self._read_at = began
        except (PayoffError, SQLAlchemyError) as error:
            _log.warning("the job table cannot be read for the metrics", error=type(error).__name__)
        age = "Since the job table could last be read"
        yield GaugeMetricFamily("payoff_queue_age_seconds", age, monotonic() - self._read_at)
        failures = "Statements that the database did not answer"
        yield CounterMetricFamily("payoff_database_errors", failures, self._queue.database.failures)
        if known is None:
            return
        jobs = GaugeMetricFamily("payoff_jobs", "Jobs by status", labels=("status",))
        for status, count in known.jobs.items():
            jobs.add_metric((status,), count)
        yield jobs
        waited = "How long the oldest queued job has waited"
        yield GaugeMetricFamily("payoff_queue_oldest_seconds", waited, known.oldest_seconds)


class Metrics(Collector):
    """All that the HTTP service exposes, and its worker where it has one; one registry for each
    application object.
    """

    def __init__(self, stores: Stores, worker: Worker | None) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics(self.registry)
        self._models = stores.registry
        self.registry.register(self)
        stores.recorder.totals.register(self.registry)
        self.registry.register(stores.shadows.dropped)
        self.registry.register(ERRORS)
        _of_process(self.registry, stores, worker)

    def collect(self) -> Iterator[Metric]:
        """The registry as this process sees it; looks at memory only."""
        models, cache = self._models, self._models.cache
        yield GaugeMetricFamily("payoff_models_cached", "Models in memory", len(cache))
        yield GaugeMetricFamily("payoff_model_cache_bytes", "Bytes of models in memory", cache.size)
        yield CounterMetricFamily("payoff_model_loads", "Models loaded from storage", cache.loads)
        yield CounterMetricFamily(
            "payoff_model_load_failures", "Models that could not be loaded", cache.failures
        )
        yield CounterMetricFamily(
            "payoff_model_evictions", "Models that made room for others", cache.evictions
        )
        yield GaugeMetricFamily(
            "payoff_registry_revision", "Changes of the registry that are known", models.revision
        )
        known = "Since the registry's index could last be read"
        yield GaugeMetricFamily("payoff_registry_age_seconds", known, models.age_seconds)

    def report(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


def of_worker(stores: Stores, worker: Worker) -> CollectorRegistry:
    """What a worker without an HTTP service exposes."""
    registry = CollectorRegistry()
    _of_process(registry, stores, worker)
    return registry


def _of_process(registry: CollectorRegistry, stores: Stores, worker: Worker | None) -> None:
    """What every process exposes: version, memory, files, the database, and its worker where it has
    one.
    """
    ProcessCollector(registry=registry)
    build = Gauge(
        "payoff_build_info", "Versions; always 1", ("version", "python"), registry=registry
    )
    build.labels(__version__, platform.python_version()).set(1)
    DatabaseMetrics(stores.queue, registry)
    if worker is not None:
        worker.listeners.append(JobMetrics(registry).hear)
        turn = "Since the worker's last turn without an error"
        Gauge("payoff_worker_turn_age_seconds", turn, registry=registry).set_function(
            lambda: worker.turn_age
        )
