"""What the doctor finds: in a healthy service nothing, and all else by its place and how to fix it."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from app.cli import main
from app.doctor import Level, examine
from app.doctor.examine import _all
from app.doctor.finding import ok
from app.doctor.machine import check_settings
from app.settings import Settings, misspelt
from app.stores import make_ports, make_tables, open_ports
from tests.conftest import settings_for
from tests.outcomes.records import decided
from tests.registry.making import publish

ENVIRONMENT = {"PATH": "/bin", "PAYOFF_HOME": "there"}


@pytest.fixture
def settings(tmp_path):
    return settings_for(tmp_path, admin_key="a", signing_key="s", job_memory_mb=64, cache_mb=1)


@pytest.fixture
def ports(settings):
    """The stores of a service that was started, has a worker and one model."""
    ports = make_ports(settings)
    publish(ports.registry)
    ports.registry.set_alias("triage", "live", 1, "test")
    ports.queue.check_in("worker")
    yield ports
    ports.database.close()


def amiss(settings: Settings, **options) -> dict[str, list[str]]:
    """What is not in order, by check."""
    found: dict[str, list[str]] = {}
    for finding in examine(settings, ENVIRONMENT, **options):
        if finding.level is not Level.OK:
            assert finding.fix, finding
            found.setdefault(finding.check, []).append(f"{finding.level}: {finding.text}")
    return found


@pytest.mark.parametrize("deep", [False, True])
def test_a_healthy_service_has_nothing(ports, settings, deep):
    assert amiss(settings, deep=deep) == {}


def test_current_versions_without_room_in_the_cache_are_named(ports, settings):
    tight = settings.model_copy(update={"cache_mb": 0})

    (line,) = amiss(tight)["index"]

    assert line == "warning: PAYOFF_CACHE_MB has no room for triage:1: loaded when asked for"


def test_nothing_is_changed_but_the_folders_that_a_start_would_make(tmp_path):
    settings = settings_for(tmp_path, admin_key="a", signing_key="s", job_memory_mb=64)

    assert list(amiss(settings)) == []
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert {name for name in files if "payoff.db" not in name} == {
        "home",
        "home/datasets",
        "home/decisions",
        "models",
    }
    with open_ports(settings).database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0


def test_a_misspelt_setting_is_told_with_the_nearest_name(settings):
    found = list(
        check_settings(settings, {"PAYOFF_ADMINKEY": "x", "PAYOFF_MODELS": "m", "PAYOFF_ZZZ": "1", "HOME": "/"})
    )

    assert [(finding.text.split()[0], finding.fix) for finding in found] == [
        ("PAYOFF_ADMINKEY", "did you mean PAYOFF_ADMIN_KEY?"),
        ("PAYOFF_ZZZ", "docs/reference/settings.md lists all settings"),
    ]
    assert misspelt(["PAYOFF_LOGLEVEL", "PAYOFF_LOG_LEVEL", "PATH"]) == {"PAYOFF_LOGLEVEL": "PAYOFF_LOG_LEVEL"}


def test_empty_keys_are_none_and_said_to_be_missing():
    """They open the service, and have models loaded unsigned: the doctor must not take them for keys."""
    settings = Settings(admin_key="", signing_key="")

    assert (settings.admin_key, settings.signing_key) == (None, None)
    said = " ".join(finding.text for finding in check_settings(settings, ENVIRONMENT))
    assert "PAYOFF_ADMIN_KEY is not set" in said
    assert "PAYOFF_SIGNING_KEY is not set" in said


def test_a_key_of_blanks_is_refused_and_a_line_end_after_one_is_none_of_it():
    for name in ("admin_key", "signing_key"):
        with pytest.raises(ValidationError, match="contains only blanks"):
            Settings(**{name: " \n"})

    key = Settings(admin_key="k3y\n").admin_key
    assert key is not None
    assert key.get_secret_value() == "k3y"


def test_a_home_that_is_no_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    found = amiss(settings_for(tmp_path, home=tmp_path / "file" / "home", admin_key="a", signing_key="s"))

    assert str(tmp_path / "file" / "home") in found["home"][0]
    assert found["home"][0].startswith("wrong")


def test_a_damaged_card_and_a_missing_folder_are_wrong(ports, settings):
    publish(ports.registry)
    folder = Path(settings.models) / "triage"
    (folder / "1" / "card.json").write_bytes(b"{}")
    (folder / "2").rename(folder / "elsewhere")

    found = amiss(settings)["index"]

    assert sorted(found) == [
        "wrong: the folder triage/2 is missing",
        "wrong: triage/1/card.json is not the card that was published",
    ]


def test_a_damaged_model_is_found_by_the_deep_look_alone(ports, settings):
    model = Path(settings.models) / "triage" / "1" / "model.joblib"
    model.write_bytes(model.read_bytes()[:-1] + b"!")

    assert amiss(settings) == {}
    (line,) = amiss(settings, deep=True)["index"]
    assert line.startswith("wrong: triage/1/model.joblib does not have the digest in its card")


def test_another_signing_key_than_the_one_that_signed_is_wrong(ports, settings, tmp_path):
    other = settings_for(tmp_path, admin_key="a", signing_key="another", job_memory_mb=64)

    (line,) = amiss(other)["index"]

    assert line == "wrong: the signature of triage/1 was not made with this service's key: it is not loaded"


def test_left_over_folders_and_a_mirror_that_differs_are_told(ports, settings):
    folder = Path(settings.models) / "triage"
    (folder / "7").mkdir()
    mirror = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(mirror | {"aliases": {}}))

    left, differs = amiss(settings)["index"]

    assert left.endswith("triage/7")
    assert differs == "warning: the index file of triage differs from the index: a change failed half-way"


def test_models_of_another_scikit_learn_are_wrong_unless_allowed(ports, settings, tmp_path):
    publish(ports.registry, "older", packages={"scikit-learn": "0.1"})
    allowing = settings_for(tmp_path, admin_key="a", signing_key="s", job_memory_mb=64, allow_version_skew=True)

    (refused,), (allowed,) = amiss(settings)["index"], amiss(allowing)["index"]

    assert refused.startswith("wrong: 1 versions were trained with scikit-learn 0.1")
    assert allowed.startswith("warning: 1 versions")


def test_jobs_that_nobody_does_are_wrong(ports, settings):
    ports.queue.submit("train", {})
    ports.queue.check_out("worker")

    (line,) = amiss(settings)["jobs"]

    assert line.startswith("wrong: 1 queued, 0 running, 0 workers alive; the oldest has waited ")


def test_a_database_of_a_newer_program_is_wrong_and_of_an_older_one_a_warning(ports, settings):
    for revision, level in (("9999", "wrong"), ("0001", "warning")):
        with ports.database.writing() as connection:
            connection.execute(text(f"UPDATE payoff_revision SET version_num = '{revision}'"))

        (line,) = amiss(settings)["database"]
        assert line.startswith(level)
        assert revision in line


def test_a_clock_that_is_off_is_told(ports, settings, monkeypatch):
    monkeypatch.setattr("app.doctor.stores.time", lambda: 0.0)

    (line,) = amiss(settings)["database"]

    assert "s ahead of this machine's" in line


def test_days_that_wait_long_to_be_sealed_are_named(settings):
    database = make_tables(settings).database
    decided(database, 2, at=[20_000 * 86_400, time.time()])

    (line,) = amiss(settings)["decisions"]

    assert line.startswith("warning: 1 day of")
    assert "loan of 2024-10-04" in line


def test_no_password_is_told(tmp_path, settings):
    """A server that is not there, named with a password."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://me:h1dden@127.0.0.1:{probe.getsockname()[1]}/db"
        findings = examine(settings.model_copy(update={"database": url}), ENVIRONMENT)

    told = json.dumps([finding.as_dict() for finding in findings])
    assert "me:***@127.0.0.1" in told
    assert "h1dden" not in told
    levels = {finding.check: finding.level for finding in findings}
    assert (levels["database"], levels["jobs"], levels["datasets"]) == (Level.WRONG, Level.WRONG, Level.OK)


