"""Registries over a folder and a database of the test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.database import Database
from app.registry.registry import Registry


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")
    yield database
    database.close()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def another(database: Database, models: Path) -> Callable[..., Registry]:
    """Another process's view of the same registry."""

    def make(**changes: object) -> Registry:
        registry = Registry(str(models), changes.pop("database", database), **changes)
        registry.create()
        registry.refresh()
        return registry

    return make


@pytest.fixture
def registry(another: Callable[..., Registry]) -> Registry:
    return another()
