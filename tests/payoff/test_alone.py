"""The library is usable without the service: installed alone, its modules, examples and tests need nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKED = re.compile(r"^([\w.-]+==.*?) \\$", re.MULTILINE)
TOOLS = ("pytest", "hypothesis", "pytest-xdist")
PROGRAM = """
import pkgutil
from importlib.util import find_spec

import payoff

for name in ("fastapi", "starlette", "sqlalchemy", "pyarrow", "orjson", "structlog", "uvicorn"):
    assert find_spec(name) is None, name
for module in pkgutil.walk_packages(payoff.__path__, "payoff."):
    __import__(module.name)
"""


@pytest.mark.slow
def test_installed_alone_its_examples_and_tests_pass(tmp_path):
    environment, versions = tmp_path / "environment", tmp_path / "versions.txt"
    lock = (ROOT / "requirements-dev.lock").read_text()
    versions.write_text("\n".join(LOCKED.findall(lock)))
    python = environment / "bin" / "python"
    examples = (
        "payoff/__init__.py",
        "payoff/functions.py",
        "payoff/decisions/limits.py",
    )
    tests = (
        "tests/payoff/decisions",
        "tests/payoff/evidence",
        "tests/payoff/test_stored.py",
    )
    chosen = (
        "-n0",
        "--confcutdir=tests/payoff",
        "--doctest-modules",
        *examples,
        *tests,
    )

    run(sys.executable, "-m", "venv", environment)
    run(
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "-c",
        versions,
        ROOT,
        *TOOLS,
    )
    run(python, "-c", PROGRAM)
    run(python, "-m", "pytest", *chosen)


def run(*command):
    """Run a command in the project's folder; fail with what it printed where it fails."""
    finished = subprocess.run(
        [*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    printed = finished.stdout[-3000:] + finished.stderr[-2000:]
    assert finished.returncode == 0, f"{command}\n{printed}"
