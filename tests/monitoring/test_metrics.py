"""What Prometheus is told: of jobs as they end, of requests, and of a database that is away."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from app.database.engine import DatabaseAway
from app.errors import Unavailable
from app.jobs.job import Ending, Event, Failure, Status
from app.jobs.queue import Origin
from app.monitoring.metrics import DatabaseMetrics, JobMetrics, RequestMetrics
from app.storage.store_calls import ERRORS, StoreBreaker


@pytest.fixture
def told():
    return CollectorRegistry()


def test_jobs_are_counted_and_timed_by_kind_and_end(queue, told):
    queue.submit("train", {})
    job = replace(queue.claim("worker"), created_at=100.0, started_at=103.0)
    ended = replace(job, status=Status.SUCCEEDED, finished_at=110.0)
    put_back = replace(job, status=Status.QUEUED)

    metrics_of_jobs = JobMetrics(told)
    for heard in (job, put_back, replace(job, attempt=2), ended):
        metrics_of_jobs.count(heard)

    assert (
        told.get_sample_value(
            "payoff_jobs_ended_total", {"kind": "train", "status": "succeeded"}
        )
        == 1
    )
    assert (
        told.get_sample_value("payoff_job_attempts_lost_total", {"kind": "train"}) == 1
    )
    assert told.get_sample_value("payoff_job_seconds_sum", {"kind": "train"}) == 7


def test_the_job_table_is_told_with_the_age_of_the_oldest_that_waits(queue, told):
    queue.submit("train", {})
    queue.end(queue.claim("worker"), Ending(Event.FAIL, Failure("no")))
    queue.submit("compare", {})
    DatabaseMetrics(queue, told)

    assert told.get_sample_value("payoff_jobs", {"status": "queued"}) == 1
    assert told.get_sample_value("payoff_jobs", {"status": "failed"}) == 1
    assert 0 <= told.get_sample_value("payoff_queue_oldest_seconds") < 60
    assert 0 <= told.get_sample_value("payoff_queue_age_seconds") < 60


def test_of_a_job_table_that_does_not_answer_the_age_alone_is_told(
    queue, told, monkeypatch
):
    def away():
        raise DatabaseAway("gone")

    DatabaseMetrics(queue, told)
    monkeypatch.setattr(queue, "status", away)

    assert told.get_sample_value("payoff_jobs", {"status": "queued"}) is None
    age = told.get_sample_value("payoff_queue_age_seconds")
    assert told.get_sample_value("payoff_queue_age_seconds") > age


def test_only_what_the_database_did_not_answer_counts_as_its_error(queue, told):
    DatabaseMetrics(queue, told)
    queue.submit("train", {}, origin=Origin("the same"))
    queue.submit(
        "train", {}, origin=Origin("the same")
    )  # an integrity error inside, and no failure

    assert told.get_sample_value("payoff_database_errors_total") == 0
    with pytest.raises(DatabaseAway), queue.database.reading() as connection:
        connection.execute(text("SELECT * FROM nowhere"))
    assert told.get_sample_value("payoff_database_errors_total") == 1


def test_requests_are_timed_by_route_and_status(told):
    requests = RequestMetrics(told)
    seconds = (0.0005, 0.0006, 10, 11)  # a bucket has its upper bound

    for each in seconds:
        requests.times_of("POST", "/predict", 200).observe(each)
    requests.times_of("POST", "/predict", 404).observe(1.0)

    def of(name, **more):
        labels = {"method": "POST", "route": "/predict", **more}
        return told.get_sample_value(f"payoff_request_seconds_{name}", labels)

    bounds = ("0.0005", "0.001", "1.0", "10.0", "+Inf")
    assert [of("bucket", status="200", le=bound) for bound in bounds] == [1, 2, 2, 3, 4]
    assert (of("count", status="200"), of("sum", status="200")) == (4, sum(seconds))
    assert of("count", status="404") == 1


def test_what_a_store_does_not_answer_is_counted_by_store(told):
    told.register(ERRORS)

    def fail():
        raise TimeoutError

    store = StoreBreaker("PAYOFF_MODELS", ERRORS.labels("models"))
    before = told.get_sample_value("payoff_storage_errors_total", {"store": "models"})
    with pytest.raises(Unavailable):
        store.call(fail)

    assert (
        told.get_sample_value("payoff_storage_errors_total", {"store": "models"})
        == before + 1
    )
