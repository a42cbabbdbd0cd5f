"""The worker of a service, and the work of its jobs' processes. They do not load FastAPI."""

from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.database.polling import Poller
from app.jobs.attempt import JobLimits
from app.jobs.job import Job
from app.jobs.parallel import check_installed, pieces_run_on
from app.jobs.worker import Worker
from app.monitoring.logs import configure
from app.opening import open_stores
from app.outcomes.decision import DAY
from app.outcomes.upkeep import keep_up as keep_up_archive
from app.report import replay
from app.requests.datasets import expire as expire_inline
from app.settings import Settings
from app.stores import Stores
from app.tables import isolated
from app.training import calibrate, compare, fitting, import_model, publishing, train
from payoff.errors import PayoffError

PRELOADED = (
    "app.workers",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.pipeline",
    *isolated.MODULES,
)
_MB = 2**20
# A job repeats calls to an unavailable object store for so long: its work would be lost.
_RETRY_SECONDS = 30.0
_UPKEEP_SECONDS = 3600.0
_RUN: dict[str, Callable[[Stores, Job], None]] = {
    train.KIND: fitting.run,
    calibrate.KIND: fitting.run,
    compare.KIND: compare.run,
    import_model.KIND: import_model.run,
    replay.KIND: replay.run,
}

_log = structlog.get_logger("payoff")


def make_worker(settings: Settings, stores: Stores) -> Worker:
    """A worker that runs each job in a process of its own."""
    check_installed(settings.dask)
    Poller("upkeep", partial(keep_up, settings, stores), _UPKEEP_SECONDS).start()
    limits = JobLimits(
        seconds=settings.job_seconds,
        memory_bytes=settings.job_memory_mb * _MB,
        threads=settings.job_threads,
    )
    modules = [*PRELOADED]
    if not stores.database.is_sqlite:
        modules.append("app.database.postgres")
    if settings.dask:
        modules.append("app.jobs.cluster")
    return Worker(
        stores.queue,
        run_job,
        settings,
        slots=max(settings.workers, 1),
        limits=limits,
        modules=modules,
    )


def run_job(settings: Settings, job: Job) -> None:
    """Run a job in its own process."""
    configure(settings.log_level)
    structlog.contextvars.bind_contextvars(**job.named)
    stores = open_stores(settings, retry_seconds=_RETRY_SECONDS)
    try:
        with pieces_run_on(settings.dask, settings.job_threads):
            _RUN[job.kind](stores, job)
    finally:
        stores.database.close()


def keep_up(settings: Settings, stores: Stores) -> None:
    """Delete what is no longer needed, every hour; a part that fails does not stop the rest."""
    days = settings.keep_decisions_days
    parts: dict[str, Callable[[], object]] = {
        "expired jobs": partial(_expire_jobs, stores, settings.keep_jobs_days),
        "inline data sets": lambda: expire_inline(stores),
        "what attempts left": lambda: publishing.clean_up_leftovers(stores),
        "half-written files": lambda: (
            stores.registry.storage.clean_up() + stores.datasets.clean_up()
        ),
        "files of imports": lambda: import_model.clean_up_files(stores),
        "recorded decisions": lambda: keep_up_archive(
            stores.archive,
            None if days is None else days * DAY,
            seals=settings.shares_decisions,
        ),
    }
    for name, part in parts.items():
        try:
            part()
        except (PayoffError, SQLAlchemyError, OSError) as error:
            _log.warning("not kept up", what=name, why=type(error).__name__)


def _expire_jobs(stores: Stores, days: float | None) -> None:
    if days is None:
        return
    while removed := stores.queue.expire(days * DAY):
        _log.info("expired jobs deleted", jobs=removed)
