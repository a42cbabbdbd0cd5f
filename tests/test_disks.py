"""Why a folder or a database file cannot be written, told before and after trying, without writing."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from app import disks
from app.disks import FULL, obstacle, of_error


def test_a_disk_without_inodes_is_full(disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(disk)], check=True)
    for number in range(2):
        (disk / f"{number}").touch()

    assert obstacle(disk) == FULL


@pytest.mark.parametrize("number", [*disks._BY_NUMBER, errno.EACCES, errno.EPERM])
def test_every_error_of_the_system_that_has_a_fix_is_known(number):
    found = of_error(OSError(number, os.strerror(number)))

    assert found.what
    assert found.fix
    assert of_error(OSError(errno.ENOENT, "no such file")) is None
    assert of_error(ValueError()) is None
    assert of_error(None) is None


def test_what_cannot_even_be_looked_at(monkeypatch):
    def broken(_path: Path) -> os.statvfs_result:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "statvfs", broken)

    assert obstacle(Path("/")) == disks.BROKEN
