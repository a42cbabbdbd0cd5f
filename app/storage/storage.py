"""Folders of files that exist whole or not at all, on a disk or in an object store.

A folder exists when its seal does, the file named `seal`, which is written last and removed first:
neither place can make many files appear at once. So readers read the seal first, and then the rest.

Every file of a folder is created, never overwritten: of two writers of one folder the second gets a
Conflict. A file that exists with the same bytes counts as written: a writer that repeats a call
after a lost answer finds it. A publication ends with a check that all files exist, a removal with a
check that none does; otherwise they begin again. So a folder that is published and removed at the
same time ends whole or not at all.

A path is steps joined by `/`. No step may be empty or begin with a dot, so no name, wherever it
comes from, leads out of the root: such a path is answered with NotFound.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from time import time
from typing import TYPE_CHECKING, BinaryIO, Literal, cast
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import HttpUrl, TypeAdapter

from app.errors import Conflict, NotFound, Unavailable, Unusable
from app.storage.disks import obstacle
from app.storage.store_calls import ERRORS, StoreBreaker, on_disk

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

_HIDDEN = "."
_PART = re.compile(r"\.[0-9a-f]{32}")  # a file of a disk while it is written
_ABANDONED_SECONDS = 86_400.0  # no folder takes a day to write, and no clock is wrong by one
_NONE = re.compile(r"(?!)")
_ROUNDS = 5  # of publishing and removing against each other
_AT_ONCE = 16  # requests, where many objects are read
_CONNECT_SECONDS = 2.0
_SECONDS = 4.0  # for an answer
_LONGEST_SECONDS = 3600.0  # for a whole answer that does not stop
_LEAST_BYTES_PER_SECOND = 2**20

_log = logging.getLogger(__name__)


class Storage:
    """Sealed folders of files below one URL (`models`, `/srv/models`, `s3://bucket/models`, …).

    `name` is what the place is called in messages: the setting that names it. Requests to a store
    on the network are tried twice, some eight seconds where it hangs, or for `retry_seconds`, and
    then raise Unavailable; so do, at once, calls to a disk that fails. Unusable, a kind of
    Unavailable, is what waiting does not fix, such as a missing bucket.
    """

    def __init__(
        self, url: str, seal: str, *, name: str = "the storage", retry_seconds: float = 0.0
    ) -> None:
        self.url = url
        self.seal = seal
        self.name = name
        self._root = None if self.is_remote(url) else Path(url).absolute()
        self._store: ObjectStore
        errors = ERRORS.labels(name.removeprefix("PAYOFF_").lower())
        if self._root is None:
            self._ask = StoreBreaker(name, errors).call
            self._client = partial(_client, url, name, retry_seconds)
            self._store = self._client(_LONGEST_SECONDS, _SECONDS)
        else:
            self._ask = partial(on_disk, name, errors)
            self._root.mkdir(parents=True, exist_ok=True)
            self._store = LocalStore(self._root, automatic_cleanup=True)

    @staticmethod
    def is_remote(url: str) -> bool:
        """Whether `url` is not a folder of this machine."""
        return "://" in url

    def prepare(self) -> None:
        """Check the place at a start; what may pass by itself is only logged."""
        try:
            self.folders()
        except Unusable:
            raise
        except Unavailable as error:
            _log.warning("%s: continuing without it", error.detail)

    def obstacle(self) -> str:
        """What keeps a folder of this machine from being written; empty of a store on the network.
        Writes nothing.
        """
        return "" if self._root is None else obstacle(self._root)

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""
        paths = {_checked(folder, name): content for name, content in files.items()}
        seal = _checked(folder, self.seal)
        if self.exists(folder):
            raise Conflict(f"{folder} exists already")
        # from the second on the seal may be the one that was written in the first
        for _ in range(_ROUNDS):
            for path in sorted(paths, key=lambda path: path == seal):
                self._create(path, paths[path])
            sizes = {path: info["size"] for path, info in self._find(folder).items()}
            if all(sizes.get(path) == len(content) for path, content in paths.items()):
                return
        raise Unavailable(f"{folder} is being removed by another process; try again later")

    def read(self, *path: str) -> bytes:
        """The bytes of one file; NotFound where it is absent."""
        with _found(*path) as whole:
            return self._ask(lambda: bytes(obstore.get(self._store, whole).bytes()))

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """The bytes of the file `name` of those folders that have it, by their names; faster than
        one by one.
        """

        def read(folder: str) -> tuple[str, bytes | None]:
            with suppress(NotFound):
                return folder, self.read(folder, name)
            return folder, None

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return {
                folder: content
                for folder, content in pool.map(read, folders)
                if content is not None
            }

    def open(self, *path: str) -> BinaryIO:
        """One file, seekable, to be read piece by piece and closed; NotFound where it is absent.

        An object is copied to this machine: what goes wrong on the network does so here, and not
        while it is read.
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
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is
        absent.
        """
        seal = _checked(folder, self.seal)
        for _ in range(_ROUNDS):
            found = self._find(folder)
            if not found:
                return
            for path in sorted(found, key=lambda path: path != seal):
                self._drop(path)
        raise Unavailable(f"{folder} is being written by another process; try again later")

    def clean_up(
        self, folders: re.Pattern[str] = _NONE, older_than_seconds: float = _ABANDONED_SECONDS
    ) -> int:
        """Remove what killed processes left half-written; how many there were.

        These are folders without a seal whose whole name matches `folders`, and parts of files.
        """
        before = time() - older_than_seconds
        found = self._find("")
        removed = 0
        for path, info in found.items():
            folder, _, name = path.rpartition("/")
            half = folders.fullmatch(folder) and f"{folder}/{self.seal}" not in found
            if (half or _PART.fullmatch(name)) and info["last_modified"].timestamp() < before:
                self._drop(path)
                removed += 1
        return removed

    def _create(self, path: str, content: bytes) -> None:
        """Write a file that is not there; Conflict where another one is."""
        try:
            self._ask(lambda: self._put(path, content, "create"))
        except AlreadyExistsError as error:
            with suppress(NotFound):  # removed meanwhile
                if self.read(path) == content:
                    return
            problem = f"{path} is being written by another process, or was left half-written; try again later"
            raise Conflict(problem) from error

    def _put(self, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        if self._root is not None:
            self._put_flushed(self._root, path, content, mode)
            return
        seconds = _SECONDS + len(content) / _LEAST_BYTES_PER_SECOND
        # Of the client's limits only that for all of a request holds while it is being sent.
        obstore.put(self._client(seconds, seconds), path, content, mode=mode, use_multipart=False)

    def _put_flushed(
        self, root: Path, path: str, content: bytes, mode: Literal["create", "overwrite"]
    ) -> None:
        """The library's own `put` leaves it to the system when the disk has the bytes."""
        part = str(PurePosixPath(path).with_name(f"{_HIDDEN}{uuid4().hex}"))
        try:
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            with (root / part).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            obstore.rename(self._store, part, path, overwrite=mode == "overwrite")
            for folder in PurePosixPath(path).parents:  # any of them may be new
                _flush_folder(root / folder)
        except FileNotFoundError as error:
            raise Unavailable(
                f"{path} was removed while it was written; try again later"
            ) from error
        finally:
            with suppress(FileNotFoundError):
                obstore.delete(self._store, part)

    def _drop(self, path: str) -> None:
        with suppress(FileNotFoundError):  # another process removes it, too
            self._ask(lambda: obstore.delete(self._store, path))

    def _find(self, under: str) -> dict[str, "ObjectMeta"]:
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


