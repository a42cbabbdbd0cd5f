"""Folders of files that exist whole or not at all, on a disk or in an object store.

A folder exists when its seal does, the file named `seal`, which is written last and removed first: neither place can
make many files appear at once. So readers read the seal first, and then the rest.

Every file of a folder is created, never overwritten: of two writers of one folder the second gets a Conflict. A file
that exists with the same bytes counts as written: a writer that repeats a call after a lost answer finds it. A
publication ends with a check that all files exist, a removal with a check that none does; otherwise they begin again.
So a folder that is published and removed at the same time ends whole or not at all.

A path is steps joined by `/`. No step may be empty or begin with a dot, so no name, wherever it comes from, leads out
of the root: such a path is answered with NotFound.
"""

from __future__ import annotations

import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from time import sleep, time
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeVar, cast
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import HttpUrl, TypeAdapter

from app.disks import obstacle
from app.errors import Conflict, NotFound, Unavailable, Unusable
from app.storage.store_calls import StoreBreaker, on_disk

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig

T = TypeVar("T")

_HIDDEN = "."
_PART = re.compile(r"\.[0-9a-f]{32}")  # a file of a disk while it is written
_ABANDONED_SECONDS = 3600.0  # no folder takes an hour to write
_LOCAL = re.compile(r"(?:file|local)://(?P<path>.*)", re.DOTALL)
_NONE = re.compile(r"(?!)")
_ROUNDS = 5  # of publishing and removing against each other
_MAX_REMOVED = 1000
_AT_ONCE = 16  # requests, where many objects are read
_CONNECT_SECONDS = 2.0
_SECONDS = 4.0  # for an answer, twice, since all is tried again
_LONGEST_SECONDS = 3600.0  # for a whole answer that does not stop
_LEAST_BYTES_PER_SECOND = 2**20

_log = logging.getLogger(__name__)


