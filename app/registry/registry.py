"""The model registry as the rest of the service sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.errors import PayoffError
from app.polling import Poller
from app.registry.copies import Copies
from app.registry.managing import Managing
from app.registry.preloading import Preloader
from app.registry.publishing import Publishing
from app.registry.recovery import Recovery
from app.registry.snapshot import Key, Snapshot

_REPAIR_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Registry(Publishing, Managing, Recovery):
    """Published models: files below a URL, their index in a database, loaded ones in memory.

    Publishing is `reserve`, `stage`, `announce`, and `add` in the transaction that also ends the job. Answering is
    `cached`, which does no input or output, and where that has nothing, `load`. `start` keeps the view of what exists
    up to date in threads of its own.
    """

    def __init__(self, url: str, database: Database, **options: Any) -> None:
        """See `RegistryBase` for the options of the store, and `Loading` for those of memory and copies."""
        super().__init__(url, database, **options)
        self._poller = Poller("registry", self._poll)
        self._behind = False
        self._unfollow: Callable[[], None] = lambda: None
        self._repairs = Poller("index files", self._write_index_files, _REPAIR_SECONDS)
        self._preloader = Preloader(self._known_snapshot, self._size, self._preload, self._cache.limit)

    @property
    def preloader(self) -> Preloader:
        """The thread that loads the current versions."""
        return self._preloader

    def start(self) -> None:
        """Read what exists, and go on doing so in a thread until `stop`; load what is current in another."""
        self.load_index_copy()
        self._look()
        self._unfollow = self._database.changes.follow(self._index.revision, self._told)
        self._poller.start()
        self._repairs.start()
        self._preloader.start()

    def stop(self) -> None:
        self._preloader.stop()
        self._unfollow()
        self._poller.stop()
        self._repairs.stop()

    def catch_up(self) -> int:
        """Write the index files that are behind the index; how many there were. Unavailable where that cannot be."""
        return self._mirroring.catch_up()

    def _size(self, key: Key, digest: str) -> int:
        copy = None if self._copies is None else self._copies.card(key, digest)
        return sum((copy or self._files.trusted_card(key, digest)).sizes.values())

    def _preload(self, key: Key, digest: str) -> None:
        self._cache.load(key, lambda: self._read(key, digest))

    def _known_snapshot(self) -> Snapshot | None:
        return self._snapshot if self.ready else None

    def _write_index_files(self) -> None:
        try:
            self.catch_up()
        except (PayoffError, SQLAlchemyError, OSError) as error:
            _log.info("index files stay behind for now: %s", error)

    def _told(self, revision: int) -> None:
        """In the thread that others share: what takes longer is for the registry's own."""
        if revision == self._snapshot.revision:
            self._confirmed_at = monotonic()
        else:
            self._behind = True
            self._poller.wake()

    def _poll(self) -> None:
        if self._awaits_storage:
            self._reach()
        if self._behind:
            self._behind = False
            self._look()
        if self._copies is not None and self._snapshot.revision >= 0 and not self._awaits_storage:
            self._keep_copies(self._copies, self._snapshot)

    def _keep_copies(self, copies: Copies, snapshot: Snapshot) -> None:
        """Copy a new view of what exists, and drop the copies of what exists no longer."""
        if copies.write_index(snapshot):
            copies.current = frozenset(snapshot.current())
            copies.retain(snapshot.digests)

    def _reach(self) -> None:
        try:
            self.prepare()
        except (PayoffError, SQLAlchemyError) as error:
            _log.warning("still waiting for the storage of models: %s", error)
