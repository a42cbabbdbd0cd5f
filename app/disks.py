"""Whether a folder of this machine, or a database file of SQLite in it, can be written, and what to do where not."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

LEAST_BYTES: Final = 2**20  # with less room than this on its disk a folder counts as full

FIX: Final = f"see that its disk has room, is sound and mounted for writing, and that uid {os.getuid()} may write there"
FIX_OF_DAMAGE: Final = (
    "stop every process that uses it, move it away together with its -wal and -shm, and put a backup in its place;"
    " without one `payoff rebuild` finds the models again, but aliases, jobs, keys and the audit log are lost"
)
_PRIMARY = 0xFF  # the part of an extended code of SQLite that names the kind of error
_OF_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def obstacle(folder: Path) -> str:
    """What keeps this process from writing into a folder, or from making it, as a clause without names of folders.

    Empty where nothing does. It looks, and writes nothing.
    """
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        disk = os.statvfs(there)
    except OSError as error:
        return f"its disk cannot be read ({error.strerror})"
    if not there.is_dir():
        return "a file is where the folder should be"
    if disk.f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"uid {os.getuid()} may not write there"
    free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    is_full = free < LEAST_BYTES or (disk.f_files and not disk.f_ffree)
    return "there is no room on its disk" if is_full else ""


def unwritable(file: str) -> str:
    """What keeps this process from writing to the database `file`, as far as can be seen without writing."""
    path = Path(file).absolute()
    found = obstacle(path.parent)
    if not found and path.exists() and not os.access(path, os.W_OK):
        return f"uid {os.getuid()} may not write the file"
    return found


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite cannot read its file as a database."""
    return getattr(error, "sqlite_errorcode", -1) & _PRIMARY in _OF_DAMAGE
