"""Applications that no server runs, without workers."""

import pytest

from app.api.app import create_app
from app.service import wire
from tests.conftest import settings_for


@pytest.fixture(scope="module")
def wired(tmp_path_factory):
    service = wire(settings_for(tmp_path_factory.mktemp("wired"), workers=0))
    yield service
    service.stores.database.close()


@pytest.fixture(scope="module")
def app(wired):
    return create_app(wired)
