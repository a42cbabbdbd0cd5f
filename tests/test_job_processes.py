"""What the processes of jobs and the readers of uploads load."""

import subprocess
import sys

import pytest

from app.data import isolated
from app.job_processes import PRELOADED

HTTP = ("fastapi", "starlette", "app.api")


def loaded(code):
    """Those of the HTTP modules that a fresh interpreter has loaded after running `code`."""
    report = f"import sys; print([name for name in {HTTP!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "modules",
    [
        ["app.jobs.single", "app.jobs.attempt", *PRELOADED],
        ["app.jobs.cluster"],
        isolated.MODULES,
        ["app.commands.check", "app.metrics", "app.stores"],
    ],
)
@pytest.mark.thorough
def test_only_the_http_service_loads_fastapi(modules):
    assert loaded(f"import {', '.join(modules)}") == "[]"


def test_the_http_service_loads_fastapi():
    """What the test above would report."""
    assert loaded("import app.wiring") == str(list(HTTP))
