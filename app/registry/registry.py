"""The model registry as the rest of the service sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import Any, BinaryIO

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.disks import Obstacle
from app.errors import Conflict, Damaged, NotFound, NotReady, PayoffError, Unavailable, Unusable
from app.polling import Poller
from app.registry.cache import Cache
from app.registry.card import Card, read_card
from app.registry.consistency import Audit, audit
from app.registry.copies import Copies
from app.registry.copying import Copied, Published, check_free, copy_models
from app.registry.fallback import Fallback
from app.registry.files import ESTIMATOR, Files, pack, unpack
from app.registry.index import Index
from app.registry.listing import ModelLine, ModelPage, card_text, describe_model, list_models
from app.registry.loaded import Holdout, Loaded
from app.registry.mirroring import Mirroring
from app.registry.preloading import Preloader
from app.registry.rebuild import read_folders, restore
from app.registry.reservations import NumberUnusable, Reservation, is_dead, reserved
from app.registry.snapshot import Key, Reference, Snapshot, check_name
from app.tracing import span

_REPAIR_SECONDS = 5.0
_ROUNDS = 5  # of reading the folder while the index changes

_log = logging.getLogger(__name__)

Also = Callable[[Connection], None]


def leave_as_read(_loaded: Loaded) -> None:
    """Leave a model as it was read."""


def _nothing(_connection: Connection) -> None:
    """Write nothing else in a change's transaction."""


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


