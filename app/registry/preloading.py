"""The versions that aliases and bare names mean, loaded before they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from app.allocator import trim
from app.errors import NotReady, PayoffError, Unavailable
from app.polling import Poller
from app.registry.snapshot import Key, Snapshot

_log = logging.getLogger(__name__)


class Preloader:
    """Loads each current version once, in a thread, as far as `limit` bytes allow; those of aliases first.

    `size` is a version's bytes and `load` has it loaded; Unavailable and NotReady from them mean to try again, other
    errors that this version cannot be loaded: it is logged, and awaited no longer.
    """

    def __init__(
        self,
        view: Callable[[], Snapshot | None],
        size: Callable[[Key, str], int],
        load: Callable[[Key, str], object],
        limit: int,
    ) -> None:
        self._view = view
        self._size, self._load = size, load
        self._limit = limit
        self._seen: Snapshot | None = None
        self._sizes: dict[Key, int] = {}
        self._settled: set[Key] = set()
        self._awaited: Sequence[Key] = ()
        self._refused: dict[Key, str] = {}
        self._complete = False
        self._poller = Poller("models", self.look, at_once=True)

    @property
    def complete(self) -> bool:
        """Whether every version that was current at one moment since the start was loaded, or could not be."""
        return self._complete

    @property
    def awaited(self) -> Sequence[Key]:
        """Current versions that are not loaded yet."""
        return self._awaited

    @property
    def refused(self) -> Mapping[Key, str]:
        """Current versions that are not loaded, with the reason."""
        return self._refused

    def start(self) -> None:
        self._poller.start()

    def stop(self) -> None:
        self._poller.stop()

    def look(self) -> None:
        """Load what has become current since the last look; one comparison where nothing has."""
        snapshot = self._view()
        if snapshot is None or (snapshot is self._seen and not self._awaited):
            return
        current = snapshot.current()
        self._settled &= set(current)
        self._refused = {key: reason for key, reason in self._refused.items() if key in self._settled}
        self._awaited = [key for key in current if key not in self._settled]
        room = self._limit
        for key in current:
            room -= self._try(key, snapshot.digests[key], room)
        if self._awaited:
            trim()  # the files of models, which are freed, are as large as the models
        self._awaited = [key for key in current if key not in self._settled]
        self._seen = snapshot
        self._complete = self._complete or not self._awaited

    def _try(self, key: Key, digest: str, room: int) -> int:
        """Have a version loaded, unless it was tried before; the bytes that it takes of the room."""
        if key in self._settled:
            return 0 if key in self._refused else self._sizes.get(key, 0)
        try:
            size = self._sizes[key] = self._size(key, digest)
            if size > room:
                return self._refuse(key, f"its {size:,} bytes do not fit into PAYOFF_CACHE_MB beside the others")
            self._load(key, digest)
        except (Unavailable, NotReady):
            return 0
        except PayoffError as error:
            return self._refuse(key, error.detail)
        except Exception as error:  # noqa: BLE001 - a model that cannot be used must not keep others from being loaded
            return self._refuse(key, f"{type(error).__name__}: {error}")
        self._settled.add(key)
        return size

    def _refuse(self, key: Key, reason: str) -> int:
        _log.warning("%s:%s is not loaded before it is asked for: %s", *key, reason)
        self._refused[key] = reason
        self._settled.add(key)
        return 0
