"""Rate limits: sliding windows in the memory of one process.

The library `limits` starts a thread for nearly every request that it counts (0.4 ms where a
prediction takes 0.2); the counter it calls sliding window is the one below.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple, Self

from payoff.errors import Invalid

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(_SECONDS)})")
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class Rate:
    """At most `amount` within `seconds`."""

    amount: int
    seconds: int

    @classmethod
    def parse(cls, text: str, loc: str = "") -> Self:
        """From `100/second`, or per minute, hour or day; Invalid at `loc` otherwise."""
        match = _RATE.fullmatch(text)
        if match is None:
            raise Invalid.at(
                loc,
                f"{text[:80]!r} is not a rate: write for example 100/second,"
                " or per minute, hour or day",
            )
        return cls(int(match[1]), _SECONDS[match[2]])

    def __str__(self) -> str:
        units = {seconds: unit for unit, seconds in _SECONDS.items()}
        return f"{self.amount}/{units[self.seconds]}"


class Allowance(NamedTuple):
    """The state of a caller's rate after a request.

    `remaining` requests are allowed in the next `seconds`. `wait` is the number of seconds until
    the next request is allowed, 0 if this one was.
    """

    remaining: int
    seconds: float
    wait: float


class Windows:
    """The recent requests of each caller; for one thread.

    Of more than `_MAX_REMEMBERED` callers, the one whose last request is oldest is dropped. Of the
    previous window, as much counts as still lies within the last `seconds`, as if its requests had
    come evenly.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # By caller: the number of the current window, the requests in the previous window, and
        # those in the current one.
        self._counts: dict[str, tuple[int, int, int]] = {}

    def take(self, caller: str, rate: Rate) -> Allowance:
        """Count a request of the caller, if the rate allows it; O(1)."""
        time = self._clock() / rate.seconds  # in windows
        window = int(time)
        last_window, previous, current = self._counts.pop(caller, (window, 0, 0))
        if last_window != window:
            previous = current if last_window == window - 1 else 0
            current = 0
        until_end = window + 1 - time
        limit = rate.amount - 1  # requests before this one
        remaining = limit - previous * until_end - current
        wait = 0.0
        if remaining >= 0:
            current += 1
        elif (
            current <= limit
        ):  # this window has room, once less of the previous one counts
            wait = until_end - (limit - current) / previous
        else:
            wait = until_end + 1 - limit / current
        self._counts[caller] = window, previous, current
        if len(self._counts) > _MAX_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return Allowance(
            max(int(remaining), 0), until_end * rate.seconds, wait * rate.seconds
        )


def rounded_up(seconds: float) -> int:
    """Seconds for a header: an integer, at least 1."""
    return max(1, math.ceil(seconds))
