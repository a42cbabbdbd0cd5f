"""The command line: settings that cannot be are told in one line."""

import json
import os
import socket
import subprocess
import sys

import pytest
from payoff_client import commands

from app import __version__, cli
from app.access.caller import KEY_FORM
from app.opening import prepare_stores
from tests.conftest import csv_of, free_port, settings_for, two_class_rows
from tests.registry.making import publish
from tests.servers.program import run


@pytest.mark.parametrize(
    ("command", "settings", "named"),
    [
        ("serve", {"PAYOFF_HOME": "file/home"}, "PAYOFF_HOME"),
        (
            "serve",
            {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"},
            "PAYOFF_DATABASE",
        ),
        (
            "worker",
            {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"},
            "PAYOFF_DATABASE",
        ),
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


@pytest.mark.parametrize("command", ["serve", "rebuild"])
def test_a_bucket_that_does_not_exist_is_said_in_one_line(bucket, tmp_path, command):
    environment = {
        "PAYOFF_HOME": str(tmp_path),
        "PAYOFF_MODELS": f"{bucket}-not/models",
    }
    ended = run([command], env=os.environ | environment, cwd=tmp_path)

    assert ended.returncode == 2
    assert (
        ended.stderr.splitlines()[-1]
        == "payoff: the store of PAYOFF_MODELS cannot be used (NoSuchBucket)"
    )
    assert "Traceback" not in ended.stderr


def test_a_new_database_gets_the_models_that_have_folders(tmp_path):
    settings = settings_for(tmp_path)
    stores = prepare_stores(settings)
    publish(stores.registry)
    stores.database.close()
    (tmp_path / "home" / "payoff.db").unlink()
    environment = {"PAYOFF_HOME": str(settings.home), "PAYOFF_MODELS": settings.models}

    ended = run(["rebuild"], env=os.environ | environment, cwd=tmp_path)

    assert ended.stdout.endswith("1 versions published\n"), ended.stderr
    assert prepare_stores(settings).registry.load("triage").version == 1


def test_a_new_key_is_all_that_goes_to_standard_output(tmp_path):
    """Scripts keep it; also where a service would log a warning."""
    folders = {
        "PAYOFF_HOME": str(tmp_path / "home"),
        "PAYOFF_MODELS": str(tmp_path / "models"),
        "PAYOFF_ODD": "1",
    }
    ended = run(
        ["keys", "create", "--name", "bank"], env=os.environ | folders, cwd=tmp_path
    )

    assert KEY_FORM.fullmatch(ended.stdout.strip().encode()), ended.stdout


def test_a_port_in_use_ends_the_service(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        folders = {
            "PAYOFF_HOME": str(tmp_path / "home"),
            "PAYOFF_MODELS": str(tmp_path / "models"),
        }
        ended = run(
            ["serve", "--port", str(port)], env=os.environ | folders, cwd=tmp_path
        )

    assert ended.returncode == 3  # uvicorn's
    assert "address already in use" in ended.stdout


@pytest.mark.parametrize("main", [cli.main, commands.main])
def test_the_version_is_printed(main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f" {__version__}\n")


def test_serve_tells_its_address_in_one_line_and_nothing_of_migrations(tmp_path):
    port = free_port()
    environment = {
        "PAYOFF_HOME": str(tmp_path),
        "PAYOFF_MODELS": str(tmp_path / "models"),
    }
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port)]
    server = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stderr.readline()
    finally:
        server.terminate()
        log, rest = server.communicate(timeout=60)

    assert f"http://127.0.0.1:{port}" in line
    assert rest == ""
    assert not {"plugin", "upgrade", "DDL"} & set(log.split()), log


def test_payoff_alone_says_what_people_want_first(capsys):
    assert cli.main([]) == 0
    assert "payoff try table.csv" in capsys.readouterr().out


def test_commands_of_the_client_are_commands_of_payoff(service, capsys):
    assert cli.main(["models", "--json", "--url", str(service.base_url)]) == 0
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    printed = capsys.readouterr()
    assert printed.out.startswith("[")
    for name, (text, *_) in commands.COMMANDS.items():
        assert name in printed.out
        assert text in printed.out


@pytest.mark.slow
def test_a_table_is_tried_with_its_last_column_as_the_label(tmp_path):
    data = two_class_rows(80)
    (tmp_path / "Ward 7.csv").write_text(csv_of(data))
    matrix = {"ill": {"treat": 5, "wait": -10}, "healthy": {"treat": -1, "wait": 0}}
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    port = free_port()
    command = ["try", "Ward 7.csv", "--benefits", "matrix.json", "--exit"]

    ended = run([*command, "--port", str(port)], cwd=tmp_path, env=os.environ)

    assert ended.returncode == 0, ended.stderr
    assert "columns: age, pulse, pain, label" in ended.stdout
    assert f"http://127.0.0.1:{port}/#/lab/ward-7" in ended.stdout
    assert "saved as tried:1" in ended.stderr


def test_a_table_that_is_not_there_is_said_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"none\.csv"):
        cli.main(["try", str(tmp_path / "none.csv")])
