"""Many at once, in threads and in processes: every job has one owner, every key one job."""

import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.jobs import targets

JOBS = 200


@pytest.fixture
def url(database_url):
    return database_url


@pytest.fixture
def queue(url):
    with targets.opened(url) as queue:
        targets.make_tables(queue)
        yield queue


def at_once(function, *arguments):
    """Call a function in two processes and in four threads of this one, all at the same time."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=(*each, "a process")) for each in [arguments] * 2]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(function, *arguments, "a thread") for _ in range(4)]
    for future in futures:
        future.result()
    for process in processes:
        process.join()
        assert process.exitcode == 0


@pytest.mark.thorough
def test_every_job_is_claimed_once_whoever_claims(url, queue):
    for number in range(JOBS):
        queue.submit("train", {"number": number})
    at_once(targets.claim_all, url)
    assert queue.status().jobs["succeeded"] == JOBS
    assert sorted(targets.published(queue).values()) == [1] * JOBS
    assert Counter(job.attempt for job in queue.page(page_size=1000)[0]) == {1: JOBS}


def test_of_cancelling_and_succeeding_at_once_only_one_happens(queue):
    def attempt(job):
        def succeed():
            with queue.database.writing() as connection:
                queue.succeed(connection, job, {})

        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(succeed), threads.submit(queue.cancel, job.id)]
        return [future.exception() is None for future in futures]

    for _ in range(30):
        queue.submit("train", {})
        job = queue.claim("ann")
        succeeded, cancelled = attempt(job)
        assert succeeded != cancelled
        assert queue.get(job.id).cancel_requested == cancelled
