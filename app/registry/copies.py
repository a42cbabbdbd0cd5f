"""Copies of versions and of the index on this machine: they answer while store or database is unavailable.

They are in the home folder, and are trusted no more than the store: cards are compared with the index, signatures and
digests are checked at every load, and the copy of the index has a checksum, an HMAC where there is a signing key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from app.errors import Conflict, NotReady, PayoffError, Unavailable
from app.registry.card import Card
from app.registry.files import CARD, Files
from app.registry.snapshot import Key, Snapshot, folder_of
from app.storage import Storage

T = TypeVar("T")

FORMAT: Final = 1
_INDEX = "snapshot.json"
_MAX_BYTES = 2**28  # an index of a million versions has about half of it

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Copy:
    key: Key
    path: Path
    size: int
    used: float


class Copies:
    """At most `limit` bytes of versions of the store at `url`, below `folder`; several processes may share them.

    The least recently used goes first, those that are `current` last. What cannot be written is not kept: no call
    fails because of the disk.
    """

    def __init__(
        self, folder: Path, url: str, limit: int, *, signing_key: bytes | None, allow_version_skew: bool
    ) -> None:
        self._root = folder / hashlib.sha256(url.encode()).hexdigest()[:16]
        self.files = Files(
            str(self._root), signing_key=signing_key, allow_version_skew=allow_version_skew, name="PAYOFF_HOME"
        )
        self.current: frozenset[Key] = frozenset()
        self._index = Storage(str(self._root), _INDEX, name="PAYOFF_HOME")
        self._limit = limit
        self._signing_key = signing_key or b""
        self._written: Snapshot | None = None

    def has(self, key: Key) -> bool:
        return (self._folder(key) / CARD).exists()

    def fetch(self, key: Key, digest: str, admit: Callable[[int], None]) -> dict[str, bytes] | None:
        """Every file of a version, verified as by `Files.fetch`; None where there is no intact copy."""
        return self._intact(key, lambda: self.files.fetch(key, digest, admit))

    def card(self, key: Key, digest: str) -> Card | None:
        """A version's card, verified; None where there is no intact copy of it."""
        return self._intact(key, lambda: self.files.trusted_card(key, digest))

    def _intact(self, key: Key, read: Callable[[], T]) -> T | None:
        if not self.has(key):
            return None
        try:
            result = read()
            os.utime(self._folder(key))
        except Unavailable:
            return None  # the disk, which has logged it
        except (Conflict, NotReady):
            raise  # another scikit-learn made it, or there is no room in memory, wherever it is
        except (PayoffError, OSError) as error:
            _log.warning("the copy of %s cannot be used and is removed: %s", folder_of(key), error)
            self._remove(key)
            return None
        return result

    def keep(self, key: Key, files: Mapping[str, bytes]) -> None:
        """Write a copy of what `Files.fetch` returned."""
        size = sum(map(len, files.values()))
        if size > self._limit or self.has(key):
            return
        try:
            self._remove(key)  # what is left of a copy without its card
            self._make_room(size)
            self.files.storage.publish(folder_of(key), files)
        except (PayoffError, OSError) as error:  # Conflict: another process was faster
            if not isinstance(error, Conflict):
                _log.warning("no copy of %s is kept: %s", folder_of(key), error)

    def retain(self, published: Collection[Key]) -> None:
        """Remove the copies of versions that were deleted, and what killed processes left."""
        for copy in self._copies():
            if copy.key not in published:
                self._remove(copy.key)
        with contextlib.suppress(PayoffError, OSError):
            self.files.storage.clean_up()

    def write_index(self, snapshot: Snapshot) -> bool:
        """Keep the view of what exists; False where it was kept already."""
        if snapshot is self._written:
            return False
        pointing = [
            (reference.split("@"), key[1]) for reference, key in snapshot.references.items() if "@" in reference
        ]
        aliases = [[name, alias, version] for (name, alias), version in pointing]
        digests = [[*key, digest] for key, digest in snapshot.digests.items()]
        content = json.dumps({"format": FORMAT, "digests": digests, "aliases": aliases}).encode()
        try:
            self._index.write(_INDEX, self._seal(content) + b"\n" + content)
        except (PayoffError, OSError) as error:
            _log.warning("no copy of the registry's index is kept: %s", error)
        self._written = snapshot
        return True

    def read_index(self) -> Snapshot | None:
        """What `write_index` kept; None where nothing is, or it is damaged or not signed with this service's key."""
        try:
            path = self._root / _INDEX
            if not path.exists() or path.stat().st_size > _MAX_BYTES:
                return None
            seal, _, content = path.read_bytes().partition(b"\n")
            if not hmac.compare_digest(seal, self._seal(content)):
                _log.warning("the copy of the registry's index is damaged, or of another signing key: it is not used")
                return None
            document = json.loads(content)
        except (OSError, ValueError) as error:
            _log.warning("the copy of the registry's index cannot be read: %s", error)
            return None
        if document["format"] != FORMAT:
            return None
        digests = {(name, version): digest for name, version, digest in document["digests"]}
        return Snapshot.of(-1, digests, [(name, alias, version) for name, alias, version in document["aliases"]])

    def _seal(self, content: bytes) -> bytes:
        return hmac.digest(self._signing_key, content, "sha256").hex().encode()

    def _make_room(self, size: int) -> None:
        copies = sorted(self._copies(), key=lambda copy: (copy.key in self.current, copy.used))
        free = self._limit - sum(copy.size for copy in copies)
        for copy in copies:
            if free >= size:
                return
            self._remove(copy.key)
            free += copy.size

    def _copies(self) -> Iterator[_Copy]:
        for folder in self._root.glob("*/[0-9]*"):
            with contextlib.suppress(OSError, ValueError):  # removed at this moment by another process
                size = sum(file.stat().st_size for file in folder.iterdir())
                yield _Copy((folder.parent.name, int(folder.name)), folder, size, folder.stat().st_mtime)

    def _remove(self, key: Key) -> None:
        with contextlib.suppress(PayoffError, OSError):
            self.files.storage.remove(folder_of(key))

    def _folder(self, key: Key) -> Path:
        return self._root / folder_of(key)


def copies_of(
    url: str, folder: Path, limit: int, *, signing_key: bytes | None, allow_version_skew: bool
) -> Copies | None:
    """The copies of the store at `url`; None where it is a disk of this machine, `limit` is 0, or there is no place."""
    if limit <= 0 or not Storage.is_remote(url):
        return None
    try:
        return Copies(folder, url, limit, signing_key=signing_key, allow_version_skew=allow_version_skew)
    except OSError as error:
        _log.warning("no copies of models are kept: %s (%s)", error.strerror, folder)
        return None
