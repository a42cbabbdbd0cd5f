"""Why a folder or a database file cannot be written, told before and after trying, without writing."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

from app.disks import obstacle


def test_a_disk_without_inodes_is_full(disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(disk)], check=True)
    for number in range(2):
        (disk / f"{number}").touch()

    assert obstacle(disk) == "there is no room on its disk"


def test_what_cannot_even_be_looked_at(monkeypatch):
    def broken(_path: Path) -> os.statvfs_result:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "statvfs", broken)

    assert obstacle(Path("/")) == "its disk cannot be read (input/output error)"
