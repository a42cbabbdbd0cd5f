"""Files of an object store that are kept on this machine, to be read while the store is away."""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from pathlib import Path

_log = logging.getLogger(__name__)


class FileCache:
    """At most `limit` bytes below `folder`, which several processes may share; the least recently read goes first.

    No call fails because of the disk. What is kept may be damaged: whoever reads it knows its digest.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def get(self, path: str) -> bytes | None:
        try:
            content = self._place(path).read_bytes()
            os.utime(self._place(path))
        except OSError:
            return None
        return content

    def keep(self, path: str, content: bytes) -> None:
        if len(content) > self._limit:
            return
        part = self._folder / f".{uuid.uuid4().hex}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_room(len(content))
            try:
                part.write_bytes(content)
                part.replace(self._place(path))
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("no copy of %s is kept: %s", path, error.strerror)

    def _make_room(self, size: int) -> None:
        """Parts of killed writers go like other files."""
        known = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(self._folder))
        free = self._limit - sum(size for _, size, _ in known)
        for _, taken, path in known:
            if free >= size:
                return
            Path(path).unlink(missing_ok=True)
            free += taken

    def _place(self, path: str) -> Path:
        return self._folder / hashlib.sha256(path.encode()).hexdigest()
