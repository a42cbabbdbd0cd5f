"""Folders on a local disk: written beside their place, flushed, and renamed into it."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from app.disks import Obstacle, obstacle
from app.errors import EXHAUSTED, UNWRITABLE, Conflict, Unavailable
from app.storage.store_calls import note_failure

_HIDDEN = "."  # names that begin so are work in progress
_LEFTOVERS = f"{_HIDDEN}*." + "[0-9a-f]" * 32  # what _beside names, as a pattern
_FAILING = UNWRITABLE | EXHAUSTED | {errno.EACCES, errno.EPERM, errno.ESTALE}

_log = logging.getLogger(__name__)


class Disk:
    """Files on this machine, or on a file system that looks like it; what is absent raises FileNotFoundError."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        root.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        with self._failures():
            self._root.mkdir(parents=True, exist_ok=True)

    def obstacle(self) -> Obstacle | None:
        return obstacle(self._root)

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        target, conflict = self._root / folder, Conflict(f"{folder} exists already")
        if target.exists():
            raise conflict
        beside = _beside(target)
        with self._failures():
            _make_parents(target)
            try:
                beside.mkdir()
                for name, content in files.items():
                    _write_flushed(beside / name, content)
                _flush_directory(beside)
                beside.rename(target)
            except OSError as error:
                if target.exists():
                    raise conflict from error
                if not beside.exists():
                    raise Unavailable(f"the writing of {folder} took so long that its files were removed") from error
                raise
            finally:
                shutil.rmtree(beside, ignore_errors=True)
            _flush_directory(target.parent)

    def read(self, path: str) -> bytes:
        with self._failures():
            return (self._root / path).read_bytes()

    def read_many(self, paths: list[str]) -> dict[str, bytes]:
        found = {}
        for path in paths:
            with suppress(FileNotFoundError):
                found[path] = self.read(path)
        return found

    def open(self, path: str) -> BinaryIO:
        with self._failures():
            return (self._root / path).open("rb")

    def write(self, path: str, content: bytes) -> None:
        with self._failures():
            target = self._root / path
            _make_parents(target)
            beside = _beside(target)
            try:
                _write_flushed(beside, content)
                beside.replace(target)
            finally:
                beside.unlink(missing_ok=True)
            _flush_directory(target.parent)

    def folders(self, under: str) -> list[str]:
        with self._failures(), suppress(FileNotFoundError, NotADirectoryError):
            return [entry.name for entry in os.scandir(self._root / under) if entry.is_dir()]
        return []

    def remove(self, folder: str) -> None:
        target = self._root / folder
        trash = _beside(target)
        with self._failures():
            try:
                target.rename(trash)
            except FileNotFoundError:
                return
            _flush_directory(trash.parent)
        shutil.rmtree(trash, ignore_errors=True)

    def clean_up(self, _folders: re.Pattern[str], age: float) -> int:
        """What is half-done is known here by its own hidden name."""
        removed, before = 0, time.time() - age
        for leftover in [*self._root.glob(_LEFTOVERS), *self._root.glob(f"*/{_LEFTOVERS}")]:
            taken = _beside(leftover)
            try:
                if leftover.stat().st_mtime > before:
                    continue
                leftover.rename(taken)  # from here on its owner cannot finish: nothing is removed from under a folder
            except FileNotFoundError:
                continue  # its owner was alive and has just finished
            if taken.is_dir():
                shutil.rmtree(taken, ignore_errors=True)
            else:
                taken.unlink(missing_ok=True)
            removed += 1
        return removed

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _FAILING:
                raise
            note_failure(self._name)
            _log.warning("%s: %s (%s)", self._name, error.strerror, error.filename)
            raise Unavailable(f"the disk of {self._name} cannot be used at the moment ({error.strerror})") from error


def _beside(path: Path) -> Path:
    """A hidden name of its own in the same folder: renaming between the two is atomic."""
    return path.with_name(f"{_HIDDEN}{path.name}.{uuid.uuid4().hex}")


def _make_parents(target: Path) -> None:
    """Make the folders above `target`, and flush the entries of those that are new."""
    new = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in new:
        _flush_directory(folder.parent)


def _write_flushed(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
