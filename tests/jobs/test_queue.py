"""The queue on SQLite and PostgreSQL, with a clock that the tests move."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, select, update

from app.database import Database
from app.errors import Conflict, Invalid, NotFound
from app.jobs.job import NOT_RENEWED, Ending, Event, Failure, Status
from app.jobs.queue import KEY_PLACE, Queue
from app.jobs.tables import JOBS, TABLES
from app.migrations import migrate
from tests.jobs.clock import ClockedDatabase

LEASE = 10


@pytest.fixture(scope="module")
def tables_on_postgres(postgres_server):
    """A database for all tests of this module: making one takes as long as ten of them."""
    url = postgres_server.create_database()
    database = Database(url)
    migrate(database)
    database.close()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return request.getfixturevalue("tables_on_postgres")


@pytest.fixture
def queue(url):
    queue = Queue(ClockedDatabase(url), attempts=2, lease_seconds=LEASE)
    migrate(queue.database)
    with queue.database.writing() as connection:
        for table in TABLES.sorted_tables:
            connection.execute(delete(table))
    yield queue
    queue.database.close()


@pytest.fixture
def job(queue):
    """A job that runs."""
    queue.submit("train", {"C": 1})
    return queue.claim("ann")


def succeed(queue, job, result=None):
    with queue.database.writing() as connection:
        queue.succeed(connection, job, result or {})


def test_a_submitted_job_is_stored_whole(queue):
    job = queue.submit("train", {"text": "\0 ü \ud800", "rows": [[1, None]]}, model="heart", dataset="ds_1")
    assert queue.get(job.id) == job
    assert (job.status, job.attempt, job.progress, job.created_at) == (Status.QUEUED, 0, 0.0, 1000.0)
    assert (job.spec, job.notes) == ({"text": "\0 ü \ud800", "rows": [[1, None]]}, {})


@pytest.mark.parametrize("job_id", ["job_00000000000000000000", "job_1", "", "x\0", "job_0000000000000000000\n"])
def test_an_unknown_job_is_not_found(queue, job_id):
    with pytest.raises(NotFound, match="there is no job"):
        queue.get(job_id)
    with pytest.raises(NotFound):
        queue.cancel(job_id)


@pytest.mark.parametrize(("kind", "spec", "model"), [("copy", {}, "a"), ("train", {"C": 2}, "a"), ("train", {}, "b")])
def test_the_same_key_with_another_request_is_refused(queue, kind, spec, model):
    queue.submit("train", {}, model="a", key="k")
    with pytest.raises(Invalid, match="choose a new key") as caught:
        queue.submit(kind, spec, model=model, key="k")
    assert [flaw.loc for flaw in caught.value.flaws] == [KEY_PLACE]


def test_pages_go_from_new_to_old_and_do_not_shift(queue):
    jobs = [queue.submit("train", {}) for _ in range(5)]
    first, token = queue.page(page_size=2)
    queue.submit("train", {})
    second, token = queue.page(page_size=2, page_token=token)
    third, end = queue.page(page_size=2, page_token=token)
    assert [job.id for job in (*first, *second, *third)] == [job.id for job in jobs[::-1]]
    assert end is None


def test_pages_have_the_results_of_some_kinds(queue, job):
    with queue.database.writing() as connection:
        queue.succeed(connection, job, {"table": [1, 2]})

    [whole], _ = queue.page(results_of=["other", job.kind])
    [bare], _ = queue.page(results_of=["other"])

    assert whole == replace(queue.get(job.id), spec={})
    assert bare == replace(whole, result=None)


def test_pages_are_filtered_by_status_model_and_kind(queue):
    a = queue.submit("train", {}, model="a")
    b = queue.submit("copy", {}, model="b")
    queue.claim("ann")
    assert [job.id for job in queue.page(status="running")[0]] == [a.id]
    assert [job.id for job in queue.page(model="b")[0]] == [b.id]
    assert [job.id for job in queue.page(kinds=["copy"], status="queued")[0]] == [b.id]
    assert queue.page(kinds=["copy"], status="running") == ([], None)


def test_a_data_set_is_in_use_until_its_jobs_have_ended(queue):
    queue.submit("train", {}, dataset="ds_1")
    assert queue.uses_dataset("ds_1")
    job = queue.claim("ann")
    assert queue.uses_dataset("ds_1")
    assert not queue.uses_dataset("ds_2")
    succeed(queue, job)
    assert not queue.uses_dataset("ds_1")


def test_a_silent_workers_job_goes_to_another_and_the_first_one_cannot_write_any_more(queue, job):
    queue.database.time += LEASE + 1
    (lost,) = queue.recover_from_dead_workers()
    assert (lost.id, lost.status, lost.started_at) == (job.id, Status.QUEUED, None)
    second = queue.claim("bob")
    assert (second.id, second.attempt, second.deaths) == (job.id, 2, 1)
    assert queue.beat(job, 0.5, "late") is NOT_RENEWED
    assert not queue.end(job, Ending(Event.FAIL, Failure("late")))
    with pytest.raises(Conflict, match="attempt 1"), queue.database.writing() as connection:
        queue.held(connection, job)
    with pytest.raises(Conflict, match="attempt 1"):
        succeed(queue, job)
    assert queue.get(job.id) == second


def test_what_a_lost_attempt_wrote_beside_its_success_is_rolled_back(queue, job):
    other = queue.submit("train", {})
    queue.end(job, Ending(Event.DIE, Failure("lost")))

    def publish():
        with queue.database.writing() as connection:
            connection.execute(update(JOBS).where(JOBS.c.id == other.id).values(stage="published"))
            queue.succeed(connection, job, {})

    with pytest.raises(Conflict):
        publish()
    assert queue.get(other.id).stage == ""


def test_success_stores_the_result_and_ends_the_job(queue, job):
    queue.database.time += 5
    succeed(queue, job, {"model": {"name": "heart", "version": 1}})
    done = queue.get(job.id)
    assert (done.status, done.progress, done.stage) == (Status.SUCCEEDED, 1.0, "done")
    assert done.result == {"model": {"name": "heart", "version": 1}}
    assert done.finished_at == done.started_at + 5
    with pytest.raises(Conflict):
        succeed(queue, job)


def test_a_worker_of_this_process_hears_of_each_new_job(queue):
    heard = []
    queue.wake = lambda: heard.append(len(queue.page()[0]))
    queue.submit("train", {}, key="k")
    queue.submit("train", {}, key="k")
    assert heard == [1]


def test_times_are_the_databases(url):
    """Between two readings of the database's clock lies the time it gave to the job."""
    database = Database(url)
    migrate(database)
    queue = Queue(database)
    with database.reading() as connection:
        before = connection.execute(select(database.now)).scalar_one()
    job = queue.submit("train", {})
    with database.reading() as connection:
        assert before <= job.created_at <= connection.execute(select(database.now)).scalar_one()
    database.close()
