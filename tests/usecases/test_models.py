"""Looking at models and managing them, on real stores."""

import pytest

from app.access.caller import ANYBODY
from app.settings import Settings
from app.stores import make_ports
from app.usecases import models
from tests.registry.making import publish


@pytest.fixture
def ports(tmp_path):
    ports = make_ports(Settings(home=tmp_path / "home", models=str(tmp_path / "models")))
    yield ports
    ports.database.close()


def test_a_deleted_models_name_still_serves_as_page_token(ports):
    for name in ("a", "b", "c"):
        publish(ports.registry, name)
    _, token = models.page(ports, ANYBODY, page_size=2, page_token=None)
    models.delete(ports, "b", by=ANYBODY)

    lines, _ = models.page(ports, ANYBODY, page_size=2, page_token=token)

    assert [line.name for line in lines] == ["c"]
