"""Transactions over SQLite and PostgreSQL, also while the database is away; pages, and patterns in SQL."""

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from app.database import postgres
from app.database.engine import Database, DatabaseAway
from app.database.pages import SEQUENCE_NUMBER, is_pattern, matches, place_of, regex_of
from payoff.errors import Invalid

TABLES = MetaData()
NUMBERS = Table("numbers", TABLES, Column("n", Integer, primary_key=True))


def with_numbers(url: str, **options: float) -> Iterator[Database]:
    database = Database(url, **options)
    with database.writing() as connection:
        TABLES.create_all(connection)
    yield database
    database.close()


@pytest.fixture
def database(database_url):
    yield from with_numbers(database_url)


@pytest.fixture
def sqlite(tmp_path):
    yield from with_numbers(f"sqlite:///{tmp_path}/test.db")


@pytest.fixture
def hasty(postgres_url):
    """PostgreSQL, with little time for each statement."""
    yield from with_numbers(postgres_url, seconds=1)


@pytest.fixture
def distant(postgres_url, proxy):
    """PostgreSQL behind the proxy."""
    yield from with_numbers(
        make_url(postgres_url).set(port=proxy.port).render_as_string(), seconds=1
    )
    proxy.start()  # so that connections can be closed in good order


def numbers(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(
            connection.execute(select(NUMBERS.c.n).order_by(NUMBERS.c.n)).scalars()
        )


def add(database: Database, n: int) -> None:
    with database.writing() as connection:
        connection.execute(insert(NUMBERS).values(n=n))


def test_a_transaction_takes_effect_whole_or_not_at_all(database):
    add(database, 1)

    def fail_half_way() -> None:
        with database.writing() as connection:
            connection.execute(insert(NUMBERS).values(n=2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert numbers(database) == [1]
    with pytest.raises(IntegrityError):  # which is not blamed on the database
        add(database, 1)
    with database.reading() as connection:
        assert connection.execute(select(database.now)).scalar_one() == pytest.approx(
            time.time(), abs=5
        )


def test_a_reader_sees_one_moment_whatever_is_written_meanwhile(database):
    add(database, 1)
    with database.reading() as connection:
        assert connection.execute(select(NUMBERS.c.n)).scalars().all() == [1]
        add(database, 2)
        assert connection.execute(select(NUMBERS.c.n)).scalars().all() == [1]
    assert numbers(database) == [1, 2]


def test_writers_queue_and_readers_do_not_wait(sqlite):
    """Twenty threads that read, think and write lose no update; a reader meanwhile sees the last committed state."""

    def add_one_more() -> None:
        with sqlite.writing() as connection:
            largest = (
                connection.execute(
                    select(NUMBERS.c.n).order_by(NUMBERS.c.n.desc()).limit(1)
                ).scalar()
                or 0
            )
            time.sleep(0.002)
            connection.execute(insert(NUMBERS).values(n=largest + 1))

    threads = [threading.Thread(target=add_one_more) for _ in range(20)]
    for thread in threads:
        thread.start()
    seen = [len(numbers(sqlite)) for _ in range(10)]
    for thread in threads:
        thread.join()

    assert numbers(sqlite) == list(range(1, 21))
    assert seen == sorted(seen)


def test_a_database_that_is_not_there_does_not_answer(tmp_path):
    assert Database(f"sqlite:///{tmp_path}/there.db").obstacle() == ""
    absent = Database(f"sqlite:///{tmp_path}/no/such/folder.db")
    assert absent.obstacle() == "the database does not answer"
    with pytest.raises(DatabaseAway) as away:
        absent.wait(60)
    assert "unable to open" in away.value.reason
    assert "folder" not in away.value.detail


def test_what_is_no_database_of_ours_is_refused(monkeypatch):
    with pytest.raises(Invalid, match="PAYOFF_DATABASE is not a URL"):
        Database("payoff.db")
    with pytest.raises(Invalid, match="PAYOFF_DATABASE is not a URL"):
        Database("postgresql://localhost:port/payoff")
    with pytest.raises(Invalid, match=r"PAYOFF_DATABASE cannot be used: .*nonsense"):
        Database("postgresql://localhost/payoff?nonsense=1").wait(60)
    with pytest.raises(Invalid, match="PAYOFF_DATABASE names mysql"):
        Database("mysql://localhost/payoff")
    monkeypatch.delitem(sys.modules, "app.database.postgres")
    monkeypatch.delattr("app.database.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Invalid, match=r"psycopg"):
        Database("postgresql://localhost/payoff")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_the_usual_names_of_postgresql_all_mean_it(postgres_url, scheme):
    database = Database(postgres_url.replace("postgresql+psycopg", scheme))
    assert database.obstacle() == ""
    database.close()


def test_what_the_url_says_goes_before_our_own_choice(postgres_url):
    database = Database(
        f"{postgres_url}?application_name=mine&options=-c%20statement_timeout%3D123"
    )
    with database.reading() as connection:
        assert connection.execute(text("SHOW application_name")).scalar() == "mine"
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "123ms"
        assert connection.execute(text("SHOW lock_timeout")).scalar() == "5s"
    database.close()


def test_a_standby_cannot_be_written(postgres_url):
    """A function that goes before the server's own says that it is one."""
    database = Database(f"{postgres_url}?options=-c%20search_path%3Dpublic,pg_catalog")
    with database.writing() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'"
            )
        )

    assert database.obstacle() == "the database is a standby, which cannot be written"
    database.close()


def test_a_statement_that_takes_too_long_is_ended_and_others_go_on(hasty):
    with pytest.raises(DatabaseAway), hasty.reading() as connection:
        connection.execute(text("SELECT pg_sleep(60)"))
    assert numbers(hasty) == []


@pytest.mark.thorough
def test_who_waits_too_long_for_a_lock_is_told_to_come_again_unless_patient(hasty):
    add(hasty, 1)
    with ThreadPoolExecutor(1) as thread:
        with hasty.writing() as connection:
            connection.execute(update(NUMBERS).values(n=2))
            with pytest.raises(DatabaseAway), hasty.writing() as another:
                another.execute(update(NUMBERS).values(n=3))
            patient = thread.submit(_change_patiently, hasty)
            time.sleep(
                2.5
            )  # longer than the second that a statement may take, and the second of grace
        patient.result()
    assert numbers(hasty) == [12]


def _change_patiently(database: Database) -> None:
    with database.writing(without_timeout=True) as connection:
        connection.execute(update(NUMBERS).values(n=NUMBERS.c.n + 10))


def test_who_holds_a_lock_and_does_nothing_loses_it(postgres_url, monkeypatch):
    """As a writer whose store hangs, or whose machine has stopped."""
    monkeypatch.setattr(postgres, "_IDLE_SECONDS", 0.5)
    for database in with_numbers(postgres_url):
        add(database, 1)
        with pytest.raises(DatabaseAway), database.writing() as connection:  # noqa: PT012 - the end of it raises
            connection.execute(update(NUMBERS).values(n=2))
            with database.writing() as another:
                another.execute(update(NUMBERS).values(n=3))
        assert numbers(database) == [3]


def test_more_callers_than_connections_wait_for_one_another_and_not_for_ever(
    postgres_url, monkeypatch
):
    monkeypatch.setattr("app.database.engine._POOL_SECONDS", 0.2)
    for database in with_numbers(postgres_url, connections=2):
        with (
            database.reading(),
            database.reading(),
            pytest.raises(DatabaseAway),
            database.reading(),
        ):
            pass
    monkeypatch.setattr("app.database.engine._POOL_SECONDS", 30)
    for database in with_numbers(postgres_url, connections=2):
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, [database] * 40, range(40)))
        assert numbers(database) == list(range(40))


