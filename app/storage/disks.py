"""Whether a folder of this machine, or a database file of SQLite in it, can be written."""

import os
from pathlib import Path
from typing import Final

LEAST_BYTES: Final = 2**20  # with less room than this on its disk a folder counts as full


def obstacle(folder: Path) -> str:
    """What keeps this process from writing into a folder, or from making it, as a clause without
    names of folders.

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
    """What keeps this process from writing to the database `file`, as far as can be seen without
    writing.
    """
    path = Path(file).absolute()
    found = obstacle(path.parent)
    if not found and path.exists() and not os.access(path, os.W_OK):
        return f"uid {os.getuid()} may not write the file"
    return found
