"""Folders in an object store, which has no rename: the seal is written last and removed first.

Every object of a folder is created, never overwritten, as far as the store can (`If-None-Match: *`): of two writers of
one folder the second gets a Conflict. An object that exists with the same bytes counts as written: a writer that
repeats a call after a lost answer finds it.

A publication ends with a check that all objects exist, a removal with a check that none does; otherwise they begin
again. So a folder that is published and removed at the same time ends whole or not at all.
"""

from __future__ import annotations

import errno
import io
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from time import sleep, time
from typing import Any, BinaryIO, TypeVar, cast

import fsspec
from fsspec.asyn import AsyncFileSystem

from app.disks import Obstacle
from app.errors import Conflict, Unavailable, Unusable
from app.storage.store_calls import StoreBreaker, code_of

T = TypeVar("T")

_ROUNDS = 5  # of publishing and removing against each other
_MAX_REMOVED = 1000
_PART_BYTES = 16 * 2**20  # of uploads in parts
_BLOCK_BYTES = 4 * 2**20  # read ahead by who reads piece by piece
_SECONDS = 4.0  # for an answer, twice, since all is tried again
_LEAST_BYTES_PER_SECOND = 2**20
# Trying again is StoreBreaker's part alone, so that the waits of several layers do not multiply.
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"connect_timeout": 2, "read_timeout": _SECONDS, "retries": {"total_max_attempts": 1}}},
}
_ONE_REQUEST: dict[str, dict[str, Any]] = {"s3": {"max_concurrency": 1}}  # does not ask for the size before
_IN_PARTS: dict[str, dict[str, Any]] = {"s3": {"chunksize": _PART_BYTES}}


