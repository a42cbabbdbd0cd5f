"""Limits on jobs at once hold on both databases, whoever orders at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.database import Database
from app.errors import Invalid, TooMany
from app.jobs.queue import Queue, id_of_key
from app.migrations import migrate


@pytest.fixture
def queues(database_url):
    """Of two replicas."""
    databases = [Database(database_url), Database(database_url)]
    migrate(databases[0])
    yield [Queue(database) for database in databases]
    for database in databases:
        database.close()


def test_orders_at_the_same_moment_cannot_pass_the_limit_together(queues):
    """Nor do other clients wait for that client's limit, and its limit is for jobs that have not ended."""

    def order(number):
        try:
            return queues[number % 2].submit("train", {"number": number}, client="ann", most=3)
        except TooMany:
            return None

    with ThreadPoolExecutor(8) as threads:
        accepted = [job for job in threads.map(order, range(24)) if job is not None]

    assert len(accepted) == 3
    queues[0].submit("train", {}, client="bob", most=1)
    for _ in range(5):
        queues[1].submit("train", {})  # without a key there is no limit
    queues[1].cancel(accepted[0].id)
    queues[0].submit("train", {}, client="ann", most=3)
    with pytest.raises(TooMany, match="3 jobs of this key") as caught:
        queues[1].submit("train", {}, client="ann", most=3)
    assert caught.value.seconds > 1


def test_repeating_an_order_is_none_more(queues):
    """Also where it is repeated at the same moment, and the limit leaves room for one."""
    with ThreadPoolExecutor(8) as threads:
        futures = [
            threads.submit(queues[number % 2].submit, "train", {"C": 1}, key="k", client="ann", most=1)
            for number in range(16)
        ]
        assert len({future.result().id for future in futures}) == 1


def test_idempotency_keys_are_each_clients_own(queues):
    queue = queues[0]
    jobs = {client: queue.submit("train", {"client": client}, key="k", client=client).id for client in (None, "a", "b")}

    assert len(set(jobs.values())) == 3
    for client, job_id in jobs.items():
        found = queue.get(id_of_key("k", client))
        assert (found.id, found.client) == (job_id, client)
        with pytest.raises(Invalid):
            queue.submit("train", {"client": "another order"}, key="k", client=client)
    assert queue.submit("train", {"client": None}, key="k").id == jobs[None]


def test_what_is_written_with_an_order_fails_with_it(queues):
    """The order is no order where its entry in the audit log cannot be written, and a repeated one writes none."""
    queue = queues[0]

    def broken(_connection, _job):
        raise RuntimeError("no entry")

    with pytest.raises(RuntimeError):
        queue.submit("train", {}, key="k", also=broken)
    assert queue.page() == ([], None)

    written = []
    for _ in range(2):
        queue.submit("train", {}, key="k", also=lambda _connection, job: written.append(job.id))
    assert len(written) == 1


def test_pages_of_a_client_with_patterns(queues):
    queue = queues[0]
    for model, client in (("heart-a", "ann"), ("heart-a", "bob"), ("lung", "ann"), (None, "ann"), (None, "bob")):
        queue.submit("train", {}, model=model, client=client)

    seen, _ = queue.page(models=("heart-*",), client="ann")

    assert [(job.model, job.client) for job in seen] == [(None, "ann"), ("heart-a", "bob"), ("heart-a", "ann")]
