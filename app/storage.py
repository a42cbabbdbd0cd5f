"""Folders that exist whole or not at all, under any fsspec URL.

On a local disk a folder is written beside its place, flushed and renamed into it. On object stores, which have no
rename, the file named `seal` is written last and removed first: a folder without its seal does not exist.

A path is steps joined by `/`. No step may be empty or begin with a dot, so no name, wherever it comes from, leads out
of the root: such a path is answered with NotFound.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

import fsspec

from app.errors import Conflict, NotFound

_HIDDEN = "."  # names that begin so are work in progress
_LEFTOVERS = f"{_HIDDEN}*." + "[0-9a-f]" * 32  # what _beside names, as a pattern
_ABANDONED_SECONDS = 3600.0  # no folder takes an hour to write


class Storage:
    """Sealed folders of files below one URL (`models`, `/srv/models`, `memory://models`, …)."""

    def __init__(self, url: str, seal: str) -> None:
        self.url = url
        self.seal = seal
        # a listing remembered from before another process wrote would hide what is there
        self._fs, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        self._local = "file" in _protocols(self._fs)
        self._fs.makedirs(self._root, exist_ok=True)

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""
        if self.seal not in files:
            raise ValueError(f"a folder needs its seal {self.seal!r}")
        if self.exists(folder):
            raise Conflict(f"{folder} exists already")
        if self._local:
            self._publish_by_rename(Path(self._path(folder)), files)
            return
        for name in sorted(files, key=lambda name: name == self.seal):
            self._fs.pipe_file(self._path(folder, name), files[name])

    def exists(self, folder: str) -> bool:
        return bool(self._fs.isfile(self._path(folder, self.seal)))

    def read(self, folder: str, name: str) -> bytes:
        """The bytes of one file; NotFound where it, or its folder's seal, is absent."""
        self._need_seal(folder, name)
        return self.read_alone(f"{folder}/{name}")

    def open(self, folder: str, name: str) -> BinaryIO:
        """One file, seekable, to be read piece by piece and closed; NotFound as in `read`."""
        self._need_seal(folder, name)
        try:
            return cast(BinaryIO, self._fs.open(self._path(folder, name), "rb"))
        except FileNotFoundError as absent:
            raise NotFound(f"there is no {folder}/{name}") from absent

    def size(self, folder: str, name: str) -> int:
        """Bytes of one file; NotFound as in `read`."""
        self._need_seal(folder, name)
        try:
            return int(self._fs.size(self._path(folder, name)))
        except FileNotFoundError as absent:
            raise NotFound(f"there is no {folder}/{name}") from absent

    def folders(self, under: str = "") -> list[str]:
        """Names directly below `under`, sealed or not, sorted."""
        try:
            entries = self._fs.ls(self._path(under), detail=True, refresh=True)
        except FileNotFoundError:
            return []
        names = (entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory")
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def read_alone(self, path: str) -> bytes:
        """The bytes of a file that `write` put there; NotFound where it is absent."""
        try:
            return bytes(self._fs.cat_file(self._path(path)))
        except FileNotFoundError as absent:
            raise NotFound(f"there is no {path}") from absent

    def write(self, path: str, content: bytes) -> None:
        """Put one file in place of whatever was there, atomically."""
        if not self._local:
            self._fs.pipe_file(self._path(path), content)
            return
        target = Path(self._path(path))
        self._make_parents(target)
        beside = _beside(target)
        try:
            _write_flushed(beside, content)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        _flush_directory(target.parent)

    def local_path(self, folder: str, name: str) -> Path | None:
        """Where the file lies on this machine's disk, or None for a remote store."""
        return Path(self._path(folder, name)) if self._local else None

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is absent."""
        path = self._path(folder)
        if self._local:
            trash = _beside(Path(path))
            try:
                Path(path).rename(trash)
            except FileNotFoundError:
                return
            _flush_directory(trash.parent)
            shutil.rmtree(trash, ignore_errors=True)
            return
        if self.exists(folder):
            self._fs.rm_file(self._path(folder, self.seal))
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)

    def sweep(self, older_than_seconds: float = _ABANDONED_SECONDS) -> int:
        """Remove what killed processes left half-written or half-removed on a local disk; how many there were."""
        if not self._local:
            return 0
        root, eldest = Path(self._root), time.time() - older_than_seconds
        swept = 0
        for leftover in [*root.glob(_LEFTOVERS), *root.glob(f"*/{_LEFTOVERS}")]:
            try:
                if leftover.stat().st_mtime > eldest:
                    continue
            except FileNotFoundError:
                continue  # its owner was alive and has just finished
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
            swept += 1
        return swept

    def _publish_by_rename(self, target: Path, files: Mapping[str, bytes]) -> None:
        self._make_parents(target)
        beside = _beside(target)
        beside.mkdir()
        try:
            for name, content in files.items():
                _write_flushed(beside / name, content)
            _flush_directory(beside)
            beside.rename(target)
        except OSError as error:
            if target.exists():
                raise Conflict(f"{target.name} exists already") from error
            raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        _flush_directory(target.parent)

    def _make_parents(self, target: Path) -> None:
        """Make the folders above `target`, and flush the entries of those that are new."""
        new = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in new:
            _flush_directory(folder.parent)

    def _need_seal(self, folder: str, name: str) -> None:
        if name != self.seal and not self.exists(folder):
            raise NotFound(f"there is no {folder}")

    def _path(self, *parts: str) -> str:
        steps = [step for part in parts if part for step in part.split("/")]
        if any(not step or step.startswith(_HIDDEN) or "\0" in step for step in steps):
            raise NotFound(f"there is no {'/'.join(steps)!r}")
        return "/".join([self._root, *steps])


def _protocols(fs: fsspec.AbstractFileSystem) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _beside(path: Path) -> Path:
    """A hidden name of its own in the same folder: renaming between the two is atomic."""
    return path.with_name(f"{_HIDDEN}{path.name}.{uuid.uuid4().hex}")


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