class Objects:
    """Files under any fsspec URL that is no folder of this machine; what is absent raises FileNotFoundError."""

    def __init__(self, url: str, seal: str, name: str, retry_seconds: float = 0.0) -> None:
        self._seal = seal
        self._name = name
        self._breaker = StoreBreaker(name, retry_seconds)
        scheme = url.split(":", 1)[0]
        if scheme in {"http", "https"}:
            raise Unusable(f"{name} is {scheme}://…: write s3://bucket/path, and the store's URL into AWS_ENDPOINT_URL")
        self._reading, self._writing = _ONE_REQUEST.get(scheme, {}), _IN_PARTS.get(scheme, {})
        try:  # an instance of its own, and no listing remembered from before another process wrote
            self._fs, root = fsspec.core.url_to_fs(
                url, use_listings_cache=False, skip_instance_cache=True, **_OPTIONS.get(scheme, {})
            )
        except ImportError as error:
            package = "an extra: pip install 'payoff[s3]'" if scheme == "s3" else f"a package: {error}"
            raise Unusable(f"{name} is {scheme}://…, which needs {package}") from error
        except ValueError as error:
            raise Unusable(f"{name}: {error}") from error
        self._fs.retries = 1
        self._root = root.rstrip("/")

    def check(self) -> None:
        with suppress(FileNotFoundError):  # the answer of a store that can be used
            self.read(self._seal)

    def obstacle(self) -> Obstacle | None:
        return None  # it is known when it is asked

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        if self._has(f"{folder}/{self._seal}"):
            raise Conflict(f"{folder} exists already")
        for _ in range(_ROUNDS):  # from the second on the seal may be the one that was written in the first
            for name in sorted(files, key=lambda name: name == self._seal):
                self._create(f"{folder}/{name}", files[name])
            sizes = {path: info["size"] for path, info in self._find(folder).items()}
            if all(sizes.get(f"{folder}/{name}") == len(content) for name, content in files.items()):
                return
        raise Unavailable(f"{folder} is being removed by another process; try again later")

    def read(self, path: str) -> bytes:
        return bytes(self._ask(lambda: self._fs.cat_file(self._at(path), **self._reading)))

    def read_many(self, paths: list[str]) -> dict[str, bytes]:
        names = {self._at(path): path for path in paths}

        def read() -> dict[str, bytes]:
            found = self._fs.cat(list(names), recursive=False, on_error="return", **self._reading)
            for content in found.values():
                if isinstance(content, Exception) and not _absent(content):
                    raise content
            return {names[name]: bytes(content) for name, content in found.items() if not _absent(content)}

        return self._ask(read) if paths else {}

    def open(self, path: str) -> BinaryIO:
        file = self._ask(lambda: self._fs.open(self._at(path), "rb", block_size=_BLOCK_BYTES))
        return cast(BinaryIO, _Watched(file, self._breaker))

    def write(self, path: str, content: bytes) -> None:
        self._ask(lambda: self._put(path, content))

    def folders(self, under: str) -> list[str]:
        try:
            entries = self._ask(lambda: self._fs.ls(self._at(under), detail=True, refresh=True))
        except FileNotFoundError:
            return []
        return [entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory"]

    def remove(self, folder: str) -> None:
        seal = f"{folder}/{self._seal}"
        for _ in range(_ROUNDS):
            found = self._find(folder)
            if not found:
                return
            for path in sorted(found, key=lambda path: path != seal):
                self._drop(path)
        raise Unavailable(f"{folder} is being written by another process; try again later")

    def clean_up(self, folders: re.Pattern[str], age: float) -> int:
        """Remove folders that `folders` matches, without a seal and older than `age` seconds.

        The store's own clock counts, known from the newest of its files: this machine's may be hours ahead.
        """
        files: dict[str, dict[str, Any]] = defaultdict(dict)
        now = 0.0
        for path, info in self._find("").items():
            folder, _, name = path.rpartition("/")
            now = max(now, _written(info))
            if folders.fullmatch(folder):
                files[folder][name] = info
        removed = 0
        for folder, found in files.items():
            old = max(_written(info) for info in found.values()) < min(now, time()) - age
            if old and self._seal not in found and removed < _MAX_REMOVED:
                self.remove(folder)
                removed += 1
        return removed

    def _create(self, path: str, content: bytes) -> None:
        """Write an object that is not there; Conflict where another one is."""
        for pause in (0.0, 0.1, 0.3):
            sleep(pause)
            if self._ask(lambda: self._put_new(path, content)):
                return
            try:
                if self.read(path) == content:
                    return
            except FileNotFoundError:  # it is being written, or was removed meanwhile
                continue
            break
        raise Conflict(f"{path} is being written by another process, or was left half-written; try again later")

    def _put_new(self, path: str, content: bytes) -> bool:
        try:
            self._put(path, content, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            if code_of(error) == "ConditionalRequestConflict":
                return False
            if error.errno != errno.ENOSYS:
                raise
            self._put(path, content)  # this store has no conditional writes
        return True

    def _put(self, path: str, content: bytes, **how: Any) -> None:
        if isinstance(self._fs, AsyncFileSystem):  # no other limit holds while a request is being sent
            how["timeout"] = _SECONDS + len(content) / _LEAST_BYTES_PER_SECOND
        self._fs.pipe_file(self._at(path), content, **how, **self._writing)

    def _drop(self, path: str) -> None:
        with suppress(FileNotFoundError):  # another process removes it, too
            self._ask(lambda: self._fs.rm_file(self._at(path)))

    def _has(self, path: str) -> bool:
        try:
            self.read(path)
        except FileNotFoundError:
            return False
        return True

    def _find(self, under: str) -> dict[str, dict[str, Any]]:
        """All objects below `under`, by their paths from the root."""
        found = self._ask(lambda: self._fs.find(self._at(under), detail=True))
        return {path[len(self._root) + 1 :]: info for path, info in found.items()}

    def _ask(self, work: Callable[[], T]) -> T:
        return self._breaker.call(work)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


class _Watched(io.RawIOBase):
    """A file of a store; what goes wrong while it is read is a failure of the store as well."""

    def __init__(self, file: Any, breaker: StoreBreaker) -> None:
        super().__init__()
        self._file = file
        self._breaker = breaker

    def read(self, size: int = -1) -> bytes:
        place = self._file.tell()

        def again() -> bytes:
            self._file.seek(place)
            return bytes(self._file.read(size))

        return self._breaker.call(again)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _absent(content: object) -> bool:
    return isinstance(content, FileNotFoundError) and code_of(content) != "NoSuchBucket"


def _written(info: Mapping[str, Any]) -> float:
    """When an object was written, seconds since 1970; now, if the store does not report it."""
    at = info.get("LastModified") or info.get("created")
    return at.timestamp() if isinstance(at, datetime) else time()
