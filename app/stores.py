"""The only place that opens stores from settings. It does not load FastAPI: each process of a job starts here."""

from __future__ import annotations

import os
from threading import Thread
from time import sleep

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.access.audit import AuditLog
from app.access.keys import Keys
from app.data.isolated import ReaderLimits
from app.data.model_files import ModelFiles
from app.data.store import DataLimits, DatasetStore
from app.database import Database, DatabaseAway
from app.errors import PayoffError
from app.jobs.queue import Queue
from app.migrations import migrate
from app.outcomes.archive import Archive
from app.outcomes.defaults import Defaults
from app.outcomes.identity import DAY
from app.outcomes.recorder import Recorder
from app.outcomes.shadows import Shadows
from app.registry.copies import copies_of
from app.registry.registry import Registry
from app.registry.saved_matrices import SavedMatrices
from app.settings import Settings, misspelt
from app.usecases.ports import Ports

_MB = 2**20
_START_SECONDS = 20.0  # for a database server that starts at the same time
_SHORT_SECONDS = 2.0  # the same where copies can answer meanwhile

_log = structlog.get_logger("payoff")


def make_ports(settings: Settings) -> Ports:
    """What a program starts with: stores whose tables are up to date, and whose index is rebuilt where it is empty.

    An unavailable object store is waited for; Unusable if waiting cannot help.
    """
    _warn_of_misspelt()
    ports = open_ports(settings)
    _prepare(ports, _START_SECONDS)
    return ports


def make_serving_ports(settings: Settings) -> Ports:
    """The same for a service; where the database is unavailable and there is a copy of the index, it answers with the
    copies until the database is back.
    """
    _warn_of_misspelt()
    ports = open_ports(settings)
    has_copy = ports.registry.load_index_copy()
    try:
        _prepare(ports, _SHORT_SECONDS if has_copy else _START_SECONDS)
    except DatabaseAway as away:
        if not has_copy:
            raise
        _log.warning("the database is unavailable: starting with the local copies of index and models", why=away.why)
        Thread(target=_prepare_later, args=(ports,), name="waiting for the database", daemon=True).start()
    return ports


def _prepare_later(ports: Ports) -> None:
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
    Thread(target=_clean_up, args=(ports,), name="clean-up", daemon=True).start()  # a big store takes seconds to list


def _warn_of_misspelt() -> None:
    for name, nearest in misspelt(os.environ).items():
        _log.warning("unknown setting", variable=name, did_you_mean=nearest)


def make_tables(settings: Settings) -> Ports:
    """Stores whose tables are up to date, and nothing more: what a backup is restored into."""
    ports = open_ports(settings)
    ports.database.wait(_START_SECONDS)
    migrate(ports.database)
    return ports


def open_ports(
    settings: Settings,
    *,
    retry_seconds: float = 0.0,
) -> Ports:
    """Connected stores of a service that was started before, as each job's process needs them at once.

    Calls to an unavailable object store are repeated for `retry_seconds`.
    """
    settings.home.mkdir(parents=True, exist_ok=True)
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
        retry_seconds=retry_seconds,
        copies=copies_of(
            settings.models,
            settings.home.absolute() / "copies",
            settings.local_copies_mb * _MB,
            signing_key=signing_key,
            allow_version_skew=settings.allow_version_skew,
        ),
    )
    keep_inline = settings.keep_inline_days * DAY
    reader = ReaderLimits(memory_bytes=settings.upload_memory_mb * _MB)
    datasets = DatasetStore(
        settings.datasets_url, limits, retry_seconds=retry_seconds, reader=reader, keep_inline=keep_inline
    )
    audit = AuditLog(database)
    archive = Archive(database, settings.decisions_url, retry_seconds=retry_seconds)
    imports = ModelFiles(
        settings.datasets_url,
        pickles=settings.allow_pickles,
        version_skew=settings.allow_version_skew,
        retry_seconds=retry_seconds,
    )
    return Ports(
        database,
        datasets,
        queue,
        registry,
        audit,
        Keys(database, audit),
        imports,
        archive=archive,
        recorder=Recorder(
            database,
            Defaults(database, settings.home.absolute() / "recording.json"),
            archive.locate,
            keep_seconds=None if settings.keep_decisions_days is None else settings.keep_decisions_days * DAY,
        ),
        shadows=Shadows(database),
        matrices=SavedMatrices(database, settings.home.absolute() / "matrices.json"),
    )


def _clean_up(ports: Ports) -> None:
    try:
        left = ports.registry.clean_up() + ports.datasets.clean_up()
    except (PayoffError, SQLAlchemyError, OSError) as error:
        _log.warning("half-written files not removed", why=type(error).__name__)
    else:
        if left:
            _log.info("half-written files removed", count=left)
