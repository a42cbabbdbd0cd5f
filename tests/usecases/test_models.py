"""Looking at models and managing them, on real stores."""

import pytest

from app.access.caller import ANYBODY
from app.errors import Conflict, NotFound
from app.settings import Settings
from app.stores import make_ports
from app.usecases import models
from tests.registry.making import publish


@pytest.fixture
def ports(tmp_path):
    ports = make_ports(Settings(home=tmp_path / "home", models=str(tmp_path / "models")))
    yield ports
    ports.database.close()


def test_pages_join_to_the_whole_list(ports):
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        publish(ports.registry, name)

    for size in range(1, 7):
        found, token, pages = [], None, 0
        while pages == 0 or token is not None:
            lines, token = models.page(ports, ANYBODY, page_size=size, page_token=token)
            found += [line.name for line in lines]
            pages += 1
        assert found == names
        assert pages == -(-len(names) // size)


def test_an_empty_registry_is_one_empty_page(ports):
    assert models.page(ports, ANYBODY, page_size=10, page_token=None) == ([], None)


def test_a_deleted_models_name_still_serves_as_page_token(ports):
    for name in ("a", "b", "c"):
        publish(ports.registry, name)
    _, token = models.page(ports, ANYBODY, page_size=2, page_token=None)
    models.delete(ports, "b", by=ANYBODY)

    lines, _ = models.page(ports, ANYBODY, page_size=2, page_token=token)

    assert [line.name for line in lines] == ["c"]


def test_the_life_of_a_version(ports):
    """Published, described, aliased, protected, released, deleted."""
    staged = publish(ports.registry)
    assert models.card(ports, "triage", 1) == staged
    card, content = models.artifact(ports, "triage", 1)
    assert len(content) == card.sizes["model.joblib"]

    models.set_alias(ports, "triage", "champion", 1, by=ANYBODY)
    assert models.describe(ports, "triage").aliases == {"champion": 1}
    with pytest.raises(Conflict):
        models.delete_version(ports, "triage", 1, by=ANYBODY)
    models.delete_alias(ports, "triage", "champion", by=ANYBODY)
    models.delete_version(ports, "triage", 1, by=ANYBODY)

    for ask in (
        lambda: models.card(ports, "triage", 1),
        lambda: models.artifact(ports, "triage", 1),
    ):
        with pytest.raises(NotFound):
            ask()
    assert models.describe(ports, "triage").versions == []
    models.delete(ports, "triage", by=ANYBODY)
    with pytest.raises(NotFound):
        models.describe(ports, "triage")