def test_a_database_that_was_lost_is_found_again_at_once(distant, proxy, caplog):
    add(distant, 1)
    proxy.kill()
    for _ in range(3):
        with pytest.raises(DatabaseAway):
            add(distant, 2)
    assert distant.obstacle() == "the database does not answer"
    proxy.start()
    add(distant, 3)
    proxy.kill()
    proxy.start()
    assert numbers(distant) == [1, 3], (
        "connections that were lost while nobody looked are made anew"
    )
    told = [
        record.message
        for record in caplog.records
        if record.name == "app.database.engine"
    ]
    assert len(told) == 2
    assert "does not answer" in told[0]
    assert "answers again" in told[1]


def test_who_is_in_the_midst_of_a_statement_hears_of_a_silent_database(distant, proxy):
    with pytest.raises(DatabaseAway), distant.writing() as connection:  # noqa: PT012 - the silence begins inside
        connection.execute(insert(NUMBERS).values(n=1))
        proxy.hang()
        connection.execute(insert(NUMBERS).values(n=2))


def test_a_server_that_starts_later_is_waited_for(postgres_url, proxy):
    proxy.kill()
    late = Database(make_url(postgres_url).set(port=proxy.port).render_as_string())
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(late.wait, 60)
        time.sleep(0.6)
        assert not waiting.done()
        proxy.start()
        waiting.result()
    late.close()


@pytest.mark.parametrize("token", ["", "x", "\u0663", "7\n", "1" * 19])
def test_a_token_that_no_page_gave_is_refused(token):
    """Of another list, or of more digits than a sequence number has."""
    with pytest.raises(Invalid) as caught:
        place_of(token, SEQUENCE_NUMBER)

    assert [flaw.loc for flaw in caught.value.flaws] == ["/page_token"]


NAMES = Table("names", MetaData(), Column("name", String(64)))


@pytest.fixture(scope="module")
def engine():
    engine = create_engine("sqlite://")
    NAMES.metadata.create_all(engine)
    yield engine
    engine.dispose()


@settings(deadline=None)
@given(
    patterns=st.lists(st.text("ab_-*?", min_size=1, max_size=6), max_size=3),
    names=st.lists(
        st.text("ab_-", min_size=1, max_size=6), min_size=1, max_size=8, unique=True
    ),
)
def test_memory_and_sql_agree(engine, patterns, names):
    assert all(map(is_pattern, patterns))
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(insert(NAMES), [{"name": name} for name in names])
        found = set(
            connection.execute(
                select(NAMES.c.name).where(matches(NAMES.c.name, patterns))
            ).scalars()
        )
        transaction.rollback()

    assert found == (
        {name for name in names if regex_of(patterns).fullmatch(name)}
        if patterns
        else set()
    )