class Storage:
    """Sealed folders of files below one URL (`models`, `/srv/models`, `s3://bucket/models`, …).

    `name` is what the place is called in messages: the setting that names it. Calls to a store on the network may
    wait up to about eight seconds, or `retry_seconds` where that is more, and then raise Unavailable; so do, at once,
    those to a disk that fails. Unusable, a kind of Unavailable, is what waiting does not fix, such as a missing bucket.
    """

    def __init__(self, url: str, seal: str, *, name: str = "the storage", retry_seconds: float = 0.0) -> None:
        self.url = url
        self.seal = seal
        self.name = name
        local = _LOCAL.fullmatch(url)
        self._root = None if self.is_remote(url) else Path(local["path"] if local else url).absolute()
        self._store: ObjectStore
        if self._root is None:
            self._ask = StoreBreaker(name, retry_seconds).call
            self._store = _remote(url, name)
            # No other limit than that for all of a request holds while it is being sent.
            self._sender = cache(lambda seconds: _client(url, seconds, seconds))
        else:
            self._ask = partial(on_disk, name)
            self._root.mkdir(parents=True, exist_ok=True)
            self._store = LocalStore(self._root, automatic_cleanup=True)

    @staticmethod
    def is_remote(url: str) -> bool:
        """Whether `url` is not a folder of this machine."""
        return "://" in url and not _LOCAL.fullmatch(url)

    def check(self) -> None:
        """Unavailable where the place cannot be reached, Unusable where that will not pass by itself."""

        def look() -> None:
            if self._root is not None:
                self._root.mkdir(parents=True, exist_ok=True)
            obstore.list_with_delimiter(self._store)

        self._ask(look)

    def prepare(self) -> None:
        """Check the place at a start; what may pass by itself is only logged."""
        try:
            self.check()
        except Unusable:
            raise
        except Unavailable as error:
            _log.warning("%s: continuing without it", error.detail)

    def obstacle(self) -> str:
        """What keeps a folder of this machine from being written; empty of a store on the network. Writes nothing."""
        return "" if self._root is None else obstacle(self._root)

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""
        if self.seal not in files:
            raise ValueError(f"a folder needs its seal {self.seal!r}")
        paths = {_checked(folder, name): content for name, content in files.items()}
        seal = _checked(folder, self.seal)
        if self.exists(folder):
            raise Conflict(f"{folder} exists already")
        for _ in range(_ROUNDS):  # from the second on the seal may be the one that was written in the first
            for path in sorted(paths, key=lambda path: path == seal):
                self._create(path, paths[path])
            sizes = {path: info["size"] for path, info in self._find(folder).items()}
            if all(sizes.get(path) == len(content) for path, content in paths.items()):
                return
        raise Unavailable(f"{folder} is being removed by another process; try again later")

    def read(self, *path: str) -> bytes:
        """The bytes of one file; NotFound where it is absent."""
        with _found(*path) as whole:
            return self._ask(lambda: self._get(whole))

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """The bytes of the file `name` of those folders that have it, by their names; faster than one by one."""

        def read(path: str) -> bytes | None:
            with suppress(FileNotFoundError):
                return self._get(path)
            return None

        paths = {folder: _checked(folder, name) for folder in folders}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = self._ask(lambda: list(pool.map(read, paths.values())))
        return {folder: content for folder, content in zip(paths, found, strict=True) if content is not None}

    def open(self, *path: str) -> BinaryIO:
        """One file, seekable, to be read piece by piece and closed; NotFound where it is absent.

        An object is copied to this machine: what goes wrong on the network does so here, and not while it is read.
        """

        def fetch() -> BinaryIO:
            if self._root is not None:
                return (self._root / whole).open("rb")
            found = obstore.get(self._store, whole)
            with ExitStack() as opened:
                file = cast(BinaryIO, opened.enter_context(TemporaryFile()))
                for part in found.stream():
                    file.write(part)
                file.seek(0)
                opened.pop_all()
                return file

        with _found(*path) as whole:
            return self._ask(fetch)

    def folders(self, under: str = "") -> list[str]:
        """Names directly below `under`, sealed or not, sorted."""
        prefix = _checked(under) if under else None
        listed = self._ask(lambda: obstore.list_with_delimiter(self._store, prefix))
        names = (path.rpartition("/")[2] for path in listed["common_prefixes"])
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def exists(self, folder: str) -> bool:
        """Whether the folder has its seal."""
        try:
            self.read(folder, self.seal)
        except NotFound:
            _checked(folder)
            return False
        return True

    def write(self, path: str, content: bytes) -> None:
        """Put one file in place of whatever was there, atomically."""
        whole = _checked(path)
        self._ask(lambda: self._put(whole, content, "overwrite"))

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is absent."""
        seal = _checked(folder, self.seal)
        for _ in range(_ROUNDS):
            found = self._find(folder)
            if not found:
                return
            for path in sorted(found, key=lambda path: path != seal):
                self._drop(path)
        raise Unavailable(f"{folder} is being written by another process; try again later")

    def clean_up(self, folders: re.Pattern[str] = _NONE, older_than_seconds: float = _ABANDONED_SECONDS) -> int:
        """Remove what killed processes left half-written; how many there were.

        These are folders without a seal whose whole name matches `folders`, and parts of files. The store's own clock
        counts, known from the newest of its files: this machine's may be hours ahead.
        """
        written: dict[str, dict[str, float]] = defaultdict(dict)
        for path, info in self._find("").items():
            folder, _, name = path.rpartition("/")
            written[folder][name] = info["last_modified"].timestamp()
        before = min(time(), max((at for files in written.values() for at in files.values()), default=0.0))
        before -= older_than_seconds
        removed = 0
        for folder, files in written.items():
            old = [name for name, at in files.items() if at < before]
            half = folders.fullmatch(folder) and self.seal not in files and len(old) == len(files)
            for name in old:
                if removed < _MAX_REMOVED and (half or _PART.fullmatch(name)):
                    self._drop(f"{folder}/{name}" if folder else name)
                    removed += 1
        return removed

    def _create(self, path: str, content: bytes) -> None:
        """Write a file that is not there; Conflict where another one is."""
        for pause in (0.0, 0.1, 0.3):
            sleep(pause)
            try:
                return self._ask(lambda: self._put(path, content, "create"))
            except AlreadyExistsError:
                try:
                    if self.read(path) == content:
                        return None
                except NotFound:  # it is being written, or was removed meanwhile
                    continue
            break
        raise Conflict(f"{path} is being written by another process, or was left half-written; try again later")

    def _put(self, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        if self._root is not None:
            self._put_flushed(self._root, path, content, mode)
            return
        seconds = _SECONDS
        while (seconds - _SECONDS) * _LEAST_BYTES_PER_SECOND < len(content):
            seconds *= 2
        obstore.put(self._sender(seconds), path, content, mode=mode, use_multipart=False)

    def _put_flushed(self, root: Path, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        """The library's own `put` leaves it to the system when the disk has the bytes."""
        part = str(PurePosixPath(path).with_name(f"{_HIDDEN}{uuid4().hex}"))
        try:
            _write_flushed(root / part, content)
            obstore.rename(self._store, part, path, overwrite=mode == "overwrite")
            for folder in PurePosixPath(path).parents:  # any of them may be new
                _flush_folder(root / folder)
        except FileNotFoundError as error:
            raise Unavailable(f"{path} was removed while it was written; try again later") from error
        finally:
            with suppress(FileNotFoundError):
                obstore.delete(self._store, part)

    def _get(self, path: str) -> bytes:
        return bytes(obstore.get(self._store, path).bytes())

    def _drop(self, path: str) -> None:
        with suppress(FileNotFoundError):  # another process removes it, too
            self._ask(lambda: obstore.delete(self._store, path))

    def _find(self, under: str) -> dict[str, ObjectMeta]:
        """All files below `under`, by their paths."""
        pages = self._ask(lambda: list(obstore.list(self._store, under or None)))
        return {info["path"]: info for page in pages for info in page}


