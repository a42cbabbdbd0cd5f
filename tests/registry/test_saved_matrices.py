"""Saved matrices in the database and in memory: what processes see, and how much is kept."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from sqlalchemy import insert

from app.database.engine import DatabaseAway
from app.errors import Conflict, NotFound, NotReady
from app.registry import saved_matrices
from app.registry.saved_matrices import SavedMatrices
from app.registry.tables import models
from tests.conftest import migrated
from tests.jobs.waiting import eventually

MODEL = "triage"


def content(benefit=1.0):
    return json.dumps(
        [{"healthy": {"wait": benefit}, "ill": {"wait": 0}}, None],
        separators=(",", ":"),
    ).encode()


def nothing(*_):
    return None


@pytest.fixture
def database(database_url):
    with migrated(database_url) as database:
        with database.writing() as connection:
            connection.execute(
                insert(models).values(name=MODEL, next_version=2, listed=True)
            )
        yield database


@pytest.fixture
def other(database, database_url):
    """Of another process."""
    with migrated(database_url) as another:
        yield another


def save(matrices, name="autumn", benefit=1.0):
    return matrices.save(MODEL, name, content(benefit), "ann", nothing)


@pytest.mark.thorough
def test_another_process_sees_changes_within_a_second_and_this_one_at_once(
    database, other
):
    here, there = SavedMatrices(database), SavedMatrices(other)
    save(here, "before")
    here.start()
    there.start()
    try:
        assert there.of(MODEL).keys() == {"before", "before:1"}
        saved = save(here)
        assert here.of(MODEL)["autumn"] is here.of(MODEL)["autumn:1"]
        eventually(lambda: there.of(MODEL).get("autumn") == saved)
        second = save(here, benefit=2.0)
        eventually(lambda: there.of(MODEL)["autumn"] == second)
        assert there.of(MODEL)["autumn:1"] == saved
        here.delete(MODEL, "autumn", nothing)
        third = save(here, benefit=3.0)
        assert third.version == 3
        eventually(
            lambda: (
                there.of(MODEL).keys() == {"before", "before:1", "autumn", "autumn:3"}
            )
        )
        with database.writing() as connection:
            here.remove(connection, MODEL)
        eventually(lambda: not (here.of(MODEL) or there.of(MODEL)))
        assert save(here, benefit=3.0).version == 4
    finally:
        here.stop()
        there.stop()


def test_changes_at_once_get_numbers_of_their_own(database, other):
    """Two processes, each with several versions; none is lost from any view."""
    both = [SavedMatrices(each) for each in (database, other)]
    begin = Barrier(2)

    def work(matrices, first):
        begin.wait()
        for i in range(5):
            save(matrices, benefit=first + i)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, both, (0, 10)))
    for matrices in both:
        found = matrices.read(MODEL).items()
        assert [
            saved.version for reference, saved in found if reference == saved.reference
        ] == list(range(1, 11))
        assert {f"autumn:{i}" for i in range(1, 11)} < matrices.of(MODEL).keys()


ROOM = 2 * (len(content()) + 1_000)


def test_a_model_has_room_for_so_many(database, monkeypatch):
    monkeypatch.setattr(saved_matrices, "MOST_BYTES", ROOM)
    matrices = SavedMatrices(database)
    entries = []
    for benefit in (1.0, 1, 2.0):  # the newest content is not saved again
        matrices.save(
            MODEL,
            "a",
            content(benefit),
            "ann",
            lambda _, saved: entries.append(saved.version),
        )
    assert entries == [1, 2]
    with pytest.raises(Conflict, match=rf"{MODEL}.* {ROOM:,} are allowed: delete"):
        save(matrices, "b")
    assert save(matrices, "a", 2.0).version == 2
    with pytest.raises(NotFound, match="'aa'"):
        matrices.delete(MODEL, "aa", nothing)
    matrices.delete(MODEL, "a", nothing)
    assert save(matrices, "b").version == 3


def test_what_is_not_known_yet_is_told_and_known_when_the_database_answers(
    database, monkeypatch
):
    save(SavedMatrices(database))
    matrices = SavedMatrices(database)

    @contextmanager
    def away():
        raise DatabaseAway("it is stopped")
        yield

    with pytest.raises(NotReady):
        matrices.of(MODEL)
    with monkeypatch.context() as patched:
        patched.setattr(database, "reading", away)
        matrices.start()
    eventually(lambda: is_known(matrices))
    assert matrices.of(MODEL).keys() == {"autumn", "autumn:1"}


def is_known(matrices):
    try:
        return matrices.of(MODEL)
    except NotReady:
        return False
