"""The command line: settings that cannot be are told in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("command", "settings", "named"),
    [
        ("serve", {"PAYOFF_HOME": "file/home"}, "PAYOFF_HOME"),
        ("serve", {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"}, "PAYOFF_DATABASE"),
        ("worker", {"PAYOFF_DATABASE": "sqlite:////nowhere/at/all/payoff.db"}, "PAYOFF_DATABASE"),
        ("worker", {"PAYOFF_WORKERS": "many"}, "PAYOFF_WORKERS"),
        ("reindex", {"PAYOFF_HOME": "file/home"}, "PAYOFF_HOME"),
    ],
)
def test_settings_that_cannot_be_are_named(command, settings, named, tmp_path):
    """With exit code 2, and no traceback."""
    (tmp_path / "file").write_text("in the way")
    line = [sys.executable, "-m", "app.cli", command]
    folders = {"PYTHONPATH": str(Path.cwd()), "PAYOFF_MODELS": str(tmp_path / "models")}
    ended = subprocess.run(
        line, cwd=tmp_path, env=os.environ | folders | settings, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("payoff: ")
    assert ended.stderr.count("\n") == 1
    assert named in ended.stderr
