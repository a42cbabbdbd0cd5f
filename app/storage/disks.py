"""Whether a folder of this machine, or a database file of SQLite in it, can be written."""

import os
from pathlib import Path
from typing import Final

LEAST_BYTES: Final = 2**20  # with less room on its disk a folder counts as full


def obstacle(folder: Path) -> str:
    """Why this process cannot write into a folder, or make it, as a clause without names of
    folders; empty where it can. Nothing is written.
    """
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        disk = os.statvfs(existing)
    except OSError as error:
        return f"its disk cannot be read ({error.strerror})"
    if not existing.is_dir():
        return "a file is where the folder should be"
    if disk.f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"uid {os.getuid()} may not write there"
    free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    is_full = free < LEAST_BYTES or (disk.f_files and not disk.f_ffree)
    return "there is no room on its disk" if is_full else ""


def unwritable(file: str) -> str:
    """Why this process cannot write to the database `file`, as far as can be seen without writing;
    empty where it can.
    """
    path = Path(file).absolute()
    reason = obstacle(path.parent)
    if not reason and path.exists() and not os.access(path, os.W_OK):
        return f"uid {os.getuid()} may not write the file"
    return reason
