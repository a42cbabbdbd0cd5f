"""Any order of changes: numbers are never reused, aliases never dangle, and the folder tells the same as the index."""

import uuid
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, select

from app.database import Database
from app.errors import Conflict, NotFound
from app.migrations import migrate
from app.registry.registry import Registry
from app.registry.tables import TABLES, state
from tests.effort import repeated
from tests.registry.making import make_card

NAMES = st.sampled_from(["a", "b"])
ALIASES = st.sampled_from(["best", "next"])
NUMBERS = st.integers(1, 6)


class Changes(RuleBasedStateMachine):
    """The registry beside the plainest model of it: dicts."""

    def __init__(self, database):
        super().__init__()
        self.database = database
        with database.writing() as connection:
            for table in reversed(TABLES.sorted_tables):
                if table is not state:
                    connection.execute(delete(table))
        self.registry = Registry(f"memory://{uuid.uuid4().hex}", database)
        self.registry.refresh()
        self.given: dict[str, int] = {}
        self.published: dict[str, set[int]] = {}
        self.aliases: dict[tuple[str, str], int] = {}
        self.moves: dict[str, list] = {}

    @rule(name=NAMES)
    def reserve(self, name):
        number = self.registry.reserve(name, "job_1", 1)
        assert number == self.given.get(name, 0) + 1
        self.given[name] = number

    @rule(name=NAMES)
    def publish(self, name):
        self.reserve(name)
        card = self.registry.stage(make_card(name, self.given[name]), None)
        self.registry.announce(card)
        with self.database.writing() as connection:
            self.registry.add(connection, card)
        self.registry.refresh()
        self.published.setdefault(name, set()).add(card.version)

    @rule(name=NAMES)
    def publish_in_vain(self, name):
        """The transaction fails, and the job cleans up after itself."""
        self.reserve(name)
        card = self.registry.stage(make_card(name, self.given[name]), None)
        self.registry.announce(card)
        with suppress(ZeroDivisionError), self.database.writing() as connection:
            self.registry.add(connection, card)
            raise ZeroDivisionError
        self.registry.give_up(name, card.version)

    @rule(name=NAMES, alias=ALIASES, version=NUMBERS)
    def set_alias(self, name, alias, version):
        if version not in self.published.get(name, ()):
            with pytest.raises(NotFound):
                self.registry.set_alias(name, alias, version, "ann")
            return
        self.registry.set_alias(name, alias, version, "ann")
        before = self.aliases.get((name, alias))
        if before != version:
            self.moves.setdefault(name, []).append((alias, before, version))
        self.aliases[name, alias] = version

    @rule(name=NAMES, alias=ALIASES)
    def delete_alias(self, name, alias):
        before = self.aliases.pop((name, alias), None)
        if before is None:
            with pytest.raises(NotFound):
                self.registry.delete_alias(name, alias, "ann")
            return
        self.registry.delete_alias(name, alias, "ann")
        self.moves[name].append((alias, before, None))

    @rule(name=NAMES, version=NUMBERS)
    def delete_version(self, name, version):
        if version not in self.published.get(name, ()):
            with pytest.raises(NotFound):
                self.registry.delete_version(name, version)
        elif (name, version) in {(model, target) for (model, _), target in self.aliases.items()}:
            with pytest.raises(Conflict):
                self.registry.delete_version(name, version)
        else:
            self.registry.delete_version(name, version)
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
            self.moves[name].append((key[1], self.aliases.pop(key), None))

    @rule()
    def rebuild(self):
        before = self._rows()
        self.registry.rebuild()
        assert self._rows() == before

    @invariant()
    def what_exists_is_what_was_published(self):
        lines = self.registry.models("", 10)
        assert {line.name: set(line.versions) for line in lines} == self.published
        assert {(line.name, alias): at for line in lines for alias, at in line.aliases.items()} == self.aliases
        for name, numbers in self.published.items():
            if numbers:
                assert self.registry.resolve(name) == (name, max(numbers))
            history = self.registry.model(name).history
            moves = [(move.alias, move.from_version, move.to_version) for move in history]
            assert moves == self.moves.get(name, [])
        for (name, alias), version in self.aliases.items():
            assert self.registry.resolve(f"{name}@{alias}") == (name, version)

    def _rows(self):
        with self.database.reading() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(select(table))))
                for table in TABLES.sorted_tables
                if table.name != "registry_state"
            }


def test_any_order_of_changes_leaves_what_the_model_says(database_url):
    database = Database(database_url)
    migrate(database)
    times = settings(max_examples=repeated(25 if database.is_sqlite else 6), stateful_step_count=20, deadline=None)
    run_state_machine_as_test(lambda: Changes(database), settings=times)
    database.close()
