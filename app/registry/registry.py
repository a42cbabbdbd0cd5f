"""The model registry as the rest of the service sees it."""

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
_MAX_CARDS = 500  # newest first; a store on the network takes some ten milliseconds for each

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
        self.preloader = Preloader(lambda: self._snapshot, self._loaded, self._settle, cache.limit)

    def start(self) -> None:
        """Read what exists, and go on doing so until the database is closed; load what is current
        until `stop`.
        """
        self.index.database.changes.follow(self.index.revision, self._told)
        self.preloader.start()

    def stop(self) -> None:
        self.preloader.stop()

    @property
    def ready(self) -> bool:
        """Whether it is known what exists."""
        return self.revision >= 0

    @property
    def revision(self) -> int:
        """That of the view of the index in use; -1: none yet."""
        return self._snapshot.revision

    @property
    def age_seconds(self) -> float:
        """How long ago that view was last confirmed."""
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
            if self.resolve(reference) != key:  # the version was deleted while it was read
                return self.load(reference)
            raise
        # deleted as well, but late enough to be answered with once more
        if key not in self._snapshot.digests:
            self.cache.retain(self._snapshot.digests)
        return loaded

    def refresh(self) -> None:
        """Read what other processes changed, one small query if nothing did, and load what answers
        instead from now on, so that who has seen a change meets it here. Unavailable if the
        database is.
        """
        self._read()
        snapshot, meant = self._snapshot, self.cache.meant
        means = snapshot.references
        for key in {
            means[each] for each, before in meant.items() if means.get(each, before) != before
        }:
            with suppress(Exception):  # the preloader tries again, and says what is wrong
                self._loaded(key, snapshot)
        self._settle()

    def stage(
        self, card: Card, estimator: Any, holdout: Holdout | None = None, also: Also = write_nothing
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
            # folders that this database may not know
            highest = max(self.files.numbers(card.name), default=0)
            number, now = self.index.take_number(card.name, card.job, highest, also)
            try:
                return self.files.stage(card.model_copy(update={"version": number}), files, now)
            except Conflict as error:
                taken = error
        raise taken

    def discard(self, one: Unpublished) -> None:
        """Remove the folder of a number whose job has ended, unless it was published, or is another
        job's.
        """
        key = one.name, one.version
        if not self.index.is_unpublished(key):
            return
        try:
            own = self.files.card(key).job == one.job
        except NotFound:  # half-written, or gone
            own = True
        except Damaged:  # whoever's it is
            own = False
        if own:
            self.storage.remove(folder_of(key))
        self.index.forget(key)

    def rebuild(self) -> int:
        """Publish the versions whose folders are sealed and which the database does not know, as it
        is new or an older copy; how many. Aliases and their history come from its backup alone.
        """
        known = self.index.known()  # first: what goes while folders are read is not brought back
        folders = dict(self.files.folders())
        new = [(name, number) for name, numbers in folders.items() for number in sorted(numbers)]
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
        self, name: str, alias: str, version: int, who: str, also: Also = write_nothing
    ) -> None:
        """Point an alias at a published version; the history remembers `who`, and `also` writes in
        the transaction.
        """
        check_name(alias, "alias")
        self.index.set_alias(name, alias, version, who, also)
        self._changed()

    def delete_alias(self, name: str, alias: str, who: str, also: Also = write_nothing) -> None:
        self.index.delete_alias(name, alias, who, also)
        self._changed()

    def delete_version(self, name: str, version: int, also: Also = write_nothing) -> None:
        """Conflict while an alias points at it. Requests that hold the model finish undisturbed."""
        self.index.delete_version(name, version, also)
        self._changed()
        self._remove(name, version)

    def delete_model(self, name: str, who: str, also: Also = write_nothing) -> None:
        """All versions and aliases; later versions still get new numbers."""
        deleted = self.index.delete_model(name, who, also)
        self._changed()
        for version in deleted:
            self._remove(name, version)

    def unusable(self, *, deep: bool) -> tuple[int, list[str]]:
        """How many versions were looked at, the newest 500 at most, and what is wrong with some, in
        words that name it.

        `deep` reads every file, not the cards alone. Raises Unavailable.
        """
        digests = self.index.snapshot(Snapshot()).digests
        newest = sorted(digests, key=lambda key: (-key[1], key[0]))[:_MAX_CARDS]
        found = []
        for key in newest:
            try:
                card = self.files.loadable_card(key, digests[key])
                for name in card.sha256 if deep else ():
                    self.files.read(card, name)
            except Unavailable:
                raise
            except PayoffError as error:
                found.append(error.detail)
        return len(newest), found

    def _loaded(self, key: Key, snapshot: Snapshot) -> Loaded:
        return self.cache.load(
            key, snapshot.sizes[key], lambda: self.files.load(key, snapshot.digests[key])
        )

    def _read(self) -> None:
        with self._refreshing:
            began = monotonic()
            snapshot = self.index.snapshot(self._snapshot)
            if snapshot is not self._snapshot:
                self._snapshot = snapshot
                self.cache.meant = self._meanings()
                self.cache.retain(snapshot.digests)
                self.preloader.wake()
            self._confirmed_at = began

    def _settle(self) -> None:
        with self._refreshing:
            self.cache.meant = self._meanings()

    def _meanings(self) -> dict[str, Key]:
        """What each reference means in this process."""
        snapshot, cache = self._snapshot, self.cache
        meant = dict(snapshot.references)
        for reference, before in self.cache.meant.items():
            key = meant.get(reference, before)
            waits = key != before and key not in cache and self.preloader.will_load(key)
            if waits and before in cache and before in snapshot.digests:
                meant[reference] = before
        return meant

    def _told(self, revision: int) -> None:
        if revision == self._snapshot.revision:
            self._confirmed_at = monotonic()
        else:
            self._read()

    def _changed(self) -> None:
        """After the commit of a change to a model."""
        with suppress(Unavailable):  # it is read as soon as the database answers
            self.refresh()

    def _remove(self, name: str, version: int) -> None:
        """Remove what is deleted already; upkeep does so where it fails now."""
        try:
            self.storage.remove(folder_of((name, version)))
        except Unavailable as error:
            _log.warning("%s/%s is left in the storage for now: %s", name, version, error.detail)