@contextmanager
def _found(*path: str) -> Iterator[str]:
    """The whole path; NotFound where what is read inside is absent."""
    whole = _checked(*path)
    try:
        yield whole
    except FileNotFoundError as absent:
        raise NotFound(f"there is no {whole}") from absent


def _checked(*parts: str) -> str:
    steps = [step for part in parts for step in part.split("/")]
    if any(not step or step.startswith(_HIDDEN) or "\0" in step for step in steps):
        raise NotFound(f"there is no {'/'.join(steps)!r}")
    return "/".join(steps)


def _write_flushed(path: Path, content: bytes) -> None:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError:  # a removal took the empty folder away
            continue
        return


def _flush_folder(path: Path) -> None:
    with suppress(FileNotFoundError):  # removed meanwhile
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remote(url: str, name: str) -> ObjectStore:
    """The object store of a URL; Unusable where there can be none."""
    if url.startswith(("http:", "https:", "memory:")):
        raise Unusable(f"{name} is {url}: write s3://bucket/path, and the store's URL into AWS_ENDPOINT_URL")
    try:  # the library panics at what is no URL
        TypeAdapter(HttpUrl).validate_python(os.environ.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com")
    except ValueError as error:
        raise Unusable(f"the store of {name} cannot be used (AWS_ENDPOINT_URL is not a URL of http)") from error
    try:
        return _client(url, _LONGEST_SECONDS, _SECONDS)
    except (BaseError, ValueError) as error:
        raise Unusable(f"{name}: {str(error).splitlines()[0]}") from error


def _client(url: str, seconds: float, quiet_seconds: float) -> ObjectStore:
    """A client whose requests take so long at most, and their answers no longer pause than `quiet_seconds`."""
    options: ClientConfig = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
        "timeout": timedelta(seconds=seconds),
        "read_timeout": timedelta(seconds=quiet_seconds),
    }
    # Trying again is StoreBreaker's part alone, so that the waits of several layers do not multiply.
    return from_url(url, client_options=options, retry_config={"max_retries": 0})
