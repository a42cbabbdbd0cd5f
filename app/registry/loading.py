"""Loading models: from memory, from local copies, or from the store; and the view of what exists."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import Any, BinaryIO

from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.errors import Damaged, NotReady, Unavailable
from app.registry.base import RegistryBase
from app.registry.cache import Cache
from app.registry.card import Card
from app.registry.copies import Copies
from app.registry.fallback import Fallback
from app.registry.files import ESTIMATOR, unpack
from app.registry.listing import card_text
from app.registry.loaded import Loaded
from app.registry.snapshot import Key, Reference, Snapshot
from app.tracing import span

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stats:
    """What is in memory now (`bytes`: of files), what happened since the start, and which view of the index is in use:
    its revision (-1: none yet), and how long ago it was last confirmed.
    """

    models: int
    bytes: int
    loads: int
    failures: int
    evictions: int
    revision: int
    age_seconds: float


class Loading(RegistryBase):
    """Resolves references and loads models. `cached` does no input or output; where it has nothing, use `load`."""

    def __init__(
        self,
        url: str,
        database: Database,
        *,
        cache_bytes: int = 512 * 2**20,
        copies: Copies | None = None,
        **options: Any,
    ) -> None:
        """`copies` are kept of what is read from the store."""
        super().__init__(url, database, **options)
        self._cache: Cache[Key, Loaded] = Cache(cache_bytes)
        self._copies = copies
        self._known = False
        self._snapshot = Snapshot()
        self._fallback = Fallback()
        self._awaits_storage = False
        self._confirmed_at = monotonic()
        self._refreshing = Lock()

    @property
    def ready(self) -> bool:
        """Whether it is known what exists: from the index, or from its copy. While the storage has not answered since
        the start an empty index is not believed, since it may have to be rebuilt.
        """
        return self._known and (not self._awaits_storage or bool(self._snapshot.digests))

    def resolve(self, reference: str) -> Key:
        """The (name, version) that a reference means now; no I/O. Invalid, NotFound, or NotReady before `refresh`."""
        if not self.ready:
            raise NotReady("the registry has not been read yet")
        return self._snapshot.resolve(reference)

    def cached(self, reference: str) -> Loaded | None:
        """The model if it is in memory: two dict look-ups, nothing that could wait."""
        return self._cache.get(self._snapshot.references.get(reference))

    def load(self, reference: str) -> Loaded:
        """The model, read from its files where it is not in memory; blocks, so not for the event loop.

        Invalid, NotFound; Damaged where a file is not what was published; Conflict where another scikit-learn made it.
        Unavailable while the storage does not answer, there is no copy, and the reference meant no earlier version
        that is in memory or has a copy: such a version answers instead, and its answers name it.
        """
        snapshot = self._snapshot
        if reference not in snapshot.references:
            Reference.parse(reference)
            self.refresh()  # it may have been published a moment ago
            snapshot = self._snapshot
        key = snapshot.resolve(reference)
        try:
            loaded = self._cache.load(key, lambda: self._read(key, snapshot.digests[key]))
        except Damaged:
            self.refresh()
            if self.resolve(reference) != key:  # the version was deleted while it was read
                return self.load(reference)
            raise
        except Unavailable:
            former = self._fallback.of(reference)
            if former is None or former not in snapshot.digests:
                raise
            return self._cache.load(former, lambda: self._read(former, snapshot.digests[former]))
        if key not in self._snapshot.digests:  # deleted as well, but late enough to be answered with once more
            self._cache.retain(self._snapshot.digests)
        return loaded

    def artifact(self, name: str, version: int) -> tuple[Card, BinaryIO]:
        """The card and the verified joblib file, open at its beginning, for the caller to close."""
        with self._database.reading() as connection:
            text = card_text(connection, (name, version))
        key, digest = (name, version), sha256(text.encode()).hexdigest()
        copy = None if self._copies is None else self._copies.card(key, digest)
        if self._copies is not None and copy is not None:
            with suppress(Damaged, Unavailable):
                return copy, self._copies.files.open(copy, ESTIMATOR)
        card = self._files.trusted_card(key, digest)
        return card, self._files.open(card, ESTIMATOR)

    def refresh(self) -> None:
        """Read what other processes changed: one small query if nothing did. Unavailable if the database is."""
        with self._refreshing, self._database.reading() as connection:
            began = monotonic()
            if self._index.revision(connection) != self._snapshot.revision:
                snapshot = self._index.snapshot(connection)
                self._fallback.move(self._snapshot, snapshot, self._is_here)
                self._snapshot, self._known = snapshot, True
                self._cache.retain(snapshot.digests)
            self._confirmed_at = began

    def load_index_copy(self) -> bool:
        """Begin with the copy of the index, unless the index was read; whether something is known then."""
        copy = None if self._copies is None or self._known else self._copies.read_index()
        if copy is not None:
            self._snapshot, self._known = copy, True
        return self._known

    def stats(self) -> Stats:
        cache = self._cache
        age = monotonic() - self._confirmed_at
        revision = self._snapshot.revision
        return Stats(len(cache), cache.size, cache.loads, cache.failures, cache.evictions, revision, age)

    def _read(self, key: Key, digest: str) -> tuple[Loaded, int]:
        with span("load model", model=f"{key[0]}:{key[1]}"):
            admitted: list[int] = []

            def admit(size: int) -> None:
                """Once, though the store is read after a copy that turns out to be damaged."""
                if not admitted:
                    admitted.append(size)
                    self._cache.admit(key, size)

            return unpack(self._fetch(key, digest, admit))

    def _fetch(self, key: Key, digest: str, admit: Callable[[int], None]) -> dict[str, bytes]:
        if self._copies is None:
            return self._files.fetch(key, digest, admit)
        files = self._copies.fetch(key, digest, admit)
        if files is None:
            files = self._files.fetch(key, digest, admit)
            self._copies.keep(key, files)
        return files

    def _look(self) -> None:
        try:
            self.refresh()
        except (SQLAlchemyError, NotReady) as error:
            _log.warning("the registry's index cannot be read, the last view of it stays: %s", error)

    def _is_here(self, key: Key) -> bool:
        return key in self._cache or (self._copies is not None and self._copies.has(key))
