"""The lines that the tour ends with work as they are printed, with keys and without."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest

from app.demo import next_steps
from app.demo.tour import _cases, _tell
from tests.conftest import serving, settings_for

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
KEY = "the-key-of-the-demo"


@pytest.mark.parametrize("key", ["", KEY])
def test_each_line_can_be_copied(key, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    case = _cases()[-1]
    with serving(settings_for(tmp_path, admin_key=key or None)) as client:
        if key:
            client.headers["X-API-Key"] = key
        _tell(client, case)
        capsys.readouterr()

        next_steps.show(client, case.model, case.stakes, case.data.data[0].tolist())

        printed = capsys.readouterr().out
        lines = dict(re.findall(r"^  (\w+) +(.*)$", printed, re.MULTILINE))
        assert list(lines) == ["console", "client", "docs"]
        assert KEY not in printed
        for name, title in (("console", "<title>Payoff"), ("docs", "SwaggerUIBundle")):
            page = httpx.get(lines[name].split()[0], follow_redirects=True)
            assert page.status_code == 200
            assert title in page.text
        environment = os.environ | ({"PAYOFF_ADMIN_KEY": key} if key else {}) | {"PYTHONPATH": "clients/python"}
        done = subprocess.run(
            ["bash", "-c", lines["client"]], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "'decision': array(['label as A']" in done.stdout
