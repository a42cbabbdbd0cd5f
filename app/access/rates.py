"""Rate limits: sliding windows in the memory of one process.

The library `limits` starts a thread for nearly every request that it counts (0.4 ms where a prediction takes 0.2); the
counter it calls sliding window is the one below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from app.errors import Invalid

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(_SECONDS)})")
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class Rate:
    """At most `amount` within `seconds`."""

    amount: int
    seconds: int

    @classmethod
    def parse(cls, text: str, loc: str = "") -> Rate:
        """From `100/second`, or per minute, hour or day; Invalid at `loc` otherwise."""
        found = _RATE.fullmatch(text)
        if found is None:
            raise Invalid.at(
                loc, f"{text[:80]!r} is not a rate: write for example 100/second, or per minute, hour or day"
            )
        return cls(int(found[1]), _SECONDS[found[2]])

    def __str__(self) -> str:
        return f"{self.amount}/{next(unit for unit, seconds in _SECONDS.items() if seconds == self.seconds)}"


class Allowance(NamedTuple):
    """What is left after asking, for how many seconds; `wait` seconds until one more is possible, 0 if this one was."""

    left: int
    seconds: float
    wait: float


class Windows:
    """What everybody has used of a rate lately; for one thread.

    Of the window before, as much counts as still lies within the last `seconds`, as if its requests had come evenly.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def take(self, who: str, rate: Rate) -> Allowance:
        """Use one, if there is one; O(1)."""
        now = self._clock()
        window = self._windows.get(who)
        if window is None:
            self._evict(now)
            window = self._windows[who] = _Window(now, rate.seconds)
        window.move(now)
        used = window.used(now)
        if used + 1 > rate.amount:
            return Allowance(0, window.ends - now, window.wait(now, rate.amount))
        window.current += 1
        return Allowance(int(rate.amount - used - 1), window.ends - now, 0.0)

    def _evict(self, now: float) -> None:
        """Make room where very many asked; of those that asked lately the oldest go first."""
        if len(self._windows) < _MAX_REMEMBERED:
            return
        self._windows = {who: window for who, window in self._windows.items() if window.ends + window.seconds > now}
        for who in list(self._windows)[: len(self._windows) - _MAX_REMEMBERED // 2]:
            del self._windows[who]


class _Window:
    """Counts in the running window and in the one before."""

    __slots__ = ("current", "ends", "previous", "seconds")

    def __init__(self, now: float, seconds: int) -> None:
        self.seconds = seconds
        self.ends = now + seconds
        self.current = self.previous = 0

    def move(self, now: float) -> None:
        if now >= self.ends:
            steps = int((now - self.ends) // self.seconds) + 1
            self.previous = self.current if steps == 1 else 0
            self.current = 0
            self.ends += steps * self.seconds

    def used(self, now: float) -> float:
        return self.previous * (self.ends - now) / self.seconds + self.current

    def wait(self, now: float, amount: int) -> float:
        """Seconds until what is used leaves room for one of `amount`, where there is none now."""
        if self.current < amount:  # this window has room, once less of the one before counts
            return (self.ends - now) - self.seconds * (amount - 1 - self.current) / self.previous
        return (self.ends - now) + self.seconds * (1 - (amount - 1) / self.current)


def whole(seconds: float) -> int:
    """For headers: rounded up, at least 1."""
    return max(1, math.ceil(seconds))
