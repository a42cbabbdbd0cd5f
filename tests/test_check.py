"""What `payoff check` finds: in a healthy service nothing, and all else by its place and how to fix it."""

import logging
import re
import socket
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from app.cli import main
from app.commands.check import check
from app.opening import open_stores, prepare_stores
from app.settings import Settings
from tests.conftest import settings_for
from tests.registry.making import publish

ENVIRONMENT = {"PATH": "/bin", "PAYOFF_HOME": "there"}


@pytest.fixture
def settings(tmp_path):
    return settings_for(tmp_path, admin_key="a")


@pytest.fixture
def stores(settings):
    """The stores of a service that was started and has one model."""
    stores = prepare_stores(settings)
    publish(stores.registry)
    yield stores
    stores.database.close()


def amiss(settings: Settings, **options) -> dict[str, list[str]]:
    """What is not in order, by check."""
    found: dict[str, list[str]] = {}
    for finding in check(settings, ENVIRONMENT, **options):
        if finding.level != "ok":
            assert finding.fix, finding
            found.setdefault(finding.check, []).append(
                f"{finding.level}: {finding.text}"
            )
    return found


@pytest.mark.parametrize("deep", [False, True])
def test_a_healthy_service_has_nothing(stores, settings, deep):
    assert amiss(settings, deep=deep) == {}


def test_nothing_is_changed_but_the_folders_that_a_start_would_make(tmp_path, settings):
    assert amiss(settings) == {}
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert {name for name in files if "payoff.db" not in name} == {
        "home",
        "home/datasets",
        "home/decisions",
        "models",
    }
    with open_stores(settings).database.reading() as connection:
        assert (
            connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0
        )


def test_an_empty_key_is_none_and_said_to_be_missing(tmp_path, monkeypatch):
    """It opens the service: it must not be taken for a key."""
    monkeypatch.setenv("PAYOFF_ADMIN_KEY", "")
    settings = settings_for(tmp_path)

    assert settings.admin_key is None
    assert "all permissions" in " ".join(amiss(settings)["keys"])


def test_a_key_of_blanks_is_refused_and_a_line_end_after_one_is_none_of_it():
    with pytest.raises(ValidationError, match="at least 1"):
        Settings(admin_key=" \n")

    key = Settings(admin_key="k3y\n").admin_key
    assert key is not None
    assert key.get_secret_value() == "k3y"


def test_versions_that_cannot_be_loaded_are_named(stores, settings):
    """The deep look alone reads what is beside the cards."""
    model = Path(settings.models) / "triage" / "1" / "model.joblib"
    model.write_bytes(model.read_bytes()[:-1] + b"!")
    assert amiss(settings) == {}
    (line,) = amiss(settings, deep=True)["models"]
    assert line.startswith(
        "wrong: triage/1/model.joblib does not have the digest in its card"
    )
    publish(stores.registry)
    publish(stores.registry, "older", packages={"scikit-learn": "0.1"})
    folder = Path(settings.models) / "triage"
    (folder / "1" / "card.json").write_bytes(b"{}")
    (folder / "2").rename(folder / "elsewhere")

    found = sorted(amiss(settings)["models"])

    assert found[0].startswith("wrong: older/1 was made with scikit-learn 0.1")
    assert found[1:] == [
        "wrong: triage/1/card.json is not the card that was published",
        "wrong: triage/2/card.json is missing",
    ]


def test_a_database_of_another_program_is_wrong(stores, settings):
    with stores.database.writing() as connection:
        connection.execute(text("UPDATE payoff_revision SET version_num = '9999'"))

    (line,) = amiss(settings)["database"]
    assert line.startswith("wrong")
    assert "9999" in line


def test_no_password_is_told(settings):
    """A server that is not there, named with a password."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://me:h1dden@127.0.0.1:{probe.getsockname()[1]}/db"
        findings = check(settings.model_copy(update={"database": url}), ENVIRONMENT)

    told = " ".join(finding.text for finding in findings)
    assert "me:***@127.0.0.1" in told
    assert "h1dden" not in told
    wrong = {finding.check for finding in findings if finding.level == "wrong"}
    assert wrong == {"database", "keys", "models"}


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_exit_code_says_whether_something_is_wrong(
    broken, code, tmp_path, monkeypatch, capsys
):
    if broken:
        (tmp_path / "models").write_text("in the way")
    monkeypatch.setenv("PAYOFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PAYOFF_MODELS", str(tmp_path / "models"))
    try:
        assert main(["check"]) == code
        lines = capsys.readouterr().out.splitlines()
    finally:
        logging.disable(
            logging.NOTSET
        )  # the command silences the logs, and its process ends

    assert any(line.startswith("wrong ") for line in lines) is broken
    assert all(
        line.startswith(("ok ", "warning ", "wrong ", " " * 19 + "fix: "))
        for line in lines
    )


def test_settings_that_cannot_be_are_findings_too(monkeypatch, capsys):
    """All of them."""
    monkeypatch.delenv("PAYOFF_TESTS", raising=False)  # is no setting
    for name, value in {
        "WORKERS": "many",
        "LOG_LEVEL": "loud",
        "ADMINKEY": "s3cret",
    }.items():
        monkeypatch.setenv(f"PAYOFF_{name}", value)
    try:
        assert main(["check"]) == 1
    finally:
        logging.disable(logging.NOTSET)

    out = capsys.readouterr().out
    found = re.findall(r"^(\w+) .*?(PAYOFF_\w+)", out, re.MULTILINE)
    assert {*found} == {
        ("wrong", "PAYOFF_WORKERS"),
        ("wrong", "PAYOFF_LOG_LEVEL"),
        ("warning", "PAYOFF_ADMINKEY"),
    }
    assert "s3cret" not in out


def test_keys_are_counted_and_their_absence_is_a_warning(stores, settings):
    """Without the admin key, which is one of several ways to close the service."""
    settings = settings.model_copy(update={"admin_key": None})
    assert "all permissions" in " ".join(amiss(settings)["keys"])
    for i in range(6):
        stores.keys.create(f"client-{i}", ["predict"])

    found = {finding.check: finding.text for finding in check(settings, ENVIRONMENT)}

    assert found["keys"] == "6 keys in the table"
    assert "keys" not in amiss(settings)
