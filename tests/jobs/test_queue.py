"""The queue as two replicas have it, on both databases: what is stored, who is first, and how clients take turns."""

import multiprocessing
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import NotFound, TooMany
from app.jobs.job import RELEASED, Status
from app.jobs.queue import JobFilter, Origin, Queue, id_of_key
from app.jobs.tables import JOBS
from payoff.errors import Invalid
from tests.conftest import migrated
from tests.effort import repeated
from tests.jobs import targets


@pytest.fixture
def queues(database_url):
    """Of two replicas."""
    databases = [Database(database_url), Database(database_url)]
    queues = [Queue(database) for database in databases]
    targets.make_tables(queues[0])
    yield queues
    for database in databases:
        database.close()


@pytest.fixture
def queue(queues):
    return queues[0]


def test_a_submitted_job_is_stored_whole(queue):
    def now():
        with queue.database.reading() as connection:
            return connection.execute(select(queue.database.now)).scalar_one()

    before = now()
    job = queue.submit(
        "train",
        {"text": "\0 ü \ud800", "rows": [[1, None]]},
        model="heart",
        dataset="ds_1",
    )
    assert queue.get(job.id) == job
    assert (job.status, job.attempt, job.progress) == (Status.QUEUED, 0, 0.0)
    assert before <= job.created_at <= now()  # by the database's clock
    assert (job.spec, job.notes) == ({"text": "\0 ü \ud800", "rows": [[1, None]]}, {})


def test_an_unknown_job_is_not_found(queue):
    for job_id in (
        "job_00000000000000000000",
        "job_1",
        "",
        "x\0",
        "job_0000000000000000000\n",
    ):
        with pytest.raises(NotFound, match="there is no job"):
            queue.get(job_id)
        with pytest.raises(NotFound):
            queue.cancel(job_id)


def test_pages_have_the_results_of_some_kinds(queue):
    queue.submit("train", {"C": 1})
    job = queue.claim("ann")
    with queue.database.writing() as connection:
        queue.succeed(connection, job, {"table": [1, 2]})

    [whole], _ = queue.page(results_of=["other", job.kind])
    [bare], _ = queue.page(results_of=["other"])

    assert whole == replace(queue.get(job.id), spec={})
    assert bare == replace(whole, result=None)


def test_pages_of_a_client_with_patterns(queue):
    for model, client in (
        ("heart-a", "ann"),
        ("heart-a", "bob"),
        ("lung", "ann"),
        (None, "ann"),
        (None, "bob"),
    ):
        queue.submit("train", {}, model=model, origin=Origin(client=client))

    seen, _ = queue.page(JobFilter(models=("heart-*",), client="ann"))

    assert [(job.model, job.client) for job in seen] == [
        (None, "ann"),
        ("heart-a", "bob"),
        ("heart-a", "ann"),
    ]


def test_orders_at_the_same_moment_cannot_pass_the_limit_together(queues):
    """Nor do other clients wait for that client's limit, and its limit is for jobs that have not ended."""
    ann = Origin(client="ann", max_jobs=3)

    def order(number):
        try:
            return queues[number % 2].submit("train", {"number": number}, origin=ann)
        except TooMany:
            return None

    with ThreadPoolExecutor(8) as threads:
        accepted = [job for job in threads.map(order, range(24)) if job is not None]

    assert len(accepted) == 3
    queues[0].submit("train", {}, origin=Origin(client="bob", max_jobs=1))
    for _ in range(5):
        queues[1].submit("train", {})  # without a key there is no limit
    queues[1].cancel(accepted[0].id)
    queues[0].submit("train", {}, origin=ann)
    with pytest.raises(TooMany, match="3 jobs of this key") as caught:
        queues[1].submit("train", {}, origin=ann)
    assert caught.value.seconds > 1


def test_repeating_an_order_is_none_more(queues):
    """Also where it is repeated at the same moment, and the limit leaves room for one."""
    with ThreadPoolExecutor(8) as threads:
        futures = [
            threads.submit(
                queues[number % 2].submit,
                "train",
                {"C": 1},
                origin=Origin("k", "ann", max_jobs=1),
            )
            for number in range(16)
        ]
        assert len({future.result().id for future in futures}) == 1


def test_idempotency_keys_are_each_clients_own(queue):
    jobs = {
        client: queue.submit("train", {"client": client}, origin=Origin("k", client)).id
        for client in (None, "a", "b")
    }

    assert len(set(jobs.values())) == 3
    for client, job_id in jobs.items():
        found = queue.get(id_of_key("k", client))
        assert (found.id, found.client) == (job_id, client)
        with pytest.raises(Invalid, match="choose a new key"):
            queue.submit(
                "train", {"client": "another order"}, origin=Origin("k", client)
            )


