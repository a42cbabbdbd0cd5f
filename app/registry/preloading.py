"""The versions that aliases and bare names mean, loaded before a request names them."""

import logging
from collections.abc import Callable, Sequence

from app.database.polling import Poller
from app.errors import NotReady, Unavailable
from app.jobs.processes import trim
from app.registry.snapshot import Key, Snapshot
from payoff.errors import PayoffError

log = logging.getLogger(__name__)


class Preloader(Poller):
    """Loads each current version once, in its thread, as far as `limit` bytes allow; those of
    aliases first.

    `load` has a version loaded; Unavailable and NotReady from it mean to try again, other errors
    that this version cannot be loaded: it is logged, and awaited no longer. `done` is called after
    a look that found something to load.
    """

    def __init__(
        self,
        view: Callable[[], Snapshot],
        load: Callable[[Key, Snapshot], object],
        done: Callable[[], None],
        limit: int,
    ) -> None:
        super().__init__("models", self.look)
        self._view = view
        self._load = load
        self._done = done
        self._limit = limit
        self._seen = Snapshot()
        self.tried: dict[Key, str] = {}
        """Current versions, with the reason where one could not be loaded."""
        self.awaited: Sequence[Key] = ()
        """Current versions that are not loaded yet."""
        self.complete = False
        """Whether every version that was current at one moment since the start was loaded, or could
        not be.
        """

    def will_load(self, key: Key) -> bool:
        """Whether a version that has become current is still to be loaded."""
        return self.alive and key not in self.tried

    def look(self) -> None:
        """Load what has become current since the last look; one comparison where nothing has."""
        snapshot = self._view()
        if snapshot.revision < 0 or (snapshot is self._seen and not self.awaited):
            return
        current = snapshot.current()
        self.tried = {key: self.tried[key] for key in current if key in self.tried}
        self.awaited = [key for key in current if key not in self.tried]
        room = self._limit
        for key in current:
            if key not in self.tried:
                self._try(key, snapshot, room)
            if self.tried.get(key) == "":
                room -= snapshot.sizes[key]
        if self.awaited:
            trim()  # the files of models, which are freed, are as large as the models
        self.awaited = [key for key in current if key not in self.tried]
        self._seen = snapshot
        self.complete = self.complete or (not self.awaited and self._view() is snapshot)
        self._done()

    def _try(self, key: Key, snapshot: Snapshot, room: int) -> None:
        reason = ""
        try:
            if snapshot.sizes[key] > room:
                size = f"its {snapshot.sizes[key]:,} bytes"
                reason = f"{size} do not fit into PAYOFF_CACHE_MB beside the others"
            else:
                self._load(key, snapshot)
        except (Unavailable, NotReady):
            return
        except PayoffError as error:
            reason = error.detail
        # A model that cannot be used must not keep others from being loaded.
        except Exception as error:
            log.exception("a model cannot be loaded")
            reason = f"{type(error).__name__}: {error}"
        if reason:
            log.warning("%s:%s is not loaded before it is asked for: %s", *key, reason)
        self.tried[key] = reason
