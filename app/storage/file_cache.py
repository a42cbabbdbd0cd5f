"""Files of an object store that are kept on this machine, for when the store is unavailable."""

import logging
import os
import uuid
from pathlib import Path

_log = logging.getLogger(__name__)


class FileCache:
    """At most `limit` bytes below `folder`, which several processes may share; the least recently
    read goes first. With a limit of 0 nothing is kept.

    A file is named by its digest. No call fails because of the disk, and what is kept may be
    damaged.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def get(self, digest: str) -> bytes | None:
        try:
            os.utime(self._folder / digest)
            return (self._folder / digest).read_bytes()
        except OSError:
            return None

    def keep(self, digest: str, content: bytes) -> None:
        if len(content) > self._limit:
            return
        part = self._folder / f".{uuid.uuid4().hex}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_room(len(content))
            try:
                part.write_bytes(content)
                part.replace(self._folder / digest)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("no copy of a file of a model is kept: %s", error.strerror)

    def _make_room(self, size: int) -> None:
        """Remove the least recently read files, among them the parts of killed writers."""
        files = sorted(
            (entry.stat().st_mtime, entry.stat().st_size, entry.path)
            for entry in os.scandir(self._folder)
        )
        free = self._limit - sum(size for _, size, _ in files)
        for _, size_of_file, path in files:
            if free >= size:
                return
            Path(path).unlink(missing_ok=True)
            free += size_of_file
