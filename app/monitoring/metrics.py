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
_REQUEST_BUCKETS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
)
_JOB_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400)


class RequestMetrics:
    """What the service counts of its requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        times = Histogram(
            "payoff_request_seconds",
            "Time from a request's head to its answer's end",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        # Without the caches, finding the labels would take 3 µs for each request.
        self.times_of = cache(times.labels)
        """The histogram of a method, a route and a status."""
        text = "Instances that /predict decided"
        decisions = Counter(
            "payoff_decisions", text, ("model", "version"), registry=registry
        )
        self.decisions_of = cache(decisions.labels)
        """The counter of a model's name and version."""


class JobMetrics:
    """What a worker counts of its jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Jobs that ended here"
        self._ended = Counter(
            "payoff_jobs_ended", text, ("kind", "status"), registry=registry
        )
        text = "Attempts after which the job had to be tried again"
        self._lost = Counter(
            "payoff_job_attempts_lost", text, ("kind",), registry=registry
        )
        text = "From the beginning of a job's last attempt to its end"
        self._seconds = Histogram(
            "payoff_job_seconds",
            text,
            ("kind",),
            buckets=_JOB_BUCKETS,
            registry=registry,
        )

    def count(self, job: Job) -> None:
        """Count a job that was put back or has ended, as its status says."""
        if job.status is Status.QUEUED:
            self._lost.labels(job.kind).inc()
        elif job.status is not Status.RUNNING:
            self._ended.labels(job.kind, job.status.value).inc()
            if job.started_at is not None and job.finished_at is not None:
                self._seconds.labels(job.kind).observe(
                    max(job.finished_at - job.started_at, 0.0)
                )


class DatabaseMetrics(Collector):
    """The job table that all processes share, and how often the database did not answer.

    The table is read when the metrics are. While the database does not answer, the numbers of jobs
    are absent, and the age of the last reading grows.
    """

    def __init__(self, queue: Queue, registry: CollectorRegistry) -> None:
        self._queue = queue
        self._read_at = monotonic()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        started_at = monotonic()
        status = None
        try:
            status = self._queue.status()
            self._read_at = started_at
        except (PayoffError, SQLAlchemyError) as error:
            _log.warning(
                "the job table cannot be read for the metrics",
                error=type(error).__name__,
            )
        text = "Since the job table could last be read"
        yield GaugeMetricFamily(
            "payoff_queue_age_seconds", text, monotonic() - self._read_at
        )
        text = "Statements that the database did not answer"
        yield CounterMetricFamily(
            "payoff_database_errors", text, self._queue.database.failures
        )
        if status is None:
            return
        jobs = GaugeMetricFamily("payoff_jobs", "Jobs by status", labels=("status",))
        for name, count in status.jobs.items():
            jobs.add_metric((name,), count)
        yield jobs
        text = "How long the oldest queued job has waited"
        yield GaugeMetricFamily(
            "payoff_queue_oldest_seconds", text, status.oldest_seconds
        )


class Metrics(Collector):
    """The metrics of the HTTP service, and of its worker where it has one.

    Each application object has a registry of its own.
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
        models = self._models
        cache = models.cache
        yield GaugeMetricFamily("payoff_models_cached", "Models in memory", len(cache))
        yield GaugeMetricFamily(
            "payoff_model_cache_bytes", "Bytes of models in memory", cache.size
        )
        yield CounterMetricFamily(
            "payoff_model_loads", "Models loaded from storage", cache.loads
        )
        text = "Models that could not be loaded"
        yield CounterMetricFamily("payoff_model_load_failures", text, cache.failures)
        text = "Models that made room for others"
        yield CounterMetricFamily("payoff_model_evictions", text, cache.evictions)
        text = "Changes of the registry that are known"
        yield GaugeMetricFamily("payoff_registry_revision", text, models.revision)
        text = "Since the registry's index could last be read"
        yield GaugeMetricFamily("payoff_registry_age_seconds", text, models.age_seconds)

    def report(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


def of_worker(stores: Stores, worker: Worker) -> CollectorRegistry:
    """The metrics of a worker without an HTTP service."""
    registry = CollectorRegistry()
    _of_process(registry, stores, worker)
    return registry


def _of_process(
    registry: CollectorRegistry, stores: Stores, worker: Worker | None
) -> None:
    """Register the metrics of every process: version, memory, files, the database, its worker."""
    ProcessCollector(registry=registry)
    labels = ("version", "python")
    build = Gauge("payoff_build_info", "Versions; always 1", labels, registry=registry)
    build.labels(__version__, platform.python_version()).set(1)
    DatabaseMetrics(stores.queue, registry)
    if worker is not None:
        worker.listeners.append(JobMetrics(registry).count)
        text = "Since the worker's last turn without an error"
        age = Gauge("payoff_worker_turn_age_seconds", text, registry=registry)
        age.set_function(lambda: worker.turn_age)
