"""Why a folder or a database file cannot be written, told before and after trying, without writing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import disks
from app.database import Database, DatabaseAway
from app.disks import FULL, NO_FOLDER, READ_ONLY, obstacle, of_error
from tests.test_broken_places import fill

NO_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def test_a_folder_that_can_be_written_or_made_has_none(tmp_path):
    assert obstacle(tmp_path) is None
    assert obstacle(tmp_path / "not" / "there" / "yet") is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_a_read_only_one_and_a_file_in_the_way(disk):
    (disk / "file").write_text("")
    assert obstacle(disk / "file") == obstacle(disk / "file" / "below") == NO_FOLDER
    fill(disk)
    assert obstacle(disk) == obstacle(disk / "below") == FULL
    (disk / "filler").unlink()
    assert obstacle(disk) is None
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert obstacle(disk) == READ_ONLY


def test_a_disk_without_inodes_is_full(disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(disk)], check=True)
    for number in range(2):
        (disk / f"{number}").touch()

    assert obstacle(disk) == FULL


def test_missing_rights(tmp_path):
    tmp_path.chmod(0o555)
    code = f"from pathlib import Path; from app.disks import obstacle; print(obstacle(Path({str(tmp_path)!r})).fix)"

    run = subprocess.run([*NO_RIGHTS, sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == f"let uid {os.getuid()} own the folder with all in it (chown)\n"


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


@pytest.mark.parametrize("damaged", [b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_a_database_that_cannot_be_used(tmp_path, damaged):
    """503 in the service, and one line in a command; it used to be an error of its own."""
    (tmp_path / "payoff.db").write_bytes(damaged)
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")

    assert database.problem() == "the database does not answer"
    for transaction in (database.reading, database.writing):
        with pytest.raises(DatabaseAway) as away, transaction() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        assert "put a backup in its place" in away.value.fix
        assert str(tmp_path) not in away.value.detail
    database.close()
