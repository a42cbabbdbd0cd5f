"""Registries over a folder and a database of the test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.database.engine import Database
from app.database.migrations import migrate
from app.registry.registry import Registry
from tests.registry.making import open_registry


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")
    yield database
    database.close()


@pytest.fixture
def models(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where models are: a folder, unless a test asks for a bucket."""
    return (
        f"{request.getfixturevalue('bucket')}/models"
        if hasattr(request, "param")
        else tmp_path / "models"
    )


@pytest.fixture
def another(database: Database, models: Path | str) -> Callable[..., Registry]:
    """Another process's view of the same registry."""

    def make(
        *, database: Database = database, refresh: bool = True, **changes: object
    ) -> Registry:
        if refresh:
            migrate(database)
        registry = open_registry(str(models), database, **changes)
        if refresh:
            registry.refresh()
        return registry

    return make


@pytest.fixture
def registry(another: Callable[..., Registry]) -> Registry:
    return another()
