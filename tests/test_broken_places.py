"""What every command prints where the database file or the disk cannot be used: one line that names it."""

import logging
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvicorn

from app.cli import main
from app.jobs.worker import Worker
from app.opening import prepare_stores
from app.storage.disks import obstacle
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.registry.making import publish
from tests.servers.program import run

COMMANDS = {
    "serve": ["serve"],
    "worker": ["worker"],
    "check": ["check"],
    "keys": ["keys", "create", "--name", "bank"],
}
WITHOUT_RIGHTS = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"]
FULL = r"no room on its disk|No space left on device"
READ_ONLY = r"mounted read-only|Read-only file system"
NO_RIGHTS = rf"uid {os.getuid()} may not write|Permission denied"
DAMAGED = "file is not a database|is malformed|is damaged:"


def fill(disk: Path) -> None:
    """Write until nothing more can be written."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (2**16, 1):
            try:
                while True:
                    filler.write(b"\0" * size)
            except OSError:
                continue


def damage(disk: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the file of the database, without what SQLite has beside it."""
    file = disk / "home" / "payoff.db"
    file.write_bytes(change(file.read_bytes()))
    for beside in ("payoff.db-wal", "payoff.db-shm"):
        (disk / "home" / beside).unlink(missing_ok=True)


HARMS = {  # what is done, what is then said, and which commands cannot go on
    "text": (
        lambda disk: damage(disk, lambda _: b"this is no database" * 100),
        DAMAGED,
        {"serve"},
    ),
    "a page of zeros": (
        lambda disk: damage(disk, lambda all_: all_[:4096] + bytes(4096) + all_[8192:]),
        DAMAGED,
        set(),
    ),
    "a full disk": (fill, FULL, set()),
    "mounted read-only": (
        lambda disk: subprocess.run(
            ["mount", "-o", "remount,ro", str(disk)], check=True
        ),
        READ_ONLY,
        {"serve", "worker", "keys"},
    ),
}


@pytest.fixture
def installation(disk, monkeypatch):
    """The folder of a service on a small disk of its own, which was started once and has a model."""
    where = {"PAYOFF_HOME": disk / "home", "PAYOFF_MODELS": disk / "models"}
    for name, value in where.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(disk.parent)
    monkeypatch.setattr(uvicorn, "run", lambda *_what, **_how: None)
    monkeypatch.setattr(Worker, "start", lambda *_: None)
    monkeypatch.setattr("app.commands.worker.Event", Mock)
    monkeypatch.setattr(
        "app.monitoring.logs.configure", lambda *_: None
    )  # its handler would outlive what pytest captures
    stores = prepare_stores(settings_for(disk))
    publish(stores.registry)
    stores.database.close()
    return disk


def ran(command, capsys):
    """The exit code of a command of this process, and what it printed."""
    try:
        code = main(COMMANDS[command])
    except SystemExit as end:
        code = end.code
    finally:
        logging.disable(logging.NOTSET)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def check(command, code, out, err, what, *, must_fail=False):
    """No traceback; where it failed, one line that says what is wrong."""
    assert "Traceback" not in out + err
    if command == "check":
        assert re.search(rf"^wrong .*({what}).*\n +fix: ", out, re.MULTILINE), out
        assert code == 1
    elif must_fail or code:
        assert code == 2, (out, err)
        (line,) = [line for line in err.splitlines() if line.startswith("payoff: ")]
        assert re.search(what, line)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("harm", HARMS)
def test_what_is_wrong_is_said_in_one_line(installation, capsys, command, harm):
    do, what, failing = HARMS[harm]
    do(installation)

    code, out, err = ran(command, capsys)

    check(command, code, out, err, what, must_fail=command in failing)
    if command == "serve" and harm == "text":
        assert str(installation / "home" / "payoff.db") in err


@pytest.mark.parametrize("what", ["the folder", "the file"])
@pytest.mark.parametrize("command", ["check", "keys"])
def test_missing_rights(installation, command, what):
    """In a process without the capability that lets root write everywhere."""
    for path in [installation / "home", *(installation / "home").rglob("*")]:
        if what == "the folder" or path.is_file():
            path.chmod(0o555 if path.is_dir() else 0o444)

    ended = run(
        COMMANDS[command], env=os.environ, cwd=installation.parent, under=WITHOUT_RIGHTS
    )

    check(
        command,
        ended.returncode,
        ended.stdout,
        ended.stderr,
        NO_RIGHTS,
        must_fail=command == "keys",
    )


def test_a_full_disk_makes_the_service_unready_and_predictions_go_on(disk):
    """It becomes ready again with the room. A balancer asks another replica, and this one where there is no other."""
    with serving(settings_for(disk)) as client:
        order = {
            "model": "ward",
            "learner": {"kind": "logistic"},
            "data": two_class_rows(),
        }
        trained(client, order)
        question = {
            "model": "ward",
            "instances": [[50, 70, "mild"]],
            "rule": "most_probable",
        }
        assert client.get("/health/ready").status_code == 200
        fill(disk)

        waiting = client.get("/health/ready")

        assert waiting.status_code == 503
        for what in ("the database", "models", "data sets"):
            assert (
                f"{what} cannot be written: there is no room on its disk"
                in waiting.json()["detail"]
            )
        assert str(disk) not in waiting.text
        assert client.post("/predict", json=question).status_code == 200
        assert client.get("/health/live").status_code == 200
        (disk / "filler").unlink()
        assert client.get("/health/ready").status_code == 200


def test_a_disk_without_inodes_is_full(disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=3", str(disk)], check=True)
    for number in range(2):
        (disk / f"{number}").touch()

    assert obstacle(disk) == "there is no room on its disk"
