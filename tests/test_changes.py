"""What other processes change, told to all who follow it in one transaction."""

import threading

import pytest
from sqlalchemy import event, text

from app.database import Database
from app.errors import Unavailable
from tests.jobs.waiting import eventually


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

    eventually(lambda: all(each and each[-1] == 2 for each in told), 3)
    for end in ends:
        end()

    assert begun.count("changes") == len(told[1])
    assert not any(thread.name == "changes" for thread in threading.enumerate())


def test_who_leaves_is_told_no_more_and_the_others_are(database):
    gone, left = [], []
    end = database.changes.follow(number, gone.append)
    database.changes.follow(number, left.append)
    end()
    before = len(gone)

    eventually(lambda: len(left) > 1, 3)
    assert len(gone) == before


def test_nobody_is_told_anything_while_the_database_does_not_answer(database, monkeypatch, caplog):
    told = []

    def away():
        raise Unavailable("away")

    changes = database.changes
    monkeypatch.setattr(changes, "_reading", away)
    end = changes.follow(number, told.append)
    eventually(lambda: "the last view of them stays" in caplog.text, 3)
    assert told == []

    monkeypatch.setattr(changes, "_reading", database.reading)
    eventually(lambda: told, 3)
    end()

    assert caplog.text.count("the last view of them stays") == 1
