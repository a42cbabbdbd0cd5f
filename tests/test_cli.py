"""The command line: settings that cannot be are told in one line."""

from __future__ import annotations

import os
import socket

import pytest
from payoff_client import commands

from app import __version__, cli
from app.access.caller import KEY_FORM
from tests.servers.forked import run


@pytest.mark.parametrize(
    ("command", "settings", "named"),
    [
        ("serve", {"PAYOFF_HOME": "file/home"}, "PAYOFF_HOME"),
        ("serve", {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"}, "PAYOFF_DATABASE"),
        ("worker", {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"}, "PAYOFF_DATABASE"),
        ("worker", {"PAYOFF_WORKERS": "many"}, "PAYOFF_WORKERS"),
        ("rebuild", {"PAYOFF_HOME": "file/home"}, "PAYOFF_HOME"),
    ],
)
def test_settings_that_cannot_be_are_named(command, settings, named, tmp_path):
    """With exit code 2, and no traceback."""
    (tmp_path / "file").write_text("in the way")
    folders = {"PAYOFF_MODELS": str(tmp_path / "models")}
    ended = run([command], env=os.environ | folders | settings, cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("payoff: ")
    assert ended.stderr.count("\n") == 1
    assert named in ended.stderr


def test_a_new_key_is_all_that_goes_to_standard_output(tmp_path):
    """Scripts keep it."""
    folders = {"PAYOFF_HOME": str(tmp_path / "home"), "PAYOFF_MODELS": str(tmp_path / "models")}
    ended = run(["keys", "create", "--name", "bank"], env=os.environ | folders, cwd=tmp_path)

    assert KEY_FORM.fullmatch(ended.stdout.strip().encode()), ended.stdout


@pytest.mark.parametrize("command", [["serve", "--port"], ["demo", "--port"]])
@pytest.mark.parametrize("value", ["-1", "65536", "80000", "1e3", "eight", "", "²", "9" * 5000])
def test_a_number_out_of_range_is_refused_by_the_name_of_its_option(command, value, capsys):
    """Before anything starts; the kernel would take a port modulo 65,536."""
    with pytest.raises(SystemExit) as ended:
        cli.main([command[0], f"{command[1]}={value}"])

    assert ended.value.code == 2
    assert f"argument {command[1]}: invalid port value" in capsys.readouterr().err


def test_a_port_in_use_is_reported_before_the_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        folders = {"PAYOFF_HOME": str(tmp_path / "home"), "PAYOFF_MODELS": str(tmp_path / "models")}
        arguments = ["serve", "--port", str(port)]
        ended = run(arguments, env=os.environ | folders, cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (
        1,
        f"payoff: cannot listen at 127.0.0.1:{port} (Address already in use); choose another with --port or --host\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("main", [cli.main, commands.main])
def test_the_version_is_printed(main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f" {__version__}\n")
