"""Machines that are suspended: whoever is stopped at whatever step of publishing or cleaning up, and goes on after the
job was finished by somebody else, neither harms what was published nor publishes anything twice.
"""

import os
import signal
from multiprocessing import get_context

import psutil
import pytest
from sqlalchemy import delete, select, update

from app.errors import Unavailable
from app.jobs.job import Ending, Event, Failure, Status
from app.jobs.tables import JOBS
from app.opening import open_stores, prepare_stores
from app.registry.tables import unpublished
from app.settings import Settings
from app.training import fitting, publishing
from tests.effort import THOROUGH
from tests.jobs.waiting import eventually
from tests.registry.making import open_registry
from tests.training.stalling import stall, trained

pytestmark = pytest.mark.thorough

STEPS = 200  # more than there are; the loop ends where the process did not stop

context = get_context("forkserver")


@pytest.fixture(
    params=["folder and SQLite", "folder and PostgreSQL", "bucket and PostgreSQL"]
)
def settings(request, tmp_path):
    """A bucket with SQLite has the steps of a bucket and the transactions of SQLite, each of which is here once."""
    models, database_url = (
        str(tmp_path / "models"),
        f"sqlite:///{tmp_path / 'payoff.db'}",
    )
    if "bucket" in request.param:
        models = f"{request.getfixturevalue('bucket')}/models"
    if "PostgreSQL" in request.param:
        limits = "options=-c%20statement_timeout%3D300%20-c%20lock_timeout%3D300"  # whoever is stopped may hold locks
        database_url = f"{request.getfixturevalue('postgres_url')}?{limits}"
    return {
        "home": str(tmp_path / "home"),
        "models": models,
        "datasets": str(tmp_path / "datasets"),
        "database": database_url,
        "database_seconds": 1,
    }


@pytest.fixture
def stores(settings, monkeypatch):
    prepare_stores(Settings.model_validate(settings)).database.close()
    monkeypatch.setattr(fitting, "trained", trained)
    stores = open_stores(Settings.model_validate(settings))
    yield stores
    stores.database.close()


@pytest.fixture
def stopped(settings, stores):
    """Start `work` for a job in a process, and wait until it stops before its nth step; False where it has ended."""
    processes = []

    def begin(work, job, at):
        in_transactions = (
            not stores.database.is_sqlite
        )  # there, whoever is stopped in one stops all others
        process = context.Process(
            target=stall,
            args=(settings, dict(os.environ), work, job, at),
            kwargs={"in_transactions": in_transactions},
        )
        process.start()
        processes.append(process)
        eventually(
            lambda: (
                process.exitcode is not None
                or status_of(process) == psutil.STATUS_STOPPED
            )
        )
        if process.exitcode is None:
            return process
        assert process.exitcode == 0
        if (
            work == "publish" and job.attempt == 1
        ):  # another may have given way to the one that is stopped
            assert stores.queue.get(job.id).ended
        return False

    yield begin
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


def status_of(process):
    try:
        return psutil.Process(process.pid).status()
    except psutil.NoSuchProcess:
        return None


def go_on(process):
    os.kill(process.pid, signal.SIGCONT)
    process.join(60)
    assert process.exitcode == 0


def lose(stores):
    """The lease of whoever works on a job runs out; nobody takes a row that a stopped process has locked."""
    free = (
        select(JOBS.c.seq)
        .where(JOBS.c.status == Status.RUNNING)
        .with_for_update(skip_locked=True)
    )
    with stores.database.writing() as connection:
        connection.execute(
            update(JOBS).where(JOBS.c.seq.in_(free)).values(lease_until=1.0)
        )
    stores.queue.recover_from_dead_workers()


def attempt(stores, job):
    """What another worker does; False where a stopped process is in the way."""
    try:
        fitting.run(stores, job)
    except Unavailable as error:
        stores.queue.end(job, Ending(Event.MISS, Failure(error.detail)))
        return False
    return True


def finish(stores, job):
    while not stores.queue.get(job.id).ended:
        lose(stores)
        if (claimed := stores.queue.claim("the last worker")) is not None:
            attempt(stores, claimed)


def check(stores, settings, job):
    """The job's version is whole, is published once, is what the folder says, and nothing else is left in the end."""
    ended = stores.queue.get(job.id)
    assert ended.status is Status.SUCCEEDED
    model = ended.result["model"]
    registry = stores.registry
    registry.refresh()
    assert [line.version for line in registry.index.model(model["name"]).versions] == [
        model["version"]
    ]
    assert registry.load(f"{model['name']}:{model['version']}").card.job == job.id
    publishing.clean_up_leftovers(stores, -60)
    assert registry.files.numbers(model["name"]) == [model["version"]]
    fresh = open_registry(settings["models"], stores.database)
    assert fresh.load(f"{model['name']}:{model['version']}").card.job == job.id
    registry.delete_model(model["name"], "the test")
    with (
        stores.database.writing() as connection
    ):  # what is left would be a step in all rounds after this
        connection.execute(delete(unpublished))


def each_step(settings, stores, begin):
    """A job for each step: its first attempt is claimed, `begin` starts what is stopped, until nothing was stopped.

    With PostgreSQL it is each third step: a folder's steps are those of the round with SQLite, and every call of a
    bucket takes two. Unless the run is thorough, it is every second of these.
    """
    stride = 1 if settings["database"].startswith("sqlite") else 3
    for at in range(1, STEPS, stride if THOROUGH else 2 * stride):
        job = stores.queue.submit("train", {"model": f"m{at}"}, model=f"m{at}")
        first = stores.queue.claim("the first worker")
        process = begin(first, at)
        yield job, process
        if not process:
            assert at > 5  # as many steps were stopped before
            return
    raise AssertionError("more steps than expected")


def test_two_attempts_that_are_stopped_at_the_same_step_while_a_third_publishes(
    stores, settings, stopped
):
    for job, first in each_step(
        settings, stores, lambda first, at: stopped("publish", first, at)
    ):
        if first:
            lose(stores)
            claimed = stores.queue.claim("the second worker")
            second = claimed is not None and stopped(
                "publish", claimed, int(job.model[1:])
            )
            lose(stores)
            if (third := stores.queue.claim("the third worker")) is not None:
                attempt(stores, third)
            go_on(first)
            if second:
                go_on(second)
        finish(stores, job)
        check(stores, settings, job)


def test_a_clean_up_that_is_stopped_while_another_version_is_published(
    stores, settings, stopped
):
    """It removes what the first attempt at an ended job left, and nothing else, however late it goes on."""

    def begin(first, at):
        card, estimator, holdout, _ = trained(None, first)
        stores.registry.stage(
            card, estimator, holdout
        )  # and dies before the transaction in which it publishes
        lose(stores)
        attempt(stores, stores.queue.claim("the second worker"))
        return stopped("clean up", first, at)

    for first, process in each_step(settings, stores, begin):
        job = first
        if process:
            later = stores.queue.submit("train", job.spec, model=job.model)
            attempt(stores, stores.queue.claim("the third worker"))
            finish(stores, later)
            stores.registry.delete_version(
                job.model, stores.queue.get(job.id).result["model"]["version"]
            )
            go_on(process)
            job = later
        finish(stores, job)
        check(stores, settings, job)
