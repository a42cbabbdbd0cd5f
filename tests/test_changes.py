"""What other processes change, told to all who follow it in one transaction."""

import threading

import pytest
from sqlalchemy import event, text

from app.database import Database
from app.errors import Unavailable
from tests.jobs.waiting import SOON, eventually


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE one (number INTEGER)"))
        connection.execute(text("INSERT INTO one VALUES (1)"))
    yield database
    database.close()


def number(connection):
    return connection.execute(text("SELECT number FROM one")).scalar_one()


def test_each_follower_is_told_within_a_second_and_in_one_transaction(database):
    begun, told = [], ([], [])
    event.listen(database.engine, "begin", lambda _connection: begun.append(threading.current_thread().name))
    ends = [database.changes.follow(number, each.append) for each in told]
    with database.writing() as connection:
        connection.execute(text("UPDATE one SET number = 2"))

    eventually(lambda: all(each and each[-1] == 2 for each in told), SOON)
    for end in ends:
        end()

    assert begun.count("changes") == len(told[1])
    assert not database.changes._poller.alive


def test_who_leaves_is_told_no_more_and_the_others_are(database):
    gone, left = [], []
    end = database.changes.follow(number, gone.append)
    database.changes.follow(number, left.append)
    end()
    before = len(gone)

    eventually(lambda: len(left) > 1, SOON)
    assert len(gone) == before


def test_what_was_found_before_a_change_of_this_process_is_told_nobody(database):
    told, asked, changed = [], threading.Event(), threading.Event()

    def ask(connection):
        found = number(connection)
        if not changed.is_set():
            asked.set()
            changed.wait(SOON)
        return found

    end = database.changes.follow(ask, told.append)
    assert asked.wait(SOON)  # and has found the old number
    with database.writing() as connection:
        connection.execute(text("UPDATE one SET number = 2"))
    database.changes.overtake(lambda: told.append(2))
    changed.set()

    eventually(lambda: len(told) > 2, SOON)
    end()
    assert set(told) == {2}


def test_nobody_is_told_anything_while_the_database_does_not_answer(database, monkeypatch, caplog):
    told = []

    def away():
        raise Unavailable("away")

    changes = database.changes
    monkeypatch.setattr(changes, "_reading", away)
    end = changes.follow(number, told.append)
    eventually(lambda: "the last view of them stays" in caplog.text, SOON)
    assert told == []

    monkeypatch.setattr(changes, "_reading", database.reading)
    eventually(lambda: told, SOON)
    end()

    assert caplog.text.count("the last view of them stays") == 1


@pytest.mark.parametrize("when", ["asked", "told"])
@pytest.mark.thorough
def test_a_follower_that_fails_keeps_nothing_from_the_others(database, caplog, when):
    def fail(_value):
        raise RuntimeError("odd")

    told = []
    ends = [
        database.changes.follow(fail if when == "asked" else number, fail),
        database.changes.follow(number, told.append),
    ]
    with database.writing() as connection:
        connection.execute(text("UPDATE one SET number = 2"))

    eventually(lambda: len(told) > 2 and told[-1] == 2, SOON)
    for end in ends:
        end()

    assert caplog.text.count("a change cannot be used") == 1


def test_it_is_late_if_no_look_ends_for_long(database, monkeypatch):
    changes = database.changes
    assert not changes.late

    end = changes.follow(number, lambda _: None)
    monkeypatch.setattr("app.polling.monotonic", lambda: 1e9)
    monkeypatch.setattr(changes, "_looked", 1e9 - 11)
    late = changes.late
    end()

    assert late
    assert not changes.late
