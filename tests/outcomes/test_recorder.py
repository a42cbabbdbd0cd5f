"""Decisions are stored exactly once and before they are answered, whatever else goes on."""

import asyncio
import threading
from dataclasses import replace
from time import time

import numpy as np
import pytest
from sqlalchemy import func, select, text

from app.database.engine import Database
from app.errors import Busy, NotReady, Unavailable
from app.outcomes import recorder as module
from app.outcomes.decision import DAY, Batch, Decided, Terms, new_ids
from app.outcomes.recorder import IdsTaken, Recorder, RowStore
from app.outcomes.rows import read_terms
from app.outcomes.tables import DECISION_TERMS, DECISIONS, ERASED
from app.outcomes.upkeep import keep_up
from payoff.errors import TooLarge
from tests.jobs.waiting import eventually
from tests.outcomes.records import value_of

TERMS = Terms(
    "predict",
    "triage",
    1,
    "expected_benefit",
    ("a", "b"),
    ("wait", "treat"),
    ((0.0, -1.0), (-9.0, 5.0)),
)


@pytest.fixture
def recorder(database, tmp_path):
    recorder = Recorder(database, nowhere)
    yield recorder
    recorder.stop()


def nowhere(*_):
    """Where sealed decisions are, if none is."""
    return {}


def batch(
    ids, *, given=True, choice=1, share=0.25, instance=None, terms=TERMS, at=None
):
    """A batch of the same decision for each id."""
    n = len(ids)
    P = np.tile([share, 1 - share], (n, 1))
    own = Decided(
        [terms],
        np.zeros(n, dtype=int),
        np.full(n, choice),
        P,
        np.full(n, 2.5),
        instances=[instance] * n if instance else None,
    )
    return Batch(
        own.rows(ids, at or time(), "clinic", ids_of_client=given),
        {terms.digest: terms},
        "/record/ids",
    )


def record(recorder, *batches):
    """What became of batches that are sent at once: None or the error of each."""

    async def together():
        return await asyncio.gather(
            *map(recorder.record, batches), return_exceptions=True
        )

    return asyncio.run(together())


def stored(database):
    with database.reading() as connection:
        return {row.id: row for row in connection.execute(select(DECISIONS))}


def test_rows_are_stored_as_they_were_decided(database, recorder):
    ours = new_ids(3)

    assert record(
        recorder, batch(ours, given=False), batch(["mine"], instance='{"age":1}')
    ) == [
        None,
        None,
    ]

    rows = stored(database)
    assert set(rows) == {*ours, "mine"}
    row = rows["mine"]
    assert (row.given, row.model, row.version, row.choice, row.expected) == (
        True,
        "triage",
        1,
        1,
        2.5,
    )
    assert (row.client, row.instance, row.propensity, row.details) == (
        "clinic",
        '{"age":1}',
        None,
        None,
    )
    assert np.frombuffer(row.probabilities, "<f8").tolist() == [0.25, 0.75]
    assert not rows[ours[0]].given
    with database.reading() as connection:
        content = connection.execute(select(DECISION_TERMS.c.content)).scalars().all()
    assert [read_terms(each) for each in content] == [TERMS]
    assert value_of(recorder.totals.recorded) == 4
    assert value_of(recorder.totals.expected) == 10.0


@pytest.mark.parametrize(
    "change",
    [
        {"share": 0.5},
        {"choice": 0},
        {"instance": "[1]"},
        {"terms": replace(TERMS, version=2)},
    ],
)
def test_whatever_differs_is_another_decision_but_for_the_last_bits_of_a_probability(
    recorder, change
):
    assert record(recorder, batch(["x"]), batch(["x"], share=0.25 + 1e-15)) == [
        None,
        None,
    ]

    [error] = record(recorder, batch(["new", "x"], **change))

    assert isinstance(error, IdsTaken)
    assert [flaw.loc for flaw in error.flaws] == ["/record/ids/1"]