def test_what_is_written_with_an_order_fails_with_it(queue):
    """The order is no order where its entry in the audit log cannot be written, and a repeated one writes none."""

    def broken(_connection, _job):
        raise RuntimeError("no entry")

    with pytest.raises(RuntimeError):
        queue.submit("train", {}, origin=Origin("k"), also=broken)
    assert queue.page() == ([], None)

    written = []
    for _ in range(2):
        queue.submit(
            "train",
            {},
            origin=Origin("k"),
            also=lambda _connection, job: written.append(job.id),
        )
    assert len(written) == 1


@pytest.mark.thorough
def test_every_job_is_claimed_once_whoever_claims(database_url, queue):
    """In two processes, and in four threads of this one."""
    for number in range(200):
        queue.submit("train", {"number": number})
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=targets.claim_all, args=(database_url, "a process"))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(targets.claim_all, [database_url] * 4, ["a thread"] * 4))
    for process in processes:
        process.join()
        assert process.exitcode == 0

    assert queue.status().jobs["succeeded"] == 200
    assert sorted(targets.published(queue).values()) == [1] * 200
    assert Counter(job.attempt for job in queue.page(page_size=1000)[0]) == {1: 200}


def test_of_cancelling_and_succeeding_at_once_only_one_happens(queue):
    def succeed(job):
        with queue.database.writing() as connection:
            queue.succeed(connection, job, {})

    for _ in range(30):
        queue.submit("train", {})
        job = queue.claim("ann")
        with ThreadPoolExecutor(2) as threads:
            futures = [
                threads.submit(succeed, job),
                threads.submit(queue.cancel, job.id),
            ]
        succeeded, cancelled = [future.exception() is None for future in futures]
        assert succeeded != cancelled
        assert queue.get(job.id).cancel_requested == cancelled


@pytest.fixture
def fair(database_url):
    with migrated(database_url) as database:
        yield Queue(database)


def submit(fair, client, count=1):
    return [
        fair.submit("train", {}, origin=Origin(client=client)) for _ in range(count)
    ]


def claim(fair, count):
    """The clients of the next jobs."""
    return "".join(
        (job.client or "-") if (job := fair.claim("ann")) else "" for _ in range(count)
    )


def test_jobs_that_were_cancelled_cost_a_client_nothing(fair):
    for job in submit(fair, "a", 30):
        fair.cancel(job.id)
    submit(fair, "b", 5)
    submit(fair, "a")
    assert "a" in claim(fair, 2)


def test_a_job_that_is_tried_again_keeps_its_turn_and_gives_newcomers_no_advantage(
    fair,
):
    submit(fair, "a", 30)
    claim(fair, 20)
    old = fair.page(page_size=30)[0][-1]
    fair.end(old, RELEASED)
    submit(fair, "b", 30)
    assert fair.claim("ann").id == old.id
    assert Counter(claim(fair, 10)) == {"a": 5, "b": 5}


@settings(max_examples=repeated(20), deadline=None)
@given(st.randoms(use_true_random=False))
def test_while_two_clients_wait_neither_is_served_more_than_one_job_ahead(
    chance: random.Random,
):
    """In any order of submitting, claiming and ending, with 1 to 3 slots."""
    database = Database("sqlite://")
    migrate(database)
    fair, running, slots = Queue(database), [], chance.randint(1, 3)
    ahead: Counter[tuple[str, str]] = (
        Counter()
    )  # jobs of the first begun since the second one waits
    for _ in range(120):
        waiting = _clients_that_wait(fair)
        match chance.choice(["submit", "burst", "claim", "claim", "end"]):
            case "submit":
                submit(fair, chance.choice(["a", "b", "c", None]))
            case "burst":
                submit(fair, chance.choice("ab"), 5)
            case "claim" if len(running) < slots and (job := fair.claim("ann")):
                running.append(job)
                for other in waiting - {job.client}:
                    ahead[job.client, other] += 1
                    assert ahead[job.client, other] <= 2, (
                        "another client waits for longer than its turn"
                    )
                for pair in list(ahead):
                    if pair[1] == job.client:
                        ahead[pair] = 0
            case "end" if running:
                with suppress(IndexError), database.writing() as connection:
                    fair.succeed(
                        connection, running.pop(chance.randrange(len(running))), {}
                    )
    database.close()


def _clients_that_wait(fair):
    with fair.database.reading() as connection:
        return set(
            connection.execute(
                select(JOBS.c.client).where(JOBS.c.status == "queued").distinct()
            ).scalars()
        )
