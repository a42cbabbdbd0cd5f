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
        found = _RATE.fullmatch(text)
        if found is None:
            raise Invalid.at(
                loc,
                f"{text[:80]!r} is not a rate: write for example 100/second, or per minute, hour or day",
            )
        return cls(int(found[1]), _SECONDS[found[2]])

    def __str__(self) -> str:
        return f"{self.amount}/{next(unit for unit, seconds in _SECONDS.items() if seconds == self.seconds)}"


class Allowance(NamedTuple):
    """What is left after asking, for how many seconds; `wait` seconds until one more is possible, 0
    if this one was.
    """

    left: int
    seconds: float
    wait: float


class Windows:
    """What everybody has used of a rate lately; for one thread. Who asked least recently is
    forgotten first.

    Of the window before, as much counts as still lies within the last `seconds`, as if its requests
    had come evenly.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: dict[
            str, tuple[int, int, int]
        ] = {}  # the running window; requests in the one before and in it

    def take(self, who: str, rate: Rate) -> Allowance:
        """Use one, if there is one; O(1)."""
        now = self._clock() / rate.seconds  # in windows
        running = int(now)
        window, before, current = self._counts.pop(who, (running, 0, 0))
        if window != running:
            before, current = (current if window == running - 1 else 0), 0
        rest, most = running + 1 - now, rate.amount - 1
        left, wait = most - before * rest - current, 0.0
        if left >= 0:
            current += 1
        elif current <= most:  # this window has room, once less of the one before counts
            wait = rest - (most - current) / before
        else:
            wait = rest + 1 - most / current
        self._counts[who] = running, before, current
        if len(self._counts) > _MAX_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return Allowance(max(int(left), 0), rest * rate.seconds, wait * rate.seconds)


def whole(seconds: float) -> int:
    """For headers: rounded up, at least 1."""
    return max(1, math.ceil(seconds))
