"""Workers that end with the test that starts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.jobs.attempt import JobLimits
from app.jobs.queue import Queue
from app.jobs.worker import Worker
from tests.jobs import targets


@contextmanager
def workers(queue: Queue, url: str, **usual: Any) -> Iterator[Callable[..., Worker]]:
    """Start workers with these options or others."""
    started: list[Worker] = []

    def start(target: Callable[..., Any] = targets.work, **options: Any) -> Worker:
        chosen = {"limits": JobLimits(seconds=60, memory_bytes=2**31), **usual, **options}
        worker = Worker(queue, target, url, modules=["tests.jobs.targets"], **chosen)
        started.append(worker)
        worker.start()
        return worker

    yield start
    for worker in started:
        worker.stop()
