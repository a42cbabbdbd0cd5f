"""Values in memory, bounded by the bytes they stand for, each loaded once however many ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Condition
from time import monotonic
from typing import Generic, TypeVar

from app.errors import Busy

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_WAIT_SECONDS = 10.0


@dataclass
class _Entry(Generic[V]):
    value: V
    size: int
    used: float


class Cache(Generic[K, V]):
    """Least recently used goes first. Evicting drops a reference: who holds the value goes on with it.

    The latest value stays even when it alone is bigger than the bound: loading it anew for every request would need
    the same memory and far more time. So at most max(limit, biggest value) bytes are kept, those included that are
    being loaded, as far as loaders call `admit`.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.loads = 0
        self.failures = 0
        self.evictions = 0
        self._entries: dict[K | None, _Entry[V]] = {}
        self._loading: dict[K, Future[V]] = {}
        self._admitted: dict[K, int] = {}
        self._lock = Condition()

    def get(self, key: K | None) -> V | None:
        """What is kept under `key`, without waiting: no lock is taken, since dict look-ups are atomic."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = monotonic()
        return entry.value

    def load(self, key: K, loader: Callable[[], tuple[V, int]]) -> V:
        """What is kept under `key`, or what `loader` returns (value, bytes).

        A caller that comes during a load waits for the same load. A failure is raised to all that wait, and not kept.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return entry.value
            waiting = self._loading.get(key)
            future = waiting or self._loading.setdefault(key, Future())
        if waiting is None:
            self._run(key, future, loader)
        return future.result()

    def admit(self, key: K, size: int) -> None:
        """Make room for `size` bytes that are about to be loaded as `key`, once other loads leave it.

        Busy where they do not within `_WAIT_SECONDS`. For loaders, before they read; a load's end gives it back.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self._leaves(size), _WAIT_SECONDS):
                raise Busy("other models are being loaded; try again later", seconds=2)
            self._make_room(size)
            self._admitted[key] = size

    def retain(self, keys: Collection[K]) -> None:
        """Drop everything but `keys`."""
        with self._lock:
            for key in self._entries.keys() - set(keys):
                del self._entries[key]

    @property
    def size(self) -> int:
        """Bytes that the kept values stand for."""
        return sum(entry.size for entry in list(self._entries.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _run(self, key: K, future: Future[V], loader: Callable[[], tuple[V, int]]) -> None:
        try:
            value, size = loader()
        except BaseException as error:  # even an interrupt must not leave the others waiting
            with self._lock:
                self.failures += 1
                self._end(key)
            future.set_exception(error)
            raise
        with self._lock:
            self.loads += 1
            self._end(key)
            self._make_room(size)
            self._entries[key] = _Entry(value, size, monotonic())
        future.set_result(value)

    def _end(self, key: K) -> None:
        del self._loading[key]
        self._admitted.pop(key, None)
        self._lock.notify_all()

    def _leaves(self, size: int) -> bool:
        """Whether the loads in progress leave room for `size` bytes; one alone always may."""
        return not self._admitted or sum(self._admitted.values()) + size <= self.limit

    def _make_room(self, size: int) -> None:
        size += sum(self._admitted.values())
        while self._entries and self.size + size > self.limit:
            oldest = min(self._entries, key=lambda key: self._entries[key].used)
            del self._entries[oldest]
            self.evictions += 1
