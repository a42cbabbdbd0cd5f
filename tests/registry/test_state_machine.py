"""Any order of changes: numbers are never reused, aliases never dangle, and the folder tells the same as the index."""

import uuid
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete

from app.errors import Conflict, NotFound
from app.registry.tables import TABLES, state
from tests.conftest import migrated
from tests.effort import repeated
from tests.registry.making import make_card, open_registry

NAMES = st.sampled_from(["a", "b"])
ALIASES = st.sampled_from(["best", "next"])
NUMBERS = st.integers(1, 4)


def emptied(database):
    with database.writing() as connection:
        for table in reversed(TABLES.sorted_tables):
            if table is not state:
                connection.execute(delete(table))
    return database


class Changes(RuleBasedStateMachine):
    """The registry beside the plainest model of it: dicts."""

    def __init__(self, database, other, folder):
        super().__init__()
        self.database, self.other = emptied(database), other
        self.url = f"{folder}/{uuid.uuid4().hex}"
        self.registry = open_registry(self.url, database)
        self.registry.refresh()
        self.replica = open_registry(self.url, database)  # of another process
        self.replica.refresh()
        self.given: dict[str, int] = {}
        self.published: dict[str, set[int]] = {}
        self.left: dict[str, set[int]] = {}
        self.aliases: dict[tuple[str, str], int] = {}
        self.moves: dict[str, list] = {}

    @initialize()
    def begin(self):
        for name in ("a", "a", "b"):
            self.publish(name)
        self.set_alias("a", "best", 1, "ann")

    @rule(name=NAMES)
    def die_before_publishing(self, name):
        self._staged(name)

    def _staged(self, name):
        card = self.registry.stage(make_card(name), None)
        assert card.version == self.given.get(name, 0) + 1
        self.given[name] = card.version
        self.left.setdefault(name, set()).add(card.version)
        return card

    @rule(name=NAMES)
    def publish(self, name):
        card = self._staged(name)
        with self.database.writing() as connection:
            self.registry.index.add(connection, card)
        self.left[name].remove(card.version)
        for wrong in (card, card.model_copy(update={"version": card.version + 1})):
            with (
                pytest.raises(Conflict, match="not staged"),
                self.database.writing() as connection,
            ):
                self.registry.index.add(connection, wrong)
        assert (
            self.replica.load(f"{name}:{card.version}").version == card.version
        )  # before it has looked
        self.registry.refresh()
        self.published.setdefault(name, set()).add(card.version)

    @rule(name=NAMES)
    def publish_in_vain(self, name):
        """The transaction fails."""
        card = self._staged(name)
        with suppress(ZeroDivisionError), self.database.writing() as connection:
            self.registry.index.add(connection, card)
            raise ZeroDivisionError

    @rule()
    def keep_up(self):
        """All jobs have ended."""
        for one in self.registry.index.unpublished():
            self.registry.discard(one)
        self.left.clear()

    @rule(
        name=NAMES, alias=ALIASES, version=NUMBERS, who=st.sampled_from(["ann", "bob"])
    )
    def set_alias(self, name, alias, version, who):
        if version not in self.published.get(name, ()):
            with pytest.raises(NotFound):
                self.registry.set_alias(name, alias, version, who)
            return
        for _ in range(2):  # where it is already there is nothing to remember
            self.registry.set_alias(name, alias, version, who)
        before = self.aliases.get((name, alias))
        if before != version:
            self.moves.setdefault(name, []).append((who, alias, before, version))
        self.aliases[name, alias] = version

    @rule(name=NAMES, alias=ALIASES)
    def delete_alias(self, name, alias):
        before = self.aliases.pop((name, alias), None)
        if before is None:
            with pytest.raises(NotFound):
                self.registry.delete_alias(name, alias, "ann")
            return
        self.registry.delete_alias(name, alias, "ann")
        self.moves[name].append(("ann", alias, before, None))

    @rule(name=NAMES, version=NUMBERS)
    def delete_version(self, name, version):
        if version not in self.published.get(name, ()):
            with pytest.raises(NotFound):
                self.registry.delete_version(name, version)
        elif (name, version) in {
            (model, target) for (model, _), target in self.aliases.items()
        }:
            with pytest.raises(Conflict):
                self.registry.delete_version(name, version)
        else:
            held = self.registry.load(f"{name}:{version}")
            self.registry.delete_version(name, version)
            assert self.registry.cache.get(f"{name}:{version}") is None
            assert held.card.key not in self.registry.cache
            self.published[name].remove(version)

    @rule(name=NAMES)
    def delete_model(self, name):
        if name not in self.published:
            with pytest.raises(NotFound):
                self.registry.delete_model(name, "ann")
            return
        self.registry.delete_model(name, "ann")
        del self.published[name]
        for key in sorted(key for key in self.aliases if key[0] == name):
            self.moves[name].append(("ann", key[1], self.aliases.pop(key), None))

    @invariant()
    def what_exists_is_what_was_published(self):
        lines = self.registry.index.models("", 10)
        assert {line.name: set(line.versions) for line in lines} == self.published
        assert {
            (line.name, alias): at
            for line in lines
            for alias, at in line.aliases.items()
        } == self.aliases
        for name, numbers in self.published.items():
            if numbers:
                assert self.registry.resolve(name) == (name, max(numbers))
            history = self.registry.index.model(name).history
            moves = [
                (move.who, move.alias, move.from_version, move.to_version)
                for move in history
            ]
            assert sorted(history, key=lambda move: move.at) == history
            assert moves == self.moves.get(name, [])
        for (name, alias), version in self.aliases.items():
            assert self.registry.resolve(f"{name}@{alias}") == (name, version)

    @invariant()
    def the_folders_are_those_of_versions_and_of_what_is_left(self):
        there = {
            name: set(numbers)
            for name, numbers in self.registry.files.folders()
            if numbers
        }
        known = {
            name: self.published.get(name, set()) | self.left.get(name, set())
            for name in "ab"
        }
        assert there == {name: numbers for name, numbers in known.items() if numbers}

    def teardown(self):
        """A new database gets all that has a folder."""
        assert self.registry.rebuild() == 0  # what is left is left to the jobs
        rebuilt = open_registry(self.url, emptied(self.other))
        rebuilt.rebuild()
        there = {
            name: set(numbers)
            for name, numbers in self.registry.files.folders()
            if numbers
        }
        assert {
            line.name: set(line.versions) for line in rebuilt.index.models("", 10)
        } == there
        for name, numbers in there.items():
            assert {
                rebuilt.load(f"{name}:{number}").version for number in numbers
            } == numbers
            assert rebuilt.stage(make_card(name), None).version == max(numbers) + 1


def test_any_order_of_changes_leaves_what_the_model_says(
    request, database_url, tmp_path
):
    """The models are in a folder beside SQLite, in a bucket beside PostgreSQL."""
    with (
        migrated(database_url) as database,
        migrated(f"sqlite:///{tmp_path / 'other.db'}") as other,
    ):
        examples = repeated(60 if database.is_sqlite else 9)
        times = settings(max_examples=examples, stateful_step_count=20, deadline=None)
        folder = tmp_path if database.is_sqlite else request.getfixturevalue("bucket")
        run_state_machine_as_test(
            lambda: Changes(database, other, folder), settings=times
        )
