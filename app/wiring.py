"""The only place that builds stores and engines from settings."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from threading import Thread
from time import sleep

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import tracing
from app.access.addresses import Addresses
from app.access.audit import AuditLog
from app.access.keyring import Keyring
from app.access.keys import Keys
from app.access.rates import Rate
from app.access.seen_keys import NOTE, KeysMade
from app.api.app import Service
from app.api.logs import configure
from app.api.middleware.guard import BodyLimits
from app.api.middleware.memory import Budget, default_limit
from app.api.middleware.sites import Sites
from app.data import isolated
from app.data.isolated import ReaderLimits
from app.data.store import DataLimits, DatasetStore
from app.database import Database, DatabaseAway
from app.errors import PayoffError
from app.jobs.child import Report
from app.jobs.job import Job
from app.jobs.parallel import check_installed, pieces_run_on
from app.jobs.process import JobLimits
from app.jobs.queue import Queue
from app.jobs.worker import Worker
from app.migrations import migrate
from app.polling import Poller
from app.processes import preload
from app.progress import listen
from app.registry.copies import copies_of
from app.registry.loaded import Loaded
from app.registry.registry import Registry, leave_as_read
from app.settings import Settings, listed, misspelt
from app.storage.storage import Storage
from app.usecases import compare, compare_job, train, train_job
from app.usecases.datasets import expire as expire_inline
from app.usecases.kernels import Kernels, keep_kernels
from app.usecases.ports import Ports
from app.usecases.warming import warm

_MB = 2**20
_PATIENCE_SECONDS = 30.0  # of a job, whose work would be lost, with an object store
_EXPIRY_SECONDS = 3600.0
_START_SECONDS = 20.0  # for a database server that starts at the same time
_PRELOADED = ("app.wiring", "sklearn.linear_model", "sklearn.model_selection", "sklearn.pipeline", *isolated.MODULES)
_SHORT_SECONDS = 2.0  # the same where copies can answer meanwhile
_RUN: dict[str, Callable[[Ports, Job], None]] = {train.KIND: train_job.run, compare.KIND: compare_job.run}
_CLEAN_UP: dict[str, Callable[[Ports, Job, int], None]] = {
    train.KIND: train_job.clean_up,
    compare.KIND: compare_job.clean_up,
}

_log = structlog.get_logger("payoff")


def wire(settings: Settings) -> Service:
    """Everything the HTTP service runs on."""
    kernels = Kernels()
    ports = _serving_ports(settings, kernels)
    worker = make_worker(settings, ports) if settings.workers else None
    if worker is None:  # which names what its jobs need, and that, itself
        preload(isolated.MODULES)
    limits = BodyLimits(default=int(settings.max_body_mb * _MB), upload=int(settings.max_upload_mb * _MB))
    keyring = make_keyring(settings, ports)
    access_log = settings.access_log and settings.log_level in ("debug", "info")
    memory = Budget(settings.request_memory_mb * _MB if settings.request_memory_mb else default_limit())
    return Service(
        ports,
        worker,
        keyring,
        limits,
        access_log,
        tracing=tracing.start(settings.telemetry),
        kernels=kernels,
        memory=memory,
        sites=Sites(listed(settings.hosts)),
        addresses=Addresses([ip_network(part) for part in listed(settings.trusted_proxies)]),
    )


def make_keyring(settings: Settings, ports: Ports) -> Keyring:
    """Who holds which key, and the limits for keys that have none of their own."""
    admin_key = settings.admin_key.get_secret_value() if settings.admin_key else None
    rate = Rate.parse(settings.rate_limit) if settings.rate_limit else None
    made = KeysMade(Storage(settings.models, NOTE, name="PAYOFF_MODELS"))
    return Keyring(ports.keys, made, admin_key, rate=rate, jobs=settings.jobs_per_key)


def make_keys(settings: Settings) -> Keys:
    """The table of keys alone, for the command line, which says itself what it did."""
    ports = make_tables(settings)
    return Keys(ports.database, AuditLog(ports.database, logged=False))


def make_ports(settings: Settings) -> Ports:
    """What a program starts with: stores whose tables are up to date, and whose index is rebuilt where it is empty.

    An object store that is away is waited for; Unusable where that would be in vain.
    """
    _warn_of_misspelt()
    ports = open_ports(settings)
    _prepare(ports, _START_SECONDS)
    return ports


def _serving_ports(settings: Settings, kernels: Kernels) -> Ports:
    """The same for a service; where the database is unavailable and there is a copy of the index, it answers with the
    copies until the database is back.
    """
    _warn_of_misspelt()
    ports = open_ports(settings, warm=partial(warm, kernels=kernels))
    has_copy = ports.registry.recall()
    try:
        _prepare(ports, _SHORT_SECONDS if has_copy else _START_SECONDS)
    except DatabaseAway as away:
        if not has_copy:
            raise
        _log.warning("starting with the copies of index and models, without the database", why=away.why)
        Thread(target=_catch_up, args=(ports,), name="waiting for the database", daemon=True).start()
    return ports


def _catch_up(ports: Ports) -> None:
    """Do what a start does, as soon as the database is back."""
    while True:
        try:
            _prepare(ports, _START_SECONDS)
        except (PayoffError, SQLAlchemyError) as error:
            _log.warning("still waiting for the database", why=getattr(error, "why", str(error)))
            sleep(_SHORT_SECONDS)
        else:
            return


def _prepare(ports: Ports, seconds: float) -> None:
    """Tables up to date, stores reached, leftovers removed. DatabaseAway where the database is, for so many seconds."""
    ports.database.wait(seconds)
    migrate(ports.database)
    ports.registry.prepare()
    ports.datasets.prepare()
    Thread(target=_sweep, args=(ports,), name="sweeper", daemon=True).start()  # a big store takes seconds to list


def _warn_of_misspelt() -> None:
    for name, nearest in misspelt(os.environ).items():
        _log.warning("no such setting", variable=name, meant=nearest)


def make_tables(settings: Settings) -> Ports:
    """Stores whose tables are up to date, and nothing more: what a backup is restored into."""
    ports = open_ports(settings)
    ports.database.wait(_START_SECONDS)
    migrate(ports.database)
    return ports


def open_ports(settings: Settings, *, patience: float = 0.0, warm: Callable[[Loaded], None] = leave_as_read) -> Ports:
    """Connected stores of a service that was started before, as each job's process needs them at once.

    Calls to an object store that is away are repeated for `patience` seconds. `warm` is called with each loaded model.
    """
    settings.home.mkdir(parents=True, exist_ok=True)
    keep_kernels(settings.home)
    database = Database(
        settings.database_url, connections=settings.database_connections, seconds=settings.database_seconds
    )
    limits = DataLimits(
        max_rows=settings.max_rows,
        max_columns=settings.max_columns,
        max_categories=settings.max_categories,
        max_upload_bytes=int(settings.max_upload_mb * _MB),
    )
    signing_key = settings.signing_key.get_secret_value().encode() if settings.signing_key else None
    queue = Queue(database, attempts=settings.job_attempts, lease_seconds=settings.lease_seconds)
    registry = Registry(
        settings.models,
        database,
        signing_key=signing_key,
        allow_version_skew=settings.allow_version_skew,
        cache_bytes=settings.cache_mb * _MB,
        patience=patience,
        copies=copies_of(
            settings.models,
            settings.home.absolute() / "copies",
            settings.local_copies_mb * _MB,
            signing_key=signing_key,
            allow_version_skew=settings.allow_version_skew,
        ),
        warm=warm,
    )
    keep_inline = settings.keep_inline_days * 86_400
    reader = ReaderLimits(memory_bytes=settings.upload_memory_mb * _MB)
    datasets = DatasetStore(settings.datasets_url, limits, patience=patience, reader=reader, keep_inline=keep_inline)
    audit = AuditLog(database)
    return Ports(database, datasets, queue, registry, audit, Keys(database, audit))


def make_worker(settings: Settings, ports: Ports) -> Worker:
    """A worker that runs jobs in processes of their own."""
    check_installed(settings.dask)
    Poller("expiry", partial(_expire, ports), _EXPIRY_SECONDS, at_once=True).start()
    limits = JobLimits(
        seconds=settings.job_seconds, memory_bytes=settings.job_memory_mb * _MB, threads=settings.job_threads
    )
    return Worker(
        ports.queue,
        run_job,
        settings,
        slots=max(settings.workers, 1),
        limits=limits,
        modules=(
            *_PRELOADED,
            *(("app.postgres",) if not ports.database.is_sqlite else ()),
            *(("s3fs",) if "s3://" in settings.models + settings.datasets else ()),
            *(("app.jobs.cluster",) if settings.dask else ()),
            *(tracing.MODULES if settings.telemetry else ()),
        ),
        cleanup=clean_up_after,
        upkeep=keep_up,
        keep_seconds=math.inf if settings.keep_jobs_days is None else settings.keep_jobs_days * 86_400,
    )


def run_job(settings: Settings, job: Job, report: Report) -> None:
    """What a job's own process does."""
    configure(settings.log_level)
    with _observed(settings, job, report):
        ports = open_ports(settings, patience=_PATIENCE_SECONDS)
        try:
            with pieces_run_on(settings.dask, settings.job_threads):
                _RUN[job.kind](ports, job)
        finally:
            ports.database.close()


