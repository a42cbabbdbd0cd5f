"""Opens stores from settings, and prints why they cannot be opened; the only place that does.

It does not load FastAPI: each process of a job starts here.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import structlog
from pydantic import ValidationError

from app.access.audit import AuditLog
from app.access.keys import Keys
from app.database.engine import Database, DatabaseAway
from app.database.migrations import migrate
from app.jobs.queue import Queue
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY
from app.outcomes.recorder import Recorder
from app.outcomes.shadows import Shadows
from app.registry.files import Files
from app.registry.index import Index
from app.registry.loaded import Cache
from app.registry.registry import Registry
from app.registry.saved_documents import SavedDocuments
from app.settings import Settings, setting_errors
from app.storage import FileCache, Storage
from app.stores import Stores
from app.tables.dataset import DataLimits
from app.tables.model_files import ModelFiles
from app.tables.store import DatasetStore
from payoff.errors import PayoffError, unknown

_MB = 2**20
_START_SECONDS = 20.0  # for a database server that starts at the same time

_log = structlog.get_logger("payoff")


@contextmanager
def starting() -> Iterator[None]:
    """Exits with code 2 and a line that names the settings, where a start fails because of them."""
    try:
        yield
    except ValidationError as error:
        reason = setting_errors(error)[0]
    except DatabaseAway as error:
        reason = (
            f"the database cannot be used ({error.reason});"
            " PAYOFF_DATABASE names it, or the folder PAYOFF_HOME"
        )
    except PayoffError as error:
        reason = error.detail
    except OSError as error:
        reason = (
            f"{error.filename or 'a folder'} cannot be used ({error.strerror});"
            " see PAYOFF_HOME and PAYOFF_MODELS"
        )
    else:
        return
    sys.stderr.write(f"payoff: {reason}\n")
    raise SystemExit(2)


def prepare_stores(settings: Settings) -> Stores:
    """Stores at the start of a program, with their tables up to date.

    Waits a while for a database that starts at the same time, and not for an object store; Unusable
    if waiting for that could not help.
    """
    for message in unknown_settings(os.environ):
        _log.warning(message)
    stores = open_stores(settings)
    stores.database.wait(_START_SECONDS)
    migrate(stores.database)
    stores.registry.storage.prepare()
    stores.datasets.storage.prepare()
    return stores


def unknown_settings(variables: Iterable[str]) -> list[str]:
    """A message for each variable that has the prefix of settings and is not a setting."""
    known = [f"PAYOFF_{name.upper()}" for name in Settings.model_fields]
    names = sorted(
        name for name in variables if name.startswith("PAYOFF_") and name not in known
    )
    return [unknown("setting", name, known) for name in names]


def data_limits(settings: Settings) -> DataLimits:
    """How large a data set may be."""
    return DataLimits(
        max_rows=settings.max_rows,
        max_columns=settings.max_columns,
        max_categories=settings.max_categories,
        max_upload_bytes=int(settings.max_upload_mb * _MB),
        reader_bytes=settings.upload_memory_mb * _MB,
    )


def open_stores(settings: Settings, *, retry_seconds: float = 0.0) -> Stores:
    """Connected stores of a service that has been started before, for the process of a job.

    Calls to an unavailable object store are repeated for `retry_seconds`.
    """
    settings.home.mkdir(parents=True, exist_ok=True)
    database = Database(
        settings.database_url,
        connections=settings.database_connections,
        seconds=settings.database_seconds,
    )
    limits = data_limits(settings)
    queue = Queue(
        database, attempts=settings.job_attempts, lease_seconds=settings.lease_seconds
    )
    copies = settings.local_copies_mb if Storage.is_remote(settings.models) else 0
    files = Files(
        settings.models,
        allow_version_skew=settings.allow_version_skew,
        retry_seconds=retry_seconds,
        kept=FileCache(settings.home.absolute() / "copies", copies * _MB),
    )
    registry = Registry(Index(database), files, Cache(settings.cache_mb * _MB))
    keep_inline = settings.keep_inline_days * DAY
    days = settings.keep_decisions_days
    keep_decisions = None if days is None else days * DAY
    datasets = DatasetStore(
        settings.datasets_url,
        limits,
        retry_seconds=retry_seconds,
        keep_inline=keep_inline,
    )
    audit = AuditLog(database)
    archive = Archive(database, settings.decisions_url, retry_seconds=retry_seconds)
    imports = ModelFiles(
        settings.datasets_url,
        pickles=settings.allow_pickles,
        version_skew=settings.allow_version_skew,
        retry_seconds=retry_seconds,
    )
    return Stores(
        database,
        datasets,
        queue,
        registry,
        audit,
        Keys(database, audit),
        imports,
        archive=archive,
        recorder=Recorder(database, archive.locate, keep_seconds=keep_decisions),
        shadows=Shadows(database),
        documents=SavedDocuments(database),
    )
