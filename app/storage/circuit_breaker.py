"""A circuit breaker: while a store or the database does not answer, few callers try it and no
caller waits for another.
"""

from collections.abc import Callable
from time import monotonic

REST_SECONDS = 1.0


class CircuitBreaker:
    """Lets all callers through until a failure; then one a second, until one of them is answered.

    The others are refused at once. Otherwise each would hold a thread for the seconds that a
    failure takes.
    """

    def __init__(self) -> None:
        self.reason = ""  # of the failure; empty while all is well
        self._next = 0.0

    def admit(self, refused: Callable[[str], Exception]) -> None:
        """Raise what `refused` returns for the reason unless this caller is let through."""
        reason = self.reason  # read once: another thread may reset it
        if not reason:
            return
        if monotonic() < self._next:
            raise refused(reason)
        self._next = monotonic() + REST_SECONDS

    def trip(self, reason: str) -> None:
        """Note a failure."""
        self._next = monotonic() + REST_SECONDS
        self.reason = reason

    def reset(self) -> None:
        """Note an answer."""
        self.reason = ""
