"""Transactions over SQLite as this service needs them."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from app.database import Database

TABLES = MetaData()
NUMBERS = Table("numbers", TABLES, Column("n", Integer, primary_key=True))


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/test.db")
    database.create(TABLES)
    yield database
    database.close()


def numbers(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(connection.execute(select(NUMBERS.c.n).order_by(NUMBERS.c.n)).scalars())


def test_a_transaction_takes_effect_whole_or_not_at_all(database):
    with database.writing() as connection:
        connection.execute(insert(NUMBERS).values(n=1))

    def fail_half_way() -> None:
        with database.writing() as connection:
            connection.execute(insert(NUMBERS).values(n=2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert numbers(database) == [1]


def test_writers_queue_and_readers_do_not_wait(database):
    """Twenty threads that read, think and write lose no update; a reader meanwhile sees the last committed state."""

    def add_one_more() -> None:
        with database.writing() as connection:
            largest = connection.execute(select(NUMBERS.c.n).order_by(NUMBERS.c.n.desc()).limit(1)).scalar() or 0
            time.sleep(0.002)
            connection.execute(insert(NUMBERS).values(n=largest + 1))

    threads = [threading.Thread(target=add_one_more) for _ in range(20)]
    for thread in threads:
        thread.start()
    seen = [len(numbers(database)) for _ in range(10)]
    for thread in threads:
        thread.join()

    assert numbers(database) == list(range(1, 21))
    assert seen == sorted(seen)


def test_the_clock_is_in_seconds_since_1970(database):
    with database.reading() as connection:
        now = connection.execute(select(database.now)).scalar_one()

    assert now == pytest.approx(time.time(), abs=5)


def test_a_database_that_is_not_there_does_not_answer(tmp_path):
    assert Database(f"sqlite:///{tmp_path}/there.db").answers()
    assert not Database(f"sqlite:///{tmp_path}/no/such/folder.db").answers()
