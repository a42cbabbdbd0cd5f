"""A service for which keys were made is never open again, whatever becomes of its database and its store."""

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from app.access.audit import AuditLog
from app.access.caller import NOTE, Keyring, KeysMade
from app.access.keys import Keys
from app.access.tables import API_KEYS
from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import KeyMissing, NotReady
from app.storage import Storage


def _away(*_arguments):
    raise OSError("away")


class Stack:
    """A database, a folder of models, and a process that asks both."""

    def __init__(self, folder):
        self._folder = folder
        self._made = 0
        self._number = 0
        self.known: str | None = None  # a key of the present table
        self.present: list[str] = []  # all of them
        self.formers: list[str] = []  # of tables before it
        self.replace()
        self.restart()

    def restart(self):
        """Another process, which knows nothing."""
        self._keyring = Keyring(
            Keys(self._database, AuditLog(self._database)), self.made
        )
        self.look()

    def replace(self):
        """Another database, with tables and nothing in them."""
        self._number += 1
        file = self._folder / f"{self._number}.db"
        file.write_bytes(_empty_tables())
        self._database = Database(f"sqlite:///{file}")
        self.forget()
        if hasattr(self, "_keyring"):
            self._keyring._keys = Keys(self._database, AuditLog(self._database))
            self.look()

    def forget(self):
        self.formers, self.known = [*self.formers, *self.present], None
        self.present = []

    def make(self):
        _, self.known = Keys(self._database, AuditLog(self._database)).create(
            "bank", ("predict",)
        )
        self.present.append(self.known)
        self.look()

    def revoke(self):
        """The last key."""
        if self.present:
            Keys(self._database, AuditLog(self._database)).revoke(
                self.present[-1].partition(".")[0]
            )
            self.formers.append(self.present.pop())
            self.look()

    def empty(self):
        with self._database.writing() as connection:
            connection.execute(delete(API_KEYS))
        self.forget()
        self.look()

    def unreadable(self):
        """The table cannot be read for a while, in which the last view stays."""
        self.look()
        self._rename("api_keys", "away")
        try:
            self.look()
            assert self.entrance() != "open" or not self.were_made
            assert {self.entrance(key.encode()) for key in self.present} <= {"key"}
        finally:
            self._rename("away", "api_keys")

    def unreadable_at_start(self):
        """Another process, which starts in such a while."""
        self._rename("api_keys", "away")
        try:
            self.restart()
            assert self.entrance() == "not ready"
        finally:
            self._rename("away", "api_keys")

    def store_away_at_start(self):
        """Another process, which starts while the store is away: there may be a note in it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Storage, "read", _away)
            self.restart()
            assert self.entrance() == ("locked" if self.known else "not ready")
        self.look()

    def look(self):
        self._keyring.start()
        self._database.changes.stop()

    @property
    def made(self):
        return KeysMade(Storage(str(self._folder / "models"), NOTE))

    @property
    def were_made(self):
        return self.made.known()

    def entrance(self, key=None):
        try:
            return (
                "open" if self._keyring.caller(key) is self._keyring.anybody else "key"
            )
        except KeyMissing:
            return "locked"
        except NotReady:
            return "not ready"

    def _rename(self, one, other):
        with self._database.writing() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {one} RENAME TO {other}")


@functools.cache
def _empty_tables():
    """A database file with all tables and no rows, made once for all of them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "empty.db"
        database = Database(f"sqlite:///{file}")
        migrate(database)
        database.close()  # writes what is in its log into the file
        return file.read_bytes()


EVENTS = (
    "restart",
    "replace",
    "make",
    "revoke",
    "empty",
    "unreadable",
    "unreadable_at_start",
    "store_away_at_start",
    "look",
)


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(events=st.lists(st.sampled_from(EVENTS), max_size=8))
def test_in_any_order_of_events_it_is_open_only_if_no_key_was_ever_made(
    tmp_path_factory, events
):
    stack = Stack(tmp_path_factory.mktemp("stack"))
    assert stack.entrance() == "open"
    ever = False
    for event in events:
        getattr(stack, event)()
        ever = ever or event == "make"

        assert (stack.entrance() == "open") <= (not ever), event
        if event.startswith("unreadable"):
            continue  # what was known before is still known, which may be nothing
        if ever:
            assert stack.entrance() == ("locked" if stack.known else "not ready")
        assert {stack.entrance(key.encode()) for key in stack.present} <= {"key"}
        assert not ever or {stack.entrance(key.encode()) for key in stack.formers} <= {
            "locked",
            "not ready",
        }
    stack.look()
    assert stack.entrance() == (
        "open" if not ever else "locked" if stack.known else "not ready"
    )


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_note_that_cannot_be_written_is_written_later(tmp_path, monkeypatch, method):
    stack = Stack(tmp_path)
    monkeypatch.setattr(Storage, method, _away)
    stack.make()
    assert stack.entrance(stack.known.encode()) == "key"

    monkeypatch.undo()
    assert not stack.were_made
    stack.look()

    assert stack.were_made


def test_an_admin_key_opens_a_service_whose_table_is_lost(tmp_path):
    stack = Stack(tmp_path)
    stack.make()
    stack.replace()
    stack._keyring = Keyring(
        Keys(stack._database, AuditLog(stack._database)), stack.made, "letmein"
    )
    stack.look()

    assert stack.entrance(b"letmein") == "key"
    assert stack.entrance() == "locked"
    assert stack._keyring.obstacle == ""