def test_a_check_that_hangs_or_breaks_keeps_no_other_from_being_told():
    freed = threading.Event()

    def hang():
        freed.wait(60)
        return []

    def crash():
        raise RuntimeError("no")

    try:
        found = _all({"hangs": hang, "breaks": crash, "works": lambda: [ok("works", "yes")]}, 0.2)
    finally:
        freed.set()

    assert [(line.check, line.level) for line in found] == [
        ("hangs", Level.WRONG),
        ("breaks", Level.WRONG),
        ("works", Level.OK),
    ]


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_command_prints_findings_and_its_exit_code_says_whether_one_is_wrong(
    broken, code, tmp_path, monkeypatch, capsys
):
    if broken:
        (tmp_path / "models").write_text("in the way")
    monkeypatch.setenv("PAYOFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PAYOFF_MODELS", str(tmp_path / "models"))
    try:
        assert main(["doctor", "--json"]) == code
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert main(["doctor"]) == code
        lines = capsys.readouterr().out.splitlines()
    finally:
        logging.disable(logging.NOTSET)  # the command silences the logs, and its process ends

    assert {"check", "level", "text", "fix"} == findings[0].keys()
    assert any(finding["level"] == "wrong" for finding in findings) is broken
    assert len([line for line in lines if not line.startswith(" ")]) == len(findings)


def test_settings_that_cannot_be_are_findings_too(monkeypatch, capsys):
    """All of them, also as a document, for whoever reads that."""
    for name, value in {"WORKERS": "many", "LOG_LEVEL": "loud", "ADMINKEY": "s3cret"}.items():
        monkeypatch.setenv(f"PAYOFF_{name}", value)
    try:
        assert main(["doctor", "--json"]) == 1
    finally:
        logging.disable(logging.NOTSET)

    out = capsys.readouterr().out
    findings = json.loads(out)["findings"]
    assert {(line["level"], line["text"].split(":")[0].split()[0]) for line in findings} == {
        ("wrong", "PAYOFF_WORKERS"),
        ("wrong", "PAYOFF_LOG_LEVEL"),
        ("warning", "PAYOFF_ADMINKEY"),
    }
    assert "s3cret" not in out
