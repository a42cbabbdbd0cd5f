"""Turns of foreign models: how many of them work in a process at once, and how many calls wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Semaphore

from app.errors import Busy

_AT_ONCE = 2  # each with a batch's memory
_CALLS = 12  # of the forty threads of a service
_RETRY_SECONDS = 2


class Turns:
    """At most `at_once` batches of at most `calls` calls."""

    def __init__(self, at_once: int = _AT_ONCE, calls: int = _CALLS) -> None:
        self._batches = Semaphore(at_once)
        self._most = calls
        self._calls = 0
        self._lock = Lock()

    @contextmanager
    def call(self) -> Iterator[Semaphore]:
        """The semaphore to hold for each batch; Busy where too many calls wait."""
        with self._lock:
            if self._calls >= self._most:
                raise Busy("too many requests for imported models are waiting; try again later", seconds=_RETRY_SECONDS)
            self._calls += 1
        try:
            yield self._batches
        finally:
            with self._lock:
                self._calls -= 1


turns = Turns()
