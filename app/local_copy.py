"""The copy of a small table in a local file, for a start without the database."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from app.polling import Poller

T = TypeVar("T")

_SECONDS = 5.0  # between two writes: a copy that is a little behind serves as well

_log = logging.getLogger(__name__)


class LocalCopy(Generic[T]):
    """The file at `path`, JSON of the type of `content`; `what` names the table in the log.

    It is written in a thread of its own: those who learn of a change also carry revoked keys, and do not wait for a
    disk, nor for the whole table at each change of a part.
    """

    def __init__(self, path: Path, what: str, content: TypeAdapter[T]) -> None:
        self._path = path
        self._what = what
        self._content = content
        self._waiting: deque[Iterable[bytes]] = deque(maxlen=1)
        self._poller = Poller(f"copy of {what}", self._write, _SECONDS)

    def start(self) -> None:
        self._poller.start()

    def stop(self) -> None:
        """Write what was not written yet, and nothing more."""
        self._poller.stop()
        self._write()

    def read(self) -> T | None:
        """What was kept last; None where there is no file, or one that is not of this type."""
        try:
            return self._content.validate_json(self._path.read_bytes(), strict=True)
        except (OSError, ValueError):
            return None

    def keep(self, parts: Iterable[bytes]) -> None:
        """Have the file replaced by these parts, which are read once, in the thread; newer ones replace older ones."""
        self._waiting.append(parts)

    def _write(self) -> None:
        """What waits; where that fails the log has a warning."""
        if not self._waiting:
            return
        whole = self._path.with_suffix(f".{os.getpid()}")
        try:
            with whole.open("wb") as file:
                file.writelines(self._waiting.pop())
            whole.replace(self._path)
        except OSError as error:
            _log.warning("%s: no copy is kept for a start without the database: %s", self._what, error.strerror)
