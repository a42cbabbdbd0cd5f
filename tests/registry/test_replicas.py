"""Several replicas on one registry: each sees what the others did, and none undoes it."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import Conflict, NotFound
from tests.registry.making import make_card, open_registry

REPLICAS, CHANGES = 4, 15
ALIASES = ["best", "next"]


@pytest.fixture
def replicas(database_url, tmp_path):
    """Registries with connections of their own."""
    databases = [Database(database_url, seconds=20) for _ in range(REPLICAS)]
    migrate(databases[0])
    registries = [
        open_registry(str(tmp_path / "models"), database) for database in databases
    ]
    for registry in registries:
        registry.refresh()
    yield registries
    for database in databases:
        database.close()


def publish(registry, name):
    card = registry.stage(make_card(name), None)
    with registry.index.database.writing() as connection:
        registry.index.add(connection, card)
    return card.version


def change(registry, who):
    """Some of everything, at random."""
    chance = random.Random(who)
    published = []
    for _ in range(CHANGES):
        name = chance.choice("ab")
        with suppress(
            NotFound, Conflict
        ):  # another replica was faster: said, and nothing changed
            match chance.randrange(5):
                case 0 | 1:
                    published.append((name, publish(registry, name)))
                case 2 | 3:
                    registry.set_alias(
                        name, chance.choice(ALIASES), chance.randint(1, 6), who
                    )
                case 4:
                    registry.delete_version(name, chance.randint(1, 6))
    return published


@pytest.mark.thorough
def test_changes_from_everywhere_are_lost_nowhere(replicas):
    """No number twice, no alias that dangles, a history without gaps, and a folder that tells the same."""
    with ThreadPoolExecutor(REPLICAS) as threads:
        told = list(threads.map(change, replicas, map(str, range(REPLICAS))))

    published = [key for keys in told for key in keys]
    assert len(set(published)) == len(published)
    for registry in replicas:
        registry.refresh()
    views = [
        {name: registry.index.model(name) for name in "ab"} for registry in replicas
    ]
    assert all(view == views[0] for view in views)
    for name, page in views[0].items():
        there = {version.version for version in page.versions}
        assert there <= {version for model, version in published if model == name}
        assert set(page.aliases.values()) <= there
        at = dict.fromkeys(ALIASES)
        for move in page.history:
            assert move.from_version == at[move.alias]
            at[move.alias] = move.to_version
        assert page.aliases == {
            alias: version for alias, version in at.items() if version is not None
        }
        for registry in replicas:
            assert [
                registry.resolve(f"{name}@{alias}")[1] for alias in page.aliases
            ] == list(page.aliases.values())
        folders = replicas[0].files.numbers(name)
        assert sorted(folders) == sorted(there)