def test_requests_of_one_group_do_not_touch_each_other(database, recorder):
    """One cannot be stored, one conflicts, one has an id of another's: the others are stored."""
    poisoned = batch(["bad"], instance="x")
    poisoned = Batch([poisoned.rows[0]._replace(version=2**70)], poisoned.terms)

    results = record(
        recorder,
        batch(["a"]),
        poisoned,
        batch(["b", "c"]),
        batch(["b", "d"], choice=0),
        batch(new_ids(2), given=False),
    )

    assert results[0] is results[2] is results[4] is None
    assert isinstance(results[1], Exception)
    assert isinstance(results[3], IdsTaken)
    assert len(stored(database)) == 5


def test_the_same_ids_from_two_processes_are_stored_once(
    database_url, database, recorder
):
    """Two recorders have nothing in common but the database, like two processes."""
    recorders = [recorder, Recorder(Database(database_url), nowhere)]

    async def race():
        batches = [batch([f"{i}-{j}" for j in range(5)]) for i in range(40)]
        other = [batch([f"{i}-{j}" for j in range(5)], choice=i % 2) for i in range(40)]
        waits = [
            one.record(each)
            for pair in zip(batches, other, strict=True)
            for one, each in zip(recorders, pair, strict=True)
        ]
        return await asyncio.gather(*waits, return_exceptions=True)

    results = asyncio.run(race())

    pairs = list(zip(results[::2], results[1::2], strict=True))
    assert all(pair == (None, None) for pair in pairs[1::2])  # the same decisions
    assert all(set(map(type, pair)) == {IdsTaken, type(None)} for pair in pairs[::2])
    assert len(stored(database)) == 200
    recorders[1].stop()


@pytest.mark.parametrize(
    "database_url", ["postgresql"], indirect=True
)  # nobody closes the connection to a file
def test_a_lost_connection_is_opened_again(database, recorder):
    assert record(recorder, batch(["before"])) == [None]
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with database.writing() as connection:
        connection.execute(
            text(
                f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}"
            )
        )

    assert record(recorder, batch(["after"])) == [None]
    assert record(recorder, batch(new_ids(1), given=False)) == [None]
    assert len(stored(database)) == 3


@pytest.mark.parametrize("given", [True, False])
def test_rows_whose_commit_was_not_heard_of_are_not_stored_twice(
    database, recorder, given
):
    """The connection breaks after the commit: the second attempt finds the rows."""
    record(recorder, batch(["warm"]))
    store = recorder._lanes[0]._store

    class Deaf:
        def __init__(self, driver):
            self.driver = driver

        def __getattr__(self, name):
            return getattr(self.driver, name)

        def execute(self, statement, *arguments, **options):
            found = self.driver.execute(statement, *arguments, **options)
            if statement == "COMMIT" or not given:
                raise database.driver.OperationalError(
                    "server closed the connection unexpectedly"
                )
            return found

    store._driver = Deaf(store._driver)

    assert record(recorder, batch(new_ids(1), given=given)) == [None]
    assert len(stored(database)) == 2
    assert not isinstance(store._driver, Deaf)


def test_without_the_store_of_sealed_days_other_requests_go_on(database, tmp_path):
    def away(*_):
        raise Unavailable("the store does not answer")

    recorder = Recorder(database, away)
    old = batch(new_ids(1, time() - 2 * DAY))

    refused, *others = record(
        recorder, old, batch(["x"]), batch(new_ids(1)), batch(new_ids(1), given=False)
    )

    assert isinstance(refused, Unavailable)
    assert others == [None] * 3
    recorder.stop()


def test_without_a_database_requests_are_refused(database, recorder, monkeypatch):
    def unreachable():
        raise database.driver.OperationalError("connection refused")

    monkeypatch.setattr(database, "own_connection", unreachable)

    results = record(recorder, batch(["x"]), batch(new_ids(1), given=False))

    assert all(isinstance(error, Unavailable) for error in results)
    assert value_of(recorder.totals.failures) == 2
    monkeypatch.undo()
    assert record(recorder, batch(["x"])) == [None]


