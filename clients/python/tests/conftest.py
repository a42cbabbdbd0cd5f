"""The service and the models of the project's tests, a client, and pandas.

pandas is installed apart, as scikit-learn imports it wherever it finds it, and so would each
service of other tests.
pyarrow looks for it once, so it has to be found from the start.
"""

import sys
from pathlib import Path

import pytest
import structlog
from payoff_client import Payoff

from tests.conftest import forest, serving, settings_for, ward

__all__ = ["forest", "ward"]

sys.path.append(str(Path(sys.prefix) / "pandas"))


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Its log is a file: on standard output, structlog's default, it would stand in what commands
    print.
    """
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