class Registry:
    """Published models: files below `url`, their index in `database`, loaded ones in memory.

    Publishing is `reserve`, `stage`, `announce`, and `add` in the transaction that also ends the job. Answering is
    `cached`, which does no input or output, and where that has nothing, `load`. `start` keeps the view of what exists
    fresh. No store is called in a transaction that writes.
    """

    def __init__(
        self,
        url: str,
        database: Database,
        *,
        signing_key: bytes | None = None,
        allow_version_skew: bool = False,
        cache_bytes: int = 512 * 2**20,
        patience: float = 0.0,
        copies: Copies | None = None,
        warm: Callable[[Loaded], None] = leave_as_read,
    ) -> None:
        """`copies` are kept of what is read from `url`. `warm` is called with each model before it is in memory."""
        self._database = database
        self._files = Files(url, signing_key=signing_key, allow_version_skew=allow_version_skew, patience=patience)
        self._index = Index(database)
        self._mirroring = Mirroring(database, self._index.mirrored, self._files.write_mirror)
        self._cache: Cache[Key, Loaded] = Cache(cache_bytes)
        self._copies = copies
        self._warm = warm
        self._known = False
        self._snapshot = Snapshot()
        self._fallback = Fallback()
        self._awaits_storage = False
        self._confirmed_at = monotonic()
        self._refreshing = Lock()
        self._poller = Poller("registry", self._keep_up)
        self._repairs = Poller("index files", self._catch_up, _REPAIR_SECONDS)
        self._preloader = Preloader(self._known_snapshot, self._size, self._preload, cache_bytes)

    # publishing

    def reserve(self, name: str, job: str = "", attempt: int = 0, also: Also = _nothing) -> int:
        """The next version number of a model, never given twice, for one attempt at a job.

        `also` runs in the same transaction and may raise, so that an attempt that is over gets no number.
        """
        check_name(name)
        with self._database.writing() as connection:
            number = self._index.reserve(connection, name, job, attempt)
            also(connection)
        self._mirroring.try_to_update(name)
        return number

    def stage(self, card: Card, estimator: Any, holdout: Holdout | None = None) -> Card:
        """Write a reserved version's files, which belong to the attempt alone; it stays invisible until `add`.

        Returns the card with sizes, digests and the time. NumberUnusable where that folder exists.
        """
        with self._database.reading() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
        try:
            return self._files.stage(card, pack(estimator, holdout), datetime.fromtimestamp(now, UTC))
        except Conflict as error:
            raise NumberUnusable(error.detail) from error

    def announce(self, card: Card) -> None:
        """List a staged version in the model's index file, so that it survives the database from its first moment on.

        NumberUnusable where its number was given up or its folder was removed; Conflict where another card lies there.
        """
        try:
            stored, content = self._files.read_card((card.name, card.version))
        except NotFound as error:
            raise NumberUnusable(error.detail) from error
        if stored != card:
            raise Conflict(f"{card.folder} was staged with another card")
        with self._database.writing() as connection:
            self._index.announce(connection, card, content)
        self._mirroring.update(card.name)

    def add(self, connection: Connection, card: Card) -> None:
        """Publish an announced version inside the caller's transaction: it is visible when that commits.

        NumberUnusable where its number was given up, or another card was announced.
        """
        self._index.add(connection, card)

    def give_up(self, name: str, version: int) -> None:
        """Give up a reserved number for good, and remove its folder, if there is one. Conflict where it is published.

        Only for those who know that the attempt it was given to is over. Nothing happens where it is not reserved: the
        folder may be anybody's.
        """
        with self._database.writing() as connection:
            if not self._index.give_up(connection, (name, version)):
                return
        self._mirroring.try_to_update(name)
        self.remove_given_up(name, version)

    def remove_given_up(self, name: str, version: int) -> None:
        """Remove the folder of a number that was given up, which a suspended process may have written afterwards."""
        self._files.storage.remove(f"{name}/{version}")

    def reserved(self, job: str | None = None) -> list[Reservation]:
        """The numbers that attempts got and did not publish, all of them or those of a job."""
        with self._database.reading() as connection:
            return reserved(connection, job)

    # answering

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
        Unavailable while the storage is away, there is no copy, and the reference meant no version before that is in
        memory or has a copy: such a one answers instead, and its answers name it.
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
            self._cache.keep(self._snapshot.digests)
        return loaded

    def _read(self, key: Key, digest: str) -> tuple[Loaded, int]:
        with span("load model", model=f"{key[0]}:{key[1]}"):
            admitted: list[int] = []

            def admit(size: int) -> None:
                """Once, though the store is read after a copy that turns out to be damaged."""
                if not admitted:
                    admitted.append(size)
                    self._cache.admit(key, size)

            loaded, size = unpack(self._fetch(key, digest, admit))
            self._warm(loaded)
            return loaded, size

    def _fetch(self, key: Key, digest: str, admit: Callable[[int], None]) -> dict[str, bytes]:
        if self._copies is None:
            return self._files.fetch(key, digest, admit)
        files = self._copies.fetch(key, digest, admit)
        if files is None:
            files = self._files.fetch(key, digest, admit)
            self._copies.keep(key, files)
        return files

    def _size(self, key: Key, digest: str) -> int:
        copy = None if self._copies is None else self._copies.card(key, digest)
        return sum((copy or self._files.trusted_card(key, digest)).sizes.values())

    def _preload(self, key: Key, digest: str) -> None:
        self._cache.load(key, lambda: self._read(key, digest))

    def _known_snapshot(self) -> Snapshot | None:
        return self._snapshot if self.ready else None

    @property
    def ready(self) -> bool:
        """Whether it is known what exists: from the index, or from its copy. While the storage has not answered since
        the start an empty index is not believed, since it may have to be rebuilt.
        """
        return self._known and (not self._awaits_storage or bool(self._snapshot.digests))

    def obstacle(self) -> Obstacle | None:
        """What keeps the folder of models from being written; see `Storage.obstacle`."""
        return self._files.storage.obstacle()

    @property
    def preloader(self) -> Preloader:
        """What has it loaded that aliases and bare names mean."""
        return self._preloader

    @property
    def awaits_storage(self) -> bool:
        """Whether the storage was away at the start and has been ever since."""
        return self._awaits_storage

    def stats(self) -> Stats:
        cache = self._cache
        age = monotonic() - self._confirmed_at
        revision = self._snapshot.revision
        return Stats(len(cache), cache.size, cache.loads, cache.failures, cache.evictions, revision, age)

    # keeping up

    def start(self) -> None:
        """Read what exists, and go on doing so in a thread until `stop`; load what is current in another."""
        self.recall()
        self._look()
        self._poller.start()
        self._repairs.start()
        self._preloader.start()

    def stop(self) -> None:
        self._preloader.stop()
        self._poller.stop()
        self._repairs.stop()

    def catch_up(self) -> int:
        """Write the index files that are behind the index; how many there were. Unavailable where that cannot be."""
        return self._mirroring.catch_up()

    def recall(self) -> bool:
        """Begin with the copy of the index, if there is one and nothing better; whether something is known then."""
        copy = None if self._copies is None or self._known else self._copies.read_index()
        if copy is not None:
            self._snapshot, self._known = copy, True
        return self._known

    def refresh(self) -> None:
        """See what other processes changed: one small query where nothing did. NotReady where the database is away."""
        with self._refreshing, self._database.reading() as connection:
            began = monotonic()
            if self._index.revision(connection) != self._snapshot.revision:
                snapshot = self._index.snapshot(connection)
                self._fallback.move(self._snapshot, snapshot, self._is_here)
                self._snapshot, self._known = snapshot, True
                self._cache.keep(snapshot.digests)
            self._confirmed_at = began

    # managing

    def models(self, after: str, limit: int, patterns: Sequence[str] = ()) -> list[ModelLine]:
        """At most `limit` models after the name `after` (`""`: from the first), that match a pattern, if any."""
        with self._database.reading() as connection:
            return list_models(connection, after, limit, patterns)

    def model(self, name: str) -> ModelPage:
        with self._database.reading() as connection:
            return describe_model(connection, name)

    def card(self, name: str, version: int) -> Card:
        with self._database.reading() as connection:
            return read_card(card_text(connection, (name, version)).encode())

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

    def set_alias(self, name: str, alias: str, version: int, who: str, also: Also = _nothing) -> None:
        """Point an alias at a published version; the history remembers `who`, and `also` writes in the transaction."""
        check_name(alias, "alias")
        with self._database.writing() as connection:
            if self._index.set_alias(connection, name, alias, version, who):
                also(connection)
        self._changed(name)

    def delete_alias(self, name: str, alias: str, who: str, also: Also = _nothing) -> None:
        with self._database.writing() as connection:
            self._index.delete_alias(connection, name, alias, who)
            also(connection)
        self._changed(name)

    def delete_version(self, name: str, version: int, also: Also = _nothing) -> None:
        """Conflict while an alias points at it. Requests that hold the model finish undisturbed."""
        with self._database.writing() as connection:
            self._index.delete_version(connection, (name, version))
            also(connection)
        self._changed(name)
        self._remove(name, version)

    def delete_model(self, name: str, who: str, also: Also = _nothing) -> None:
        """All versions and aliases; later versions still get new numbers."""
        with self._database.writing() as connection:
            gone = self._index.delete_model(connection, name, who)
            also(connection)
        self._changed(name)
        for version in gone:
            self._remove(name, version)

    def audit(self, *, deep: bool = False) -> Audit:
        """Compare index and folder, see `audit.audit`; changes nothing."""
        with self._database.reading(patient=True) as connection:
            snapshot = self._index.snapshot(connection)
            ahead = Published(self._index.mirrors(connection, ahead=True), snapshot.digests)
        found = audit(ahead, self._files, deep=deep)
        found.current = snapshot.current()
        return found

    def datasets(self) -> set[str]:
        """The data sets that published versions were trained on, by their cards."""
        with self._database.reading(patient=True) as connection:
            return self._index.datasets(connection)

    def published(self, connection: Connection) -> Published:
        """All that the index contains, as the transaction sees it."""
        return Published(self._index.mirrors(connection), self._index.snapshot(connection).digests)

    def copy_to(self, url: str, published: Published) -> Copied:
        """Copy what is `published` to another place; see `copying.copy_models`."""
        return copy_models(published, self._files, Files(url, signing_key=None, allow_version_skew=True))

    def copy_from(self, url: str) -> Copied:
        """Copy here what was copied there, and make the index of it. Conflict unless nothing else is here."""
        with self._database.reading() as connection:
            indexed = self._index.mirrors(connection)
        source = Files(url, signing_key=None, allow_version_skew=True)
        mirrors = list(filter(None, map(source.read_mirror, source.storage.folders())))
        check_free(mirrors, indexed, self._files)
        copied = copy_models(Published(mirrors), source, self._files)
        self.rebuild()
        return copied

    def rebuild(self) -> int:
        """Replace the index by what the folder says, see `rebuild.py`; how many versions there are.

        Conflict where it is changed again and again meanwhile.
        """
        count = self._rebuild(only_if_empty=False)
        self._look()
        return count

    def prepare(self) -> None:
        """Reach for the storage, and rebuild the index where it is empty.

        A storage that is away is waited for: the registry is not `ready` until it has answered, and then goes on
        through later failures with what it has in memory. Unusable where waiting would be in vain.
        """
        try:
            self._files.storage.check()
            self.rebuild_if_empty()
        except Unusable:
            raise
        except Unavailable as error:
            self._awaits_storage = True
            _log.warning("%s: waiting for it", error.detail)
        else:
            self._awaits_storage = False

    def clean_up(self) -> int:
        """Remove what killed processes left half-written and can never be published; how many there were.

        May take seconds.
        """

        def spare(folder: str) -> bool:
            with self._database.reading() as connection:
                return not is_dead(connection, _key_of(folder))

        return self._files.clean_up(spare)

    def rebuild_if_empty(self) -> None:
        """Rebuild where the database knows no model, as after its loss."""
        with self._database.reading() as connection:
            if not self._index.is_empty(connection):
                return  # the usual case, without waiting for writers
        self._rebuild(only_if_empty=True)
        self._look()

    def _rebuild(self, *, only_if_empty: bool) -> int:
        """Read the folder, and put that into the index unless that was changed meanwhile, perhaps by other replicas."""
        for _ in range(_ROUNDS):
            self._mirroring.catch_up()
            with self._database.reading() as connection:
                before = self._index.position(connection)
            found = read_folders(self._files)
            with self._database.writing(patient=True) as connection:
                self._index.lock(connection)
                if only_if_empty and not self._index.is_empty(connection):
                    return 0
                if self._index.position(connection) == before and before.up_to_date:
                    for folder in found.left_out:
                        _log.warning("omitted from the registry's index: %s", folder)
                    return restore(connection, self._index, found)
        raise Conflict("models change all the time: rebuild the index while no job publishes and nobody moves aliases")

    def _changed(self, name: str) -> None:
        """After the commit of a change to a model."""
        self._mirroring.try_to_update(name)
        self._look()

    def _catch_up(self) -> None:
        try:
            self.catch_up()
        except (PayoffError, SQLAlchemyError, OSError) as error:
            _log.info("index files stay behind for now: %s", error)

    def _keep_up(self) -> None:
        if self._awaits_storage:
            self._reach()
        self._look()
        if self._copies is not None and self._snapshot.revision >= 0 and not self._awaits_storage:
            self._keep_copies(self._copies, self._snapshot)

    def _keep_copies(self, copies: Copies, snapshot: Snapshot) -> None:
        """Copy a new view of what exists, and drop the copies of what exists no longer."""
        if copies.write_index(snapshot):
            copies.current = frozenset(snapshot.current())
            copies.retain(snapshot.digests)

    def _is_here(self, key: Key) -> bool:
        return key in self._cache or (self._copies is not None and self._copies.has(key))

    def _reach(self) -> None:
        try:
            self.prepare()
        except (PayoffError, SQLAlchemyError) as error:
            _log.warning("still waiting for the storage of models: %s", error)

    def _remove(self, name: str, version: int) -> None:
        """Remove what is deleted already; what cannot be removed now is only space."""
        try:
            self._files.storage.remove(f"{name}/{version}")
        except Unavailable as error:
            _log.warning("%s/%s is left in the storage: %s", name, version, error.detail)

    def _look(self) -> None:
        try:
            self.refresh()
        except (SQLAlchemyError, NotReady) as error:
            _log.warning("the registry's index cannot be read, the last view of it stays: %s", error)


def _key_of(folder: str) -> Key:
    name, _, version = folder.partition("/")
    return name, int(version)
