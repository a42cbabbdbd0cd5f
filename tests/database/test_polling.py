"""Threads that look again and again, and what other processes change, told to all who follow it."""

import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import event, text

from app.database.engine import Database
from app.database.polling import Changes, Poller
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


def change(database):
    with database.writing() as connection:
        connection.execute(text("UPDATE one SET number = 2"))


def test_a_look_that_fails_does_not_end_the_thread():
    looks = []

    def look():
        looks.append(1)
        raise RuntimeError("broken")

    poller = Poller("test", look, 0.01)
    poller.start()
    eventually(lambda: len(looks) > 1, SOON)
    assert poller.alive
    poller.stop()


def test_each_follower_is_told_in_one_transaction_until_the_end(database):
    begun, told = [], ([], [])
    event.listen(
        database.engine,
        "begin",
        lambda _connection: begun.append(threading.current_thread().name),
    )
    for tell in (
        lambda _value: 1 / 0,
        *(each.append for each in told),
    ):  # the first keeps nothing from the others
        database.changes.follow(number, tell)
    change(database)

    eventually(lambda: all(each and each[-1] == 2 for each in told), SOON)
    database.changes.stop()
    told_until_then = [*map(len, told)]
    change(database)

    assert [*map(len, told)] == told_until_then
    assert begun.count("changes") <= len(told[1]) + 1


def test_nobody_is_told_anything_while_the_database_does_not_answer(database):
    told, away, tried = [], [True], []

    @contextmanager
    def reading():
        tried.append(1)
        if away:
            raise Unavailable("away")
        with database.reading() as connection:
            yield connection

    changes = Changes(reading)
    changes.follow(number, told.append)
    eventually(lambda: len(tried) > 1, SOON)
    assert told == []

    away.clear()
    eventually(lambda: told, SOON)
    changes.stop()


def test_it_is_late_if_no_look_ends_for_long(database, monkeypatch):
    changes, asked, answered = database.changes, threading.Event(), threading.Event()
    assert not changes.late

    def hang(_connection):
        asked.set()
        answered.wait(SOON)

    changes.follow(hang, lambda _: None)
    assert asked.wait(SOON)
    assert not changes.late
    monkeypatch.setattr("app.database.polling._LATE_SECONDS", -1)
    late = changes.late
    answered.set()
    changes.stop()

    assert late
    assert not changes.late
