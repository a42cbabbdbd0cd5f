"""The command line: settings that cannot be are told in one line."""

from __future__ import annotations

import os

import pytest

from tests.servers.forked import run


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
    folders = {"PAYOFF_MODELS": str(tmp_path / "models")}
    ended = run([command], env=os.environ | folders | settings, cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("payoff: ")
    assert ended.stderr.count("\n") == 1
    assert named in ended.stderr
