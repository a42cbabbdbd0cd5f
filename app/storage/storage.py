"""Folders of files that exist complete or not at all, on a disk or in an object store.

A folder exists when its seal does, the file named `seal`, which is written last and removed first:
neither place can make many files appear at once. So readers read the seal first, and then the rest.

Every file of a folder is created, never overwritten: of two writers of one folder the second gets a
Conflict. A file that exists with the same bytes counts as written: a writer that repeats a call
after a lost answer finds it. A publication ends with a check that all files exist, a removal with a
check that none does; otherwise they begin again. So a folder that is published and removed at the
same time ends complete or does not exist.

A path is steps joined by `/`. No step may be empty or begin with a dot, so no name leads out of the
root, wherever it comes from: such a path is NotFound.
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
# no folder takes a day to write, and no clock is wrong by one
_ABANDONED_SECONDS = 86_400.0
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

    `name` is the setting of the URL, for messages. Requests to a store on the network are tried
    twice, some eight seconds where it hangs, or for `retry_seconds`, and then raise Unavailable; so
    do, at once, calls to a disk that fails. Unusable, a kind of Unavailable, is an error that
    waiting does not fix, such as a missing bucket.
    """

    def __init__(
        self,
        url: str,
        seal: str,
        *,
        name: str = "the storage",
        retry_seconds: float = 0.0,
    ) -> None:
        self.url = url
        self.seal = seal
        self.name = name
        self._root = None if self.is_remote(url) else Path(url).absolute()
        self._store: ObjectStore
        errors = ERRORS.labels(name.removeprefix("PAYOFF_").lower())
        if self._root is None:
            self._call = StoreBreaker(name, errors).call
            self._client = partial(_client, url, name, retry_seconds)
            self._store = self._client(_LONGEST_SECONDS, _SECONDS)
        else:
            self._call = partial(on_disk, name, errors)
            self._root.mkdir(parents=True, exist_ok=True)
            self._store = LocalStore(self._root, automatic_cleanup=True)

    @staticmethod
    def is_remote(url: str) -> bool:
        """Whether `url` is not a folder of this machine."""
        return "://" in url

    def prepare(self) -> None:
        """Check the place at a start; an error that may pass by itself is only logged."""
        try:
            self.folders()
        except Unusable:
            raise
        except Unavailable as error:
            _log.warning("%s: continuing without it", error.detail)

    def obstacle(self) -> str:
        """Why a folder of this machine cannot be written; empty if it can, and for a store on the
        network. Writes nothing.
        """
        return "" if self._root is None else obstacle(self._root)

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""
        paths = {_checked(folder, name): content for name, content in files.items()}
        seal = _checked(folder, self.seal)
        if self.exists(folder):
            raise Conflict(f"{folder} exists already")
        # From the second round on the seal may be the one that the first round wrote.
        for _ in range(_ROUNDS):
            for path in sorted(paths, key=lambda path: path == seal):
                self._create(path, paths[path])
            sizes = {path: info["size"] for path, info in self._files(folder).items()}
            if all(sizes.get(path) == len(content) for path, content in paths.items()):
                return
        raise Unavailable(
            f"{folder} is being removed by another process; try again later"
        )

    def read(self, *path: str) -> bytes:
        """The bytes of one file; NotFound where it is absent."""
        with _present_path(*path) as full_path:
            return self._call(
                lambda: bytes(obstore.get(self._store, full_path).bytes())
            )

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

        An object is copied to this machine: errors of the network are raised here, and not while it
        is read.
        """

        def fetch() -> BinaryIO:
            if self._root is not None:
                return (self._root / full_path).open("rb")
            response = obstore.get(self._store, full_path)
            with ExitStack() as opened:
                file = cast(BinaryIO, opened.enter_context(TemporaryFile()))
                for part in response.stream():
                    file.write(part)
                file.seek(0)
                opened.pop_all()
                return file

        with _present_path(*path) as full_path:
            return self._call(fetch)

    def folders(self, under: str = "") -> list[str]:
        """Names directly below `under`, sealed or not, sorted."""
        prefix = _checked(under) if under else None
        listed = self._call(lambda: obstore.list_with_delimiter(self._store, prefix))
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
        """Write one file, in place of the file at this path if there is one, atomically."""
        full_path = _checked(path)
        self._call(lambda: self._put(full_path, content, "overwrite"))

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is
        absent.
        """
        seal = _checked(folder, self.seal)
        for _ in range(_ROUNDS):
            files = self._files(folder)
            if not files:
                return
            for path in sorted(files, key=lambda path: path != seal):
                self._drop(path)
        raise Unavailable(
            f"{folder} is being written by another process; try again later"
        )

    def clean_up(
        self,
        folders: re.Pattern[str] = _NONE,
        older_than_seconds: float = _ABANDONED_SECONDS,
    ) -> int:
        """Remove folders and files that killed processes left half-written; returns their number.

        These are folders without a seal whose name fully matches `folders`, and parts of files.
        """
        before = time() - older_than_seconds
        files = self._files("")
        removed = 0
        for path, info in files.items():
            folder, _, name = path.rpartition("/")
            is_unsealed = (
                folders.fullmatch(folder) and f"{folder}/{self.seal}" not in files
            )
            if (is_unsealed or _PART.fullmatch(name)) and info[
                "last_modified"
            ].timestamp() < before:
                self._drop(path)
                removed += 1
        return removed

    def _create(self, path: str, content: bytes) -> None:
        """Write a file; Conflict where another one exists at its path."""
        try:
            self._call(lambda: self._put(path, content, "create"))
        except AlreadyExistsError as error:
            with suppress(NotFound):  # removed meanwhile
                if self.read(path) == content:
                    return
            raise Conflict(
                f"{path} is being written by another process, or was left half-written;"
                " try again later"
            ) from error

    def _put(
        self, path: str, content: bytes, mode: Literal["create", "overwrite"]
    ) -> None:
        if self._root is not None:
            self._put_flushed(self._root, path, content, mode)
            return
        seconds = _SECONDS + len(content) / _LEAST_BYTES_PER_SECOND
        # Of the client's limits only that for all of a request holds while it is being sent.
        obstore.put(
            self._client(seconds, seconds),
            path,
            content,
            mode=mode,
            use_multipart=False,
        )

    def _put_flushed(
        self,
        root: Path,
        path: str,
        content: bytes,
        mode: Literal["create", "overwrite"],
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
            self._call(lambda: obstore.delete(self._store, path))

    def _files(self, under: str) -> dict[str, "ObjectMeta"]:
        """All files below `under`, by their paths."""
        pages = self._call(lambda: list(obstore.list(self._store, under or None)))
        return {info["path"]: info for page in pages for info in page}


@contextmanager
def _present_path(*path: str) -> Iterator[str]:
    """The full path; NotFound where the file that is read inside is absent."""
    full_path = _checked(*path)
    try:
        yield full_path
    except FileNotFoundError as absent:
        raise NotFound(f"there is no {full_path}") from absent


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
    """A client whose requests take at most `seconds`, and pause for at most `quiet_seconds`;
    Unusable for wrong settings.
    """
    if url.startswith(("http:", "https:", "memory:", "file:")):
        raise Unusable(
            f"{name} is {url}: write s3://bucket/path, and the store's URL into AWS_ENDPOINT_URL"
        )
    try:  # the library panics where the endpoint is no URL
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
        retries = {
            "max_retries": 100,
            "retry_timeout": timedelta(seconds=retry_seconds),
        }
    try:
        return from_url(url, client_options=options, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise Unusable(f"{name}: {str(error).splitlines()[0]}") from error