def _flush_folder(path: Path) -> None:
    with suppress(FileNotFoundError):  # removed meanwhile
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _client(
    url: str, name: str, retry_seconds: float, seconds: float, quiet_seconds: float
) -> ObjectStore:
    """A client whose requests take so long at most, and pause no longer than that; Unusable where
    there can be none.
    """
    if url.startswith(("http:", "https:", "memory:", "file:")):
        raise Unusable(
            f"{name} is {url}: write s3://bucket/path, and the store's URL into AWS_ENDPOINT_URL"
        )
    try:  # the library panics at what is no URL
        TypeAdapter(HttpUrl).validate_python(
            os.environ.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com"
        )
    except ValueError as error:
        raise Unusable(
            f"the store of {name} cannot be used (AWS_ENDPOINT_URL is not a URL of http)"
        ) from error
    options: ClientConfig = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
        "timeout": timedelta(seconds=seconds),
        "read_timeout": timedelta(seconds=quiet_seconds),
    }
    retries: RetryConfig = {"max_retries": 1}
    if retry_seconds:
        retries = {"max_retries": 100, "retry_timeout": timedelta(seconds=retry_seconds)}
    try:
        return from_url(url, client_options=options, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise Unusable(f"{name}: {str(error).splitlines()[0]}") from error
