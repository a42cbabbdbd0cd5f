"""Folders that exist whole or not at all, on a disk or in an object store.

A folder exists when its seal does, the file named `seal`: on a local disk a folder appears with one rename, in an
object store its seal is written last and removed first. So readers read the seal first, and then the rest.

A path is steps joined by `/`. No step may be empty or begin with a dot, so no name, wherever it comes from, leads out
of the root: such a path is answered with NotFound.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.disks import Obstacle
from app.errors import NotFound, Unavailable, Unusable
from app.storage.disk import Disk
from app.storage.objects import Objects

_HIDDEN = "."  # names that begin so are work in progress
_ABANDONED_SECONDS = 3600.0  # no folder takes an hour to write
_LOCAL = re.compile(r"(?:file|local)://(?P<path>.*)", re.DOTALL)
_NONE = re.compile(r"(?!)")

_log = logging.getLogger(__name__)


class Storage:
    """Sealed folders of files below one URL (`models`, `/srv/models`, `s3://bucket/models`, …).

    `name` is what the place is called in messages: the setting that names it. Calls to a store on the network may
    wait up to about eight seconds, or `retry_seconds` where that is more, and then raise Unavailable; so do writes to a
    disk that is full. Unusable, a kind of Unavailable, is what waiting does not fix, such as a missing bucket.
    """

    def __init__(self, url: str, seal: str, *, name: str = "the storage", retry_seconds: float = 0.0) -> None:
        self.url = url
        self.seal = seal
        self.name = name
        local = _LOCAL.fullmatch(url)
        self._place: Disk | Objects
        if self.is_remote(url):
            self._place = Objects(url, seal, name, retry_seconds)
        else:
            self._place = Disk(Path(local["path"] if local else url).absolute(), name)

    @staticmethod
    def is_remote(url: str) -> bool:
        """Whether `url` is not a folder of this machine."""
        return "://" in url and not _LOCAL.fullmatch(url)

    def check(self) -> None:
        """Unavailable where the place cannot be reached, Unusable where that will not pass by itself."""
        self._place.check()

    def prepare(self) -> None:
        """Check the place at a start; what may pass by itself is only logged."""
        try:
            self.check()
        except Unusable:
            raise
        except Unavailable as error:
            _log.warning("%s: continuing without it", error.detail)

    def obstacle(self) -> Obstacle | None:
        """What keeps a folder of this machine from being written; None of a store on the network. Writes nothing."""
        return self._place.obstacle()

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""
        if self.seal not in files:
            raise ValueError(f"a folder needs its seal {self.seal!r}")
        for name in files:
            _checked(folder, name)
        self._place.publish(folder, files)

    def read(self, *path: str) -> bytes:
        """The bytes of one file; NotFound where it is absent."""
        with _found(*path) as whole:
            return self._place.read(whole)

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """The bytes of the file `name` of those folders that have it, by their names; faster than one by one."""
        paths = {_checked(folder, name): folder for folder in folders}
        return {paths[path]: content for path, content in self._place.read_many(list(paths)).items()}

    def open(self, *path: str) -> BinaryIO:
        """One file, seekable, to be read piece by piece and closed; NotFound where it is absent."""
        with _found(*path) as whole:
            return self._place.open(whole)

    def folders(self, under: str = "") -> list[str]:
        """Names directly below `under`, sealed or not, sorted."""
        names = self._place.folders(_checked(under) if under else "")
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def exists(self, folder: str) -> bool:
        """Whether the folder has its seal."""
        return bool(self.read_each([folder], self.seal))

    def write(self, path: str, content: bytes) -> None:
        """Put one file in place of whatever was there, atomically."""
        self._place.write(_checked(path), content)

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is absent."""
        self._place.remove(_checked(folder))

    def clean_up(self, folders: re.Pattern[str] = _NONE, older_than_seconds: float = _ABANDONED_SECONDS) -> int:
        """Remove what killed processes left half-written or half-removed; how many there were.

        In an object store these are folders without a seal; only those whose whole name matches `folders` are touched.
        """
        return self._place.clean_up(folders, older_than_seconds)


@contextmanager
def _found(*path: str) -> Iterator[str]:
    """The whole path; NotFound where what is read inside is absent."""
    whole = _checked(*path)
    try:
        yield whole
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as absent:
        raise NotFound(f"there is no {whole}") from absent


def _checked(*parts: str) -> str:
    steps = [step for part in parts for step in part.split("/")]
    if any(not step or step.startswith(_HIDDEN) or "\0" in step for step in steps):
        raise NotFound(f"there is no {'/'.join(steps)!r}")
    return "/".join(steps)
