"""The memory for requests: objects are charged before they are built, and one place refuses.

A body is charged by its bytes as it arrives, and before it is decoded or answered by the rows and
columns that it declares, of which a few bytes can declare many:

    charge_of(request)(rows * columns, NUMBER)

All of it is given back when the answer has been sent.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

import psutil

from app.errors import Busy
from payoff.errors import TooLarge

# Bytes of memory of a unit that is charged
BYTE = 1  # a byte that is kept as it is
BODY = 2  # a byte of a body, whose parts are joined
TEXT = 3  # a byte of text, which is copied
NUMBER = 16  # a float64, and once more while it is converted
VALUE = 120  # an object: a number takes 32, a list 80, a dictionary 230; rows are copied once
# A charge of at most so many bytes is not counted: the number of requests at a time bounds these.
SMALL = 64 * 1024
_RETRY_SECONDS = 2
_MB = 2**20
_MAX_DEFAULT = 1024 * _MB
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Charge(Protocol):
    """Holds `count` times `size` bytes for one request, until it is answered; `size` is a row of
    the table above.

    Raises TooLarge (413) where they can never fit, Busy (503) where they do not fit now.
    """

    def __call__(self, count: int, size: int = VALUE) -> None: ...


class BodyLimits(NamedTuple):
    """Largest bodies in bytes."""

    default: int
    upload: int


class Memory:
    """Counts the bytes of all requests in flight, at most `limit`; safe to use from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = Lock()

    def take(self, size: int, held: int = 0) -> None:
        """Take `size` bytes for a request that has `held`; TooLarge where they can never fit, Busy
        where they do not fit now.
        """
        if held + size > self.limit:
            needed = -(-(held + size) // _MB)
            raise TooLarge(
                f"the request needs about {needed} MB of memory;"
                f" the service has {self.limit // _MB} MB for requests"
            )
        with self._lock:
            if self.used + size > self.limit:
                raise Busy(
                    "the requests in progress use all memory; try again later",
                    seconds=_RETRY_SECONDS,
                )
            self.used += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self.used -= size


def default_limit() -> int:
    """A third of the memory of the container or machine, at most `_MAX_DEFAULT` bytes: the rest is
    for models and jobs.
    """
    return min(min(_memory_sizes()) // 3, _MAX_DEFAULT)


def _memory_sizes() -> Iterator[int]:
    yield psutil.virtual_memory().total
    for path in _CGROUP_LIMITS:
        try:
            yield int(path.read_text())
        except (OSError, ValueError):  # absent, or the word "max"
            continue
