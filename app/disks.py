"""Why a folder of this machine, or a database file of SQLite in it, cannot be written, and what fixes it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEAST_BYTES: Final = 2**20  # with less room than this on its disk a folder counts as full


@dataclass(frozen=True)
class Obstacle:
    """What keeps a process from writing, as a clause without names of folders, and what fixes it."""

    what: str
    fix: str


FULL: Final = Obstacle("there is no room on its disk", "make room on that disk, or on the quota of this user")
READ_ONLY: Final = Obstacle("its disk is mounted read-only", "mount the disk for writing")
BROKEN: Final = Obstacle("its disk reports errors", "look into the log of the kernel (dmesg), and use a sound disk")
NO_FOLDER: Final = Obstacle("a file is where the folder should be", "move that file away, or name another folder")

_BY_NUMBER: Mapping[int, Obstacle] = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EIO: BROKEN,
    errno.ESTALE: BROKEN,
    errno.ENOTDIR: NO_FOLDER,
    errno.EEXIST: NO_FOLDER,
}
DAMAGED: Final = Obstacle(
    "it is damaged, or is no SQLite database",
    "stop every process that uses it, move it away together with its -wal and -shm, and put a backup in its"
    " place; without one `payoff rebuild` finds the models again, but aliases, jobs, keys and the audit log are"
    " lost",
)
_PRIMARY = 0xFF  # the part of an extended code of SQLite that names the kind of error
_OF_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _forbidden() -> Obstacle:
    uid = os.getuid()
    return Obstacle(f"uid {uid} may not write there", f"let uid {uid} own the folder with all in it (chown)")


def of_error(error: BaseException | None) -> Obstacle | None:
    """The obstacle that an error of the operating system reports; None where it reports another thing."""
    number = error.errno if isinstance(error, OSError) else None
    if number in {errno.EACCES, errno.EPERM}:
        return _forbidden()
    return _BY_NUMBER.get(number) if number is not None else None


def obstacle(folder: Path) -> Obstacle | None:
    """What keeps this process from writing into a folder, or from making it; looks, and writes nothing."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            return NO_FOLDER
        disk = os.statvfs(there)
    except OSError as error:
        return of_error(error)
    if disk.f_flag & os.ST_RDONLY:
        return READ_ONLY
    if not os.access(there, os.W_OK | os.X_OK):
        return _forbidden()
    free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    return FULL if free < LEAST_BYTES or (disk.f_files and not disk.f_ffree) else None


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite cannot read its file as a database."""
    return getattr(error, "sqlite_errorcode", -1) & _PRIMARY in _OF_DAMAGE


def unwritable(file: str) -> Obstacle | None:
    """What keeps this process from writing to the database `file`, as far as can be seen without writing."""
    path = Path(file).absolute()
    found = obstacle(path.parent)
    if found is None and path.exists() and not os.access(path, os.W_OK):
        uid = os.getuid()
        found = Obstacle(f"uid {uid} may not write the file", f"let uid {uid} own the file and its folder (chown)")
    return found
