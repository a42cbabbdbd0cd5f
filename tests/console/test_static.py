"""The console's files: what is served, under which policy, and how they are written."""

from __future__ import annotations

import csv
import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import serving, settings_for
from tests.console.tab import FOLDER, unchecked

KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
FILES = [path for path in FOLDER.iterdir() if path.suffix in KINDS]


def test_the_files_have_the_right_types_and_a_strict_policy(site):
    for path in FILES:
        answer = site.client.get(f"/console/{path.name}", headers={"X-API-Key": ""})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(KINDS[path.suffix])
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_files_are_small_and_load_nothing_from_elsewhere():
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) < 75 * 1024
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function")
    for path in FILES:
        text = path.read_text()
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
        assert not markup.search(text), path.name


def test_the_sample_is_the_table_of_the_demo(site):
    rows = list(csv.reader(site.client.get("/console/sample.csv", headers={"X-API-Key": ""}).text.splitlines()))
    assert (len(rows), len(rows[0])) == (570, 31)
    assert {row[-1] for row in rows[1:]} == {"malignant", "benign"}


@pytest.mark.parametrize("path", ["__init__.py", "__pycache__", "../settings.py", "..%2fsettings.py", "%2e%2e/"])
def test_nothing_else_is_served_below_the_console(site, path):
    assert site.client.get(f"/console/{path}").status_code == 404


def test_the_console_can_be_turned_off(tmp_path):
    with serving(settings_for(tmp_path, workers=0, console=False)) as client:
        assert client.get("/").headers["location"] == "/docs"
        assert client.get("/console/").status_code == client.get("/console/main.js").status_code == 404


def test_the_types_hold():
    if shutil.which("tsc") is None:
        unchecked("tsc is not on the path: npm install --global typescript@5")
    command = ["tsc", "-p", str(Path(__file__).with_name("tsconfig.json"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
