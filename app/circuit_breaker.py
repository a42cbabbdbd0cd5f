"""What is done while a store or the database does not answer: few try it, and no caller waits for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic


class CircuitBreaker:
    """Lets all callers through until a failure; then one at a time, after a rest, until one of them is answered.

    The others are refused at once. Otherwise each would hold a thread for the seconds that a failure takes.
    """

    def __init__(self) -> None:
        self.reason = ""  # of the failure; empty while all is well
        self._rest_until = 0.0
        self._probe: object | None = None  # the caller that was let through after the rest and is not answered yet
        self._lock = Lock()

    @contextmanager
    def passing(self, refused: Callable[[str], Exception]) -> Iterator[None]:
        """Try it inside, and note the outcome there; raises what `refused` returns for the reason if not let through.

        A caller that has been answered may stay inside: it keeps nobody out.
        """
        caller = object()
        self._admit(caller, refused)
        try:
            yield
        finally:
            with self._lock:
                if self._probe is caller:
                    self._probe = None

    def trip(self, reason: str, rest_seconds: float) -> None:
        """Note a failure."""
        with self._lock:
            self._rest_until = monotonic() + rest_seconds
            self.reason = reason

    def reset(self) -> None:
        """Note an answer."""
        with self._lock:
            self.reason = ""
            self._probe = None

    def _admit(self, caller: object, refused: Callable[[str], Exception]) -> None:
        with self._lock:
            if not self.reason:
                return
            if monotonic() < self._rest_until or self._probe is not None:
                raise refused(self.reason)
            self._probe = caller
