"""The registry of models: publishing, loading, aliases and deletion."""

import logging
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

from app.errors import Conflict, Damaged, NotFound, NotReady, Unavailable
from app.registry.card import Card
from app.registry.files import ESTIMATOR, Files, pack
from app.registry.index import Also, Index, Unpublished, write_nothing
from app.registry.loaded import Cache, Holdout, Loaded
from app.registry.preloading import Preloader
from app.registry.snapshot import Key, Reference, Snapshot, check_name, folder_of
from payoff.errors import PayoffError

_NUMBERS = 3  # that are tried where a folder of the number exists already
# newest first; a store on the network takes some ten milliseconds for each
_MAX_CARDS = 500

_log = logging.getLogger(__name__)


class Registry:
    """Published models: their index in a database, their files below a URL, and those that are
    loaded in memory.

    Publishing is `stage`, and `index.add` in the transaction that also ends the job. Answering is
    `cache.get`, which does no input or output, and where that has nothing, `load`. From `start` on
    the view of what exists is never older than a second while the database answers, and a version
    that was in memory under an alias or a name goes on answering until the one that replaces it is
    loaded, too.
    """

    def __init__(self, index: Index, files: Files, cache: Cache) -> None:
        self.index = index
        self.files = files
        self.storage = files.storage
        self.cache = cache
        self._snapshot = Snapshot()
        self._confirmed_at = monotonic()
        self._refreshing = Lock()
        self.preloader = Preloader(
            lambda: self._snapshot, self._loaded, self._settle, cache.limit
        )

    def start(self) -> None:
        """Read what exists, and go on doing so until the database is closed; load what is current
        until `stop`.
        """
        self.index.database.changes.follow(self.index.revision, self._confirm)
        self.preloader.start()

    def stop(self) -> None:
        self.preloader.stop()

    @property
    def ready(self) -> bool:
        """Whether the index was read."""
        return self.revision >= 0

    @property
    def revision(self) -> int:
        """The revision of the index in the view in use; -1 before it was read."""
        return self._snapshot.revision

    @property
    def age_seconds(self) -> float:
        """The time since the view was last confirmed."""
        return monotonic() - self._confirmed_at

    def resolve(self, reference: str) -> Key:
        """The (name, version) that a reference means by the index; no I/O. Invalid, NotFound,
        NotReady at first.
        """
        if not self.ready:
            raise NotReady("the registry has not been read yet")
        return self._snapshot.resolve(reference)

    def load(self, reference: str) -> Loaded:
        """The model, read from its files where it is not in memory; blocks, so not for the event
        loop.

        Invalid, NotFound; Damaged where a file is not what was published; Conflict where another
        scikit-learn made it; Unavailable where the storage does not answer and no copy is kept.
        """
        snapshot = self._snapshot
        if reference not in snapshot.references:
            Reference.parse(reference)
            self._read()  # it may have been published a moment ago
            snapshot = self._snapshot
        key = snapshot.resolve(reference)
        try:
            loaded = self._loaded(key, snapshot)
        except Damaged:
            self._read()
            if (
                self.resolve(reference) != key
            ):  # the version was deleted while it was read
                return self.load(reference)
            raise
        # A version that was deleted while it was read answers this request, and is not kept.
        if key not in self._snapshot.digests:
            self.cache.retain(self._snapshot.digests)
        return loaded

    def refresh(self) -> None:
        """Read changes by other processes, one small query if there are none, and load the versions
        that answer from now on, so that a client that has seen a change meets it here. Unavailable
        if the database is.
        """
        self._read()
        snapshot = self._snapshot
        current = snapshot.references
        changed = {
            current[reference]
            for reference, before in self.cache.versions.items()
            if current.get(reference, before) != before
        }
        for key in changed:
            with suppress(Exception):  # the preloader tries again, and logs the error
                self._loaded(key, snapshot)
        self._settle()

    def stage(
        self,
        card: Card,
        estimator: Any,
        holdout: Holdout | None = None,
        also: Also = write_nothing,
    ) -> Card:
        """Write a version's folder under the model's next number, which is its own; `index.add`
        makes it visible.

        Returns the card with number, sizes, digests and time. `also` is called in the transaction
        that takes the number, and may raise, so that an attempt that is over gets none. A number
        may become a gap, never two versions.
        """
        check_name(card.name)
        files = pack(estimator, holdout)
        for _ in range(_NUMBERS):
            # The store may have folders that this database does not know.
            highest = max(self.files.numbers(card.name), default=0)
            number, at = self.index.take_number(card.name, card.job, highest, also)
            try:
                return self.files.stage(
                    card.model_copy(update={"version": number}), files, at
                )
            except Conflict as error:
                conflict = error
        raise conflict

    def discard(self, folder: Unpublished) -> None:
        """Remove the folder of a number whose job has ended, unless it was published, or is another
        job's.
        """
        key = folder.name, folder.version
        if not self.index.is_unpublished(key):
            return
        try:
            is_of_job = self.files.card(key).job == folder.job
        except NotFound:  # half-written, or removed
            is_of_job = True
        except Damaged:  # the card does not name the job of the folder
            is_of_job = False
        if is_of_job:
            self.storage.remove(folder_of(key))
        self.index.forget(key)

    def rebuild(self) -> int:
        """Publish the sealed versions that the database does not know, as it is new or an older
        copy; returns their number. Aliases and their history come from its backup alone.
        """
        # Read first: a version that is deleted while folders are read is not published again.
        known = self.index.known()
        folders = dict(self.files.folders())
        new = [
            (name, number)
            for name, numbers in folders.items()
            for number in sorted(numbers)
        ]
        cards = self.files.cards([key for key in new if key not in known])
        highest = {name: max(numbers, default=0) for name, numbers in folders.items()}
        count = self.index.fill(list(cards), highest)
        self._read()
        return count

    def artifact(self, name: str, version: int) -> tuple[Card, bytes]:
        """The card and the joblib file; Damaged where it is not what was published."""
        card = self.index.card(name, version)
        return card, self.files.read(card, ESTIMATOR)

    def set_alias(
        self,
        name: str,
        alias: str,
        version: int,
        key_name: str,
        also: Also = write_nothing,
    ) -> None:
        """Point an alias at a published version; the history remembers `key_name`, and `also`
        writes in the transaction.
        """
        check_name(alias, "alias")
        self.index.set_alias(name, alias, version, key_name, also)
        self._changed()

    def delete_alias(
        self, name: str, alias: str, key_name: str, also: Also = write_nothing
    ) -> None:
        self.index.delete_alias(name, alias, key_name, also)
        self._changed()

    def delete_version(
        self, name: str, version: int, also: Also = write_nothing
    ) -> None:
        """Conflict while an alias points at it. Requests that hold the model finish undisturbed."""
        self.index.delete_version(name, version, also)
        self._changed()
        self._remove(name, version)

    def delete_model(
        self, name: str, key_name: str, also: Also = write_nothing
    ) -> None:
        """All versions and aliases; later versions still get new numbers."""
        deleted = self.index.delete_model(name, key_name, also)
        self._changed()
        for version in deleted:
            self._remove(name, version)

    def unusable(self, *, deep: bool) -> tuple[int, list[str]]:
        """The number of versions that were checked, the newest `_MAX_CARDS` at most, and the
        messages about those that cannot be used.

        `deep` reads every file, not the cards alone. Raises Unavailable.
        """
        digests = self.index.snapshot(Snapshot()).digests
        newest = sorted(digests, key=lambda key: (-key[1], key[0]))[:_MAX_CARDS]
        problems = []
        for key in newest:
            try:
                card = self.files.loadable_card(key, digests[key])
                for name in card.sha256 if deep else ():
                    self.files.read(card, name)
            except Unavailable:
                raise
            except PayoffError as error:
                problems.append(error.detail)
        return len(newest), problems

    def _loaded(self, key: Key, snapshot: Snapshot) -> Loaded:
        return self.cache.load(
            key,
            snapshot.sizes[key],
            lambda: self.files.load(key, snapshot.digests[key]),
        )

    def _read(self) -> None:
        with self._refreshing:
            began = monotonic()
            snapshot = self.index.snapshot(self._snapshot)
            if snapshot is not self._snapshot:
                self._snapshot = snapshot
                self.cache.versions = self._versions_by_reference()
                self.cache.retain(snapshot.digests)
                self.preloader.wake()
            self._confirmed_at = began

    def _settle(self) -> None:
        with self._refreshing:
            self.cache.versions = self._versions_by_reference()

    def _versions_by_reference(self) -> dict[str, Key]:
        """The version that each reference means in this process."""
        snapshot = self._snapshot
        cache = self.cache
        versions = dict(snapshot.references)
        for reference, before in self.cache.versions.items():
            key = versions.get(reference, before)
            waits = key != before and key not in cache and self.preloader.will_load(key)
            if waits and before in cache and before in snapshot.digests:
                versions[reference] = before
        return versions

    def _confirm(self, revision: int) -> None:
        if revision == self._snapshot.revision:
            self._confirmed_at = monotonic()
        else:
            self._read()

    def _changed(self) -> None:
        """After the commit of a change to a model."""
        with suppress(Unavailable):  # it is read as soon as the database answers
            self.refresh()

    def _remove(self, name: str, version: int) -> None:
        """Remove the folder of a deleted version; upkeep does so where it fails now."""
        try:
            self.storage.remove(folder_of((name, version)))
        except Unavailable as error:
            _log.warning(
                "%s/%s is left in the storage for now: %s", name, version, error.detail
            )