def test_large_batches_are_stored_whole(database, recorder):
    large = batch(new_ids(3_000), given=False)

    assert (
        record(recorder, large, batch(["x"]), batch([f"g{i}" for i in range(1200)]))
        == [None] * 3
    )

    with database.reading() as connection:
        assert (
            connection.execute(select(func.count()).select_from(DECISIONS)).scalar()
            == 4_201
        )


def test_what_waits_is_bounded(database, recorder, monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    monkeypatch.setattr(module, "_MAX_PENDING", 3)

    async def together():
        with database.writing():  # no other transaction can write meanwhile
            held = asyncio.ensure_future(recorder.record(batch(["a", "b"])))
            await asyncio.sleep(0)
            refused = map(recorder.record, (batch(["a", "b", "c"]), batch(["c", "d"])))
            results = await asyncio.gather(*refused, return_exceptions=True)
            room = asyncio.ensure_future(recorder.record(batch(["e"])))
            await asyncio.sleep(0)
        return [*results, await held, await room]

    assert [type(each) for each in asyncio.run(together())] == [
        TooLarge,
        Busy,
        type(None),
        type(None),
    ]
    assert record(recorder, batch(["c", "d"])) == [None]


def test_a_stop_records_what_waits(database, recorder):
    async def leave():
        waits = [
            asyncio.ensure_future(recorder.record(batch([str(i)]))) for i in range(50)
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(recorder.stop)
        await asyncio.gather(*waits)

    asyncio.run(leave())

    assert len(stored(database)) == 50
    with pytest.raises(NotReady):
        asyncio.run(recorder.record(batch(["late"])))


@pytest.mark.parametrize(
    "later",
    [3_000, -3_001, None],
    ids=["old", "the clock was set back", "another database"],
)
def test_terms_are_written_once_and_again_when_they_are_old(
    database, monkeypatch, later
):
    store = RowStore(database, nowhere)
    store.write([batch(["a"])])
    with database.writing() as connection:
        connection.execute(text("UPDATE decision_terms SET used_at = 1"))

    store.write([batch(["b"])])
    with database.reading() as connection:
        assert connection.execute(select(DECISION_TERMS.c.used_at)).scalar() == 1

    if later is None:
        store.close()  # the next connection may lead to another database
    else:
        monkeypatch.setattr(module, "time", lambda: time() + later)
    store.write([batch(["c"])])
    with database.reading() as connection:
        assert connection.execute(select(DECISION_TERMS.c.used_at)).scalar() > 1
    store.close()


def ended(*_arguments):
    raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_requests_do_not_wait_for_a_thread_that_has_ended(recorder, monkeypatch):
    assert recorder.alive
    monkeypatch.setattr(RowStore, "write", ended)

    async def wait():
        waiting = asyncio.ensure_future(recorder.record(batch(["a"])))
        await asyncio.to_thread(eventually, lambda: not recorder.alive)
        waiting.cancel()

    asyncio.run(wait())
    [error] = record(recorder, batch(["b"]))
    assert isinstance(error, Unavailable)


def test_what_is_erased_while_it_is_recorded_again_is_nowhere_after_upkeep(
    database, archive, monkeypatch
):
    """Another process stores the same decision of a client, and it is erased, between a look for the id and its end."""
    first, second = (
        RowStore(database, archive.locate),
        RowStore(database, archive.locate),
    )
    sent, look = batch(["visit-1"]), module.RowStore._stored
    meanwhile = threading.Thread(
        target=lambda: (
            first.write([sent]),
            archive.erase("visit-1"),
            keep_up(archive, None),
        )
    )

    def late(store, ids):
        found = look(store, ids)
        if store is second and meanwhile.ident is None:
            meanwhile.start()
            meanwhile.join(0.5)
        return found

    monkeypatch.setattr(RowStore, "_stored", late)
    second.write([sent])
    meanwhile.join()
    first.close()
    second.close()

    assert not archive.locate(["visit-1"])
    assert not list(archive.cases(sent.rows[0].model))
    with database.reading() as connection:
        assert not connection.execute(select(DECISIONS.c.id)).all()
        assert connection.execute(select(ERASED.c.id)).scalars().all() == [None]
