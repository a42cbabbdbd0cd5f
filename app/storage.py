"""Folders that exist whole or not at all, under any fsspec URL.

On a local disk a folder is written beside its place, flushed and renamed into it. On object stores, which have no
rename, the file named `seal` is written last and removed first: a folder without its seal does not exist.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import fsspec

from app.errors import Conflict, NotFound

_HIDDEN = "."  # names that begin so are work in progress


class Storage:
    """Sealed folders of files below one URL (`models`, `/srv/models`, `memory://models`, …)."""

    def __init__(self, url: str, seal: str) -> None:
        self.url = url
        self.seal = seal
        self._fs, self._root = fsspec.core.url_to_fs(url)
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
        try:
            return bytes(self._fs.cat_file(self._path(folder, name)))
        except FileNotFoundError as absent:
            raise NotFound(f"there is no {folder}/{name}") from absent

    def size(self, folder: str, name: str) -> int:
        return int(self._fs.size(self._path(folder, name)))

    def folders(self, under: str = "") -> list[str]:
        """Names directly below `under`, sealed or not, sorted."""
        try:
            entries = self._fs.ls(self._path(under), detail=True, refresh=True)
        except FileNotFoundError:
            return []
        names = (entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory")
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def write(self, path: str, content: bytes) -> None:
        """Put one file in place of whatever was there, atomically."""
        if not self._local:
            self._fs.pipe_file(self._path(path), content)
            return
        target = Path(self._path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f"{_HIDDEN}{target.name}.{uuid.uuid4().hex}")
        _write_flushed(beside, content)
        beside.replace(target)
        _flush_directory(target.parent)

    def local_path(self, folder: str, name: str) -> Path | None:
        """Where the file lies on this machine's disk, or None for a remote store."""
        return Path(self._path(folder, name)) if self._local else None

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it; it ceases to exist at once. Nothing happens where it is absent."""
        path = self._path(folder)
        if self._local:
            trash = Path(path).with_name(f"{_HIDDEN}trash.{uuid.uuid4().hex}")
            try:
                Path(path).rename(trash)
            except FileNotFoundError:
                return
            shutil.rmtree(trash, ignore_errors=True)
            return
        if self.exists(folder):
            self._fs.rm_file(self._path(folder, self.seal))
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)

    def _publish_by_rename(self, target: Path, files: Mapping[str, bytes]) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f"{_HIDDEN}{target.name}.{uuid.uuid4().hex}")
        beside.mkdir()
        try:
            for name, content in files.items():
                _write_flushed(beside / name, content)
            _flush_directory(beside)
            beside.rename(target)
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)
            if target.exists():
                raise Conflict(f"{target.name} exists already") from error
            raise
        _flush_directory(target.parent)

    def _path(self, *parts: str) -> str:
        return "/".join([self._root, *[part for part in parts if part]])


def _protocols(fs: fsspec.AbstractFileSystem) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


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