@contextmanager
def _observed(settings: Settings, job: Job, report: Report) -> Iterator[None]:
    """Log lines that name the job and the request that ordered it; where traces are wanted, a span below that request
    with one for each stage.
    """
    request = {"request_id": job.origin["request_id"]} if "request_id" in job.origin else {}
    structlog.contextvars.bind_contextvars(job=job.id, attempt=job.attempt, **request)
    if not tracing.start(settings.telemetry):
        yield
        return
    try:
        known: dict[str, str | float] = {"job": job.id, "attempt": job.attempt, "model": job.model or "", **request}
        with tracing.continued(job.origin, f"job {job.kind}", **known), tracing.staged(report) as hear, listen(hear):
            yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the work is done: half a second, at least, for the last spans
        tracing.stop()


def clean_up_after(settings: Settings, job: Job, through: int) -> None:
    """What the worker does after the attempts up to the number `through`, which left no success."""
    ports = open_ports(settings)
    try:
        _CLEAN_UP[job.kind](ports, job, through)
    finally:
        ports.database.close()


def keep_up(settings: Settings) -> None:
    """What the worker does every few minutes."""
    ports = open_ports(settings)
    try:
        train_job.sweep(ports)
    finally:
        ports.database.close()


def _expire(ports: Ports) -> None:
    """Remove inline data sets that nothing needs."""
    try:
        if removed := expire_inline(ports):
            _log.info("inline data sets expired", datasets=removed)
    except (PayoffError, SQLAlchemyError, OSError) as error:
        _log.warning("inline data sets not removed", why=type(error).__name__)


def _sweep(ports: Ports) -> None:
    try:
        left = ports.registry.sweep() + ports.datasets.sweep()
    except (PayoffError, SQLAlchemyError, OSError) as error:
        _log.warning("not swept", why=type(error).__name__)
    else:
        if left:
            _log.info("swept up", half_written=left)
