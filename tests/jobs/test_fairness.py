"""Clients take turns: no number of jobs of one keeps another waiting."""

import random
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from app.database import Database
from app.jobs.job import RELEASED
from app.jobs.queue import Queue
from app.jobs.tables import JOBS
from app.migrations import migrate
from tests.conftest import migrated
from tests.effort import repeated


@pytest.fixture
def queue(database_url):
    with migrated(database_url) as database:
        yield Queue(database)


def submit(queue, client, count=1):
    return [queue.submit("train", {}, client=client) for _ in range(count)]


def claim(queue, count):
    """The clients of the next jobs."""
    return "".join((job.client or "-") if (job := queue.claim("ann")) else "" for _ in range(count))


def test_jobs_that_were_cancelled_cost_a_client_nothing(queue):
    for job in submit(queue, "a", 30):
        queue.cancel(job.id)
    submit(queue, "b", 5)
    submit(queue, "a")
    assert "a" in claim(queue, 2)


def test_a_job_that_is_tried_again_keeps_its_turn_and_gives_newcomers_no_advantage(queue):
    submit(queue, "a", 30)
    claim(queue, 20)
    old = queue.page(page_size=30)[0][-1]
    queue.end(old, RELEASED)
    submit(queue, "b", 30)
    assert queue.claim("ann").id == old.id
    assert Counter(claim(queue, 10)) == {"a": 5, "b": 5}


@settings(max_examples=repeated(20), deadline=None)
@given(st.randoms(use_true_random=False))
def test_while_two_clients_wait_neither_is_served_more_than_one_job_ahead(chance: random.Random):
    """In any order of submitting, claiming and ending, with 1 to 3 slots."""
    database = Database("sqlite://")
    migrate(database)
    queue, running, slots = Queue(database), [], chance.randint(1, 3)
    ahead: Counter[tuple[str, str]] = Counter()  # jobs of the first begun since the second one waits
    for _ in range(120):
        waiting = _clients_that_wait(queue)
        match chance.choice(["submit", "burst", "claim", "claim", "end"]):
            case "submit":
                submit(queue, chance.choice(["a", "b", "c", None]))
            case "burst":
                submit(queue, chance.choice("ab"), 5)
            case "claim" if len(running) < slots and (job := queue.claim("ann")):
                running.append(job)
                for other in waiting - {job.client}:
                    ahead[job.client, other] += 1
                    assert ahead[job.client, other] <= 2, "another client waits for longer than its turn"
                for pair in list(ahead):
                    if pair[1] == job.client:
                        ahead[pair] = 0
            case "end" if running:
                with suppress(IndexError), database.writing() as connection:
                    queue.succeed(connection, running.pop(chance.randrange(len(running))), {})
    database.close()


def _clients_that_wait(queue):
    with queue.database.reading() as connection:
        return set(connection.execute(select(JOBS.c.client).where(JOBS.c.status == "queued").distinct()).scalars())
