"""What is done while a store or the database does not answer: few try it, and no caller waits for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic


class CircuitBreaker:
    """Lets all callers through until a failure; then one at a time, after a rest, until one of them succeeds.

    The others are refused at once. Otherwise each would hold a thread for the seconds that a failure takes.
    """

    def __init__(self) -> None:
        self.reason = ""  # of the failure; empty while all is well
        self._rest_until = 0.0
        self._probing = Lock()

    @contextmanager
    def passing(self, refused: Callable[[str], Exception]) -> Iterator[None]:
        """Try it inside; raises what `refused` returns for the reason if the caller is not let through."""
        if not self.reason:
            yield
            return
        if monotonic() < self._rest_until or not self._probing.acquire(blocking=False):
            raise refused(self.reason)
        try:
            yield
        finally:
            self._probing.release()

    def trip(self, reason: str, rest_seconds: float) -> None:
        """Note a failure."""
        self._rest_until = monotonic() + rest_seconds
        self.reason = reason

    def reset(self) -> None:
        """Note an answer."""
        self.reason = ""
