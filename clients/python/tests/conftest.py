"""The service and the models of the project's tests, a client, and pandas.

pandas is installed apart, as scikit-learn imports it wherever it finds it, and so would each service of other tests.
pyarrow looks for it once, so it has to be found from the start.
"""

import sys
from pathlib import Path

import httpx
import pytest
import structlog
from payoff_client import Payoff, commands

from tests.conftest import forest, serving, settings_for, ward

__all__ = ["forest", "ward"]

sys.path.append(str(Path(sys.prefix) / "pandas"))


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Its log is a file: on standard output, structlog's default, it would stand in what commands print."""
    folder = tmp_path_factory.mktemp("service")
    with (folder / "log").open("w") as log:
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(log))
        try:
            with serving(settings_for(folder)) as client:
                yield client
        finally:
            structlog.reset_defaults()


@pytest.fixture(scope="session")
def client(service):
    with Payoff(str(service.base_url), progress=False) as client:
        yield client


@pytest.fixture
def mocked(monkeypatch, capsys, tmp_path):
    """Runs a command in a folder of its own against what answers requests; returns its code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(line, answer):
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(commands, "Payoff", lambda url, **given: Payoff(url, **given, transport=transport))
        code = commands.main(line.split())
        return code, *capsys.readouterr()

    return run
