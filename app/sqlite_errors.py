"""What an error of SQLite means, and what fixes it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from app.disks import BROKEN, Obstacle, obstacle

_PRIMARY = 0xFF  # the part of an extended code that names the kind of error
_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}
DAMAGED = Obstacle(
    "is damaged, or is no SQLite database",
    "stop every process that uses it, move it away together with its -wal and -shm, and put a backup in its"
    " place; without one `payoff rebuild` finds the models again, but aliases, jobs, keys and the audit log are"
    " lost",
)
_HELD = Obstacle(
    "is held by another process",
    "stop what holds it, such as another program that writes to it; folders on a network file system are not supported",
)
_BY_CODE = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_PROTOCOL: _HELD,
    sqlite3.SQLITE_NOMEM: Obstacle("needs more memory than there is", "give this process more memory"),
}


def concerns_file(error: BaseException | None) -> bool:
    """Whether the database file or its disk is at fault, rather than a statement."""
    return _kind(error) in _DISK | _BY_CODE.keys()


def explained(error: BaseException | None, file: str) -> Obstacle | None:
    """What is wrong with the database `file`, and the fix; None for the errors of a statement."""
    kind = _kind(error)
    if kind in _DISK:
        return _of_disk(kind, file)
    found = _BY_CODE.get(kind)
    return found and Obstacle(f"{file} {found.what}", found.fix)


def unwritable(file: str) -> Obstacle | None:
    """What keeps this process from writing to the database `file`, as far as can be seen without writing."""
    path = Path(file).absolute()
    found = obstacle(path.parent)
    if found is None and path.exists() and not os.access(path, os.W_OK):
        uid = os.getuid()
        found = Obstacle(f"uid {uid} may not write the file", f"let uid {uid} own the file and its folder (chown)")
    return found


def _kind(error: BaseException | None) -> int:
    """SQLite's primary code of an error, -1 for those of anything else."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & _PRIMARY


def _of_disk(kind: int, file: str) -> Obstacle:
    """A full disk, a read-only one and missing rights give several of these codes, so the disk itself is looked at."""
    found = unwritable(file)
    if found is not None:
        return Obstacle(f"{file} cannot be written: {found.what}", found.fix)
    if kind == sqlite3.SQLITE_IOERR:
        return Obstacle(f"{file} cannot be read or written: {BROKEN.what}", BROKEN.fix)
    if kind == sqlite3.SQLITE_FULL:
        return Obstacle(f"{file} found no room on its disk", "make room on that disk")
    return Obstacle(
        f"{file} cannot be opened for writing",
        f"let uid {os.getuid()} read and write the file, its -wal and -shm, and the folder that holds them",
    )
