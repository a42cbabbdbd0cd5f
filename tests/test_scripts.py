"""Every script starts with the one command that documentation and its docstring name, and does its smallest work."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
TEXT = "\n".join(page.read_text() for page in PAGES)
SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for path in ROOT.glob("benchmarks/*.py")
    if "\nif __name__ ==" in path.read_text()
)
# The others take more than some five seconds of a processor, most of them because they start servers.
QUICK = {f"benchmarks/{name}.py" for name in ("defaults", "outcomes")}


def smallest(script: str) -> list[str]:
    """Its arguments, by its docstring."""
    found = re.search(
        rf"The smallest work:\s`\.venv/bin/python {script} (.*)`",
        (ROOT / script).read_text(),
    )
    return shlex.split(found[1]) if found else []


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * (name not in QUICK))
        for name in SCRIPTS
    ],
)
def test_a_script_runs_with_its_command(script):
    alone = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, script, *smallest(script)],
        check=False,
        cwd=ROOT,
        env=alone,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if missing := re.search(
        r"FileNotFoundError: .*(shared/data/\S+|'wrk'|'taskset'|'nginx')", done.stderr
    ):
        pytest.skip(f"{missing[1]} is absent")

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_pages_and_docstrings_name_the_same_command():
    docstrings = {
        script: (ROOT / script).read_text().split('"""')[1] for script in SCRIPTS
    }
    texts = [TEXT, *docstrings.values()]
    commands = [
        command
        for text in texts
        for command in re.findall(r"\S*python (?:-m )?benchmarks\S*", text)
    ]

    assert set(re.findall(r"benchmarks/[a-z_]+\.py", TEXT)) <= {*SCRIPTS}
    assert [
        command for command in commands if ".venv/bin/python benchmarks/" not in command
    ] == []
    assert [
        script
        for script, text in docstrings.items()
        if f".venv/bin/python {script}" not in text
    ] == []
