"""The README tells the truth: its commands answer as printed, and its tables lack nothing."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.api.errors import STATUS
from app.learners.catalogue import KINDS
from app.settings import Settings
from tests.conftest import serving, settings_for

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = re.findall(r"```sh\n(.*?)```\n\n```json\n(.*?)```", README, re.DOTALL)
CHANGING = {"id", "created_at", "started_at", "finished_at"}  # times, and what a job is called


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(settings_for(tmp_path_factory.mktemp("readme"))) as client:
        yield client


def alike(printed: object, answered: object) -> bool:
    """Equal but for times, and for the last digits of floats."""
    if isinstance(printed, dict) and isinstance(answered, dict):
        same_names = printed.keys() == answered.keys()
        return same_names and all(name in CHANGING or alike(printed[name], answered[name]) for name in printed)
    if isinstance(printed, list) and isinstance(answered, list):
        return len(printed) == len(answered) and all(map(alike, printed, answered))
    if isinstance(printed, float) and isinstance(answered, float):
        return answered == pytest.approx(printed, rel=1e-4)
    return printed == answered


def test_the_commands_answer_as_printed(fresh, tmp_path):
    """Every curl of the README, run in order against a fresh service."""
    assert len(COMMANDS) >= 6
    for printed_command, printed in COMMANDS:
        command = printed_command.replace("http://127.0.0.1:8000", str(fresh.base_url).rstrip("/"))
        found = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)

        assert alike(json.loads(printed), json.loads(found.stdout)), f"{command}\n{found.stdout}"


def test_every_setting_is_listed_with_its_default():
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `PAYOFF_{name.upper()}` \| (.*?) \| (.*?) \|$", README, re.MULTILINE)

        assert row, name
        assert row[2] == field.description
        assert row[1] == ("" if field.default in (None, "") else f"`{field.default}`")


def test_every_status_and_every_learner_is_listed():
    for status in {*STATUS.values(), 400, 405, 408, 431}:  # the last come from the framework and from the server
        assert f"| {status} |" in README
    learners = README.partition("\n## Learners\n")[2].partition("\n## ")[0]
    for kind, entry in KINDS.items():
        row = re.search(rf"^\| `{kind}` \|.*\|(.*)\|$", learners, re.MULTILINE)

        assert row, kind
        assert re.findall(r"`(\w+)`", row[1]) == [parameter.name for parameter in entry.parameters]
