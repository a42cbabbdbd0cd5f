"""Folders in an object store, which has no rename: the seal is written last and removed first.

Every object of a folder is created, never overwritten (`If-None-Match: *`): of two writers of one folder the second
gets a Conflict. An object that exists with the same bytes counts as written: a writer that repeats a call after a lost
answer finds it.

A publication ends with a check that all objects exist, a removal with a check that none does; otherwise they begin
again. So a folder that is published and removed at the same time ends whole or not at all.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import cache
from tempfile import TemporaryFile
from time import sleep, time
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeVar, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url
from pydantic import HttpUrl, TypeAdapter

from app.disks import Obstacle
from app.errors import Conflict, Unavailable, Unusable
from app.storage.store_calls import StoreBreaker

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig

T = TypeVar("T")

_ROUNDS = 5  # of publishing and removing against each other
_MAX_REMOVED = 1000
_AT_ONCE = 16  # requests, where many objects are read
_CONNECT_SECONDS = 2.0
_SECONDS = 4.0  # for an answer, twice, since all is tried again
_LONGEST_SECONDS = 3600.0  # for a whole answer that does not stop
_LEAST_BYTES_PER_SECOND = 2**20


class Objects:
    """Files below `s3://bucket/path` and the like; what is absent raises FileNotFoundError."""

    def __init__(self, url: str, seal: str, name: str, retry_seconds: float = 0.0) -> None:
        self._seal = seal
        self._breaker = StoreBreaker(name, retry_seconds)
        if url.startswith(("http:", "https:", "memory:")):
            raise Unusable(f"{name} is {url}: write s3://bucket/path, and the store's URL into AWS_ENDPOINT_URL")
        try:  # the library panics at what is no URL
            TypeAdapter(HttpUrl).validate_python(os.environ.get("AWS_ENDPOINT_URL") or "https://s3.amazonaws.com")
        except ValueError as error:
            raise Unusable(f"the store of {name} cannot be used (AWS_ENDPOINT_URL is not a URL of http)") from error
        try:
            self._store = _client(url, _LONGEST_SECONDS, _SECONDS)
        except (BaseError, ValueError) as error:
            raise Unusable(f"{name}: {str(error).splitlines()[0]}") from error
        # No other limit than that for all of a request holds while it is being sent.
        self._sender = cache(lambda seconds: _client(url, seconds, seconds))

    def check(self) -> None:
        self._ask(lambda: obstore.list_with_delimiter(self._store))

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
        return self._ask(lambda: self._get(path))

    def read_many(self, paths: list[str]) -> dict[str, bytes]:
        def read(path: str) -> bytes | None:
            with suppress(FileNotFoundError):
                return self._get(path)
            return None

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = self._ask(lambda: list(pool.map(read, paths)))
        return {path: content for path, content in zip(paths, found, strict=True) if content is not None}

    def open(self, path: str) -> BinaryIO:
        """A copy on this machine: what goes wrong on the network does so here, and not while it is read."""

        def fetch() -> BinaryIO:
            found = obstore.get(self._store, path)
            with ExitStack() as opened:
                file = cast(BinaryIO, opened.enter_context(TemporaryFile()))
                for part in found.stream():
                    file.write(part)
                file.seek(0)
                opened.pop_all()
                return file

        return self._ask(fetch)

    def write(self, path: str, content: bytes) -> None:
        self._ask(lambda: self._put(path, content, "overwrite"))

    def folders(self, under: str) -> list[str]:
        listed = self._ask(lambda: obstore.list_with_delimiter(self._store, under or None))
        return [path.rpartition("/")[2] for path in listed["common_prefixes"]]

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
        written: dict[str, dict[str, float]] = defaultdict(dict)
        for path, info in self._find("").items():
            folder, _, name = path.rpartition("/")
            written[folder][name] = info["last_modified"].timestamp()
        now = min(time(), max((at for files in written.values() for at in files.values()), default=0.0))
        removed = 0
        for folder, files in written.items():
            half = folders.fullmatch(folder) and self._seal not in files and max(files.values()) < now - age
            if half and removed < _MAX_REMOVED:
                self.remove(folder)
                removed += 1
        return removed

    def _create(self, path: str, content: bytes) -> None:
        """Write an object that is not there; Conflict where another one is."""
        for pause in (0.0, 0.1, 0.3):
            sleep(pause)
            try:
                return self._ask(lambda: self._put(path, content, "create"))
            except AlreadyExistsError:
                try:
                    if self.read(path) == content:
                        return None
                except FileNotFoundError:  # it is being written, or was removed meanwhile
                    continue
            break
        raise Conflict(f"{path} is being written by another process, or was left half-written; try again later")

    def _put(self, path: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        seconds = _SECONDS
        while (seconds - _SECONDS) * _LEAST_BYTES_PER_SECOND < len(content):
            seconds *= 2
        obstore.put(self._sender(seconds), path, content, mode=mode, use_multipart=False)

    def _get(self, path: str) -> bytes:
        return bytes(obstore.get(self._store, path).bytes())

    def _drop(self, path: str) -> None:
        with suppress(FileNotFoundError):  # another process removes it, too
            self._ask(lambda: obstore.delete(self._store, path))

    def _has(self, path: str) -> bool:
        try:
            self.read(path)
        except FileNotFoundError:
            return False
        return True

    def _find(self, under: str) -> dict[str, ObjectMeta]:
        """All objects below `under`, by their paths."""
        pages = self._ask(lambda: list(obstore.list(self._store, under or None)))
        return {info["path"]: info for page in pages for info in page}

    def _ask(self, work: Callable[[], T]) -> T:
        return self._breaker.call(work)


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
