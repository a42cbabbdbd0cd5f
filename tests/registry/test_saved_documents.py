"""Saved matrices in the database and in memory: what processes see, and how much is kept."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from sqlalchemy import insert

from app.database.engine import DatabaseAway
from app.errors import Conflict, NotFound, NotReady
from app.registry import saved_documents
from app.registry.saved_documents import SavedDocuments
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
    return matrices.save(
        MODEL, "matrix", name, content(benefit), key_name="ann", also=nothing
    )


@pytest.mark.thorough
def test_another_process_sees_changes_within_a_second_and_this_one_at_once(
    database, other
):
    here, there = SavedDocuments(database), SavedDocuments(other)
    save(here, "before")
    here.start()
    there.start()
    try:
        assert there.of(MODEL, "matrix").keys() == {"before", "before:1"}
        saved = save(here)
        assert (
            here.of(MODEL, "matrix")["autumn"] is here.of(MODEL, "matrix")["autumn:1"]
        )
        eventually(lambda: there.of(MODEL, "matrix").get("autumn") == saved)
        second = save(here, benefit=2.0)
        eventually(lambda: there.of(MODEL, "matrix")["autumn"] == second)
        assert there.of(MODEL, "matrix")["autumn:1"] == saved
        here.delete(MODEL, "matrix", "autumn", nothing)
        third = save(here, benefit=3.0)
        assert third.version == 3
        eventually(
            lambda: (
                there.of(MODEL, "matrix").keys()
                == {"before", "before:1", "autumn", "autumn:3"}
            )
        )
        with database.writing() as connection:
            here.remove(connection, MODEL)
        eventually(lambda: not (here.of(MODEL, "matrix") or there.of(MODEL, "matrix")))
        assert save(here, benefit=3.0).version == 4
    finally:
        here.stop()
        there.stop()


def test_changes_at_once_get_numbers_of_their_own(database, other):
    """Two processes, each with several versions; none is lost from any view."""
    both = [SavedDocuments(each) for each in (database, other)]
    begin = Barrier(2)

    def work(matrices, first):
        begin.wait()
        for i in range(5):
            save(matrices, benefit=first + i)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, both, (0, 10)))
    for matrices in both:
        found = matrices.read(MODEL, "matrix").items()
        assert [
            saved.version for reference, saved in found if reference == saved.reference
        ] == list(range(1, 11))
        assert {f"autumn:{i}" for i in range(1, 11)} < matrices.of(
            MODEL, "matrix"
        ).keys()


ROOM = 2 * (len(content()) + 1_000)


def test_a_model_has_room_for_so_many(database, monkeypatch):
    monkeypatch.setattr(saved_documents, "MOST_BYTES", ROOM)
    matrices = SavedDocuments(database)
    entries = []
    for benefit in (1.0, 1, 2.0):  # the newest content is not saved again
        matrices.save(
            MODEL,
            "matrix",
            "a",
            content(benefit),
            key_name="ann",
            also=lambda _, saved: entries.append(saved.version),
        )
    assert entries == [1, 2]
    with pytest.raises(Conflict, match=rf"{MODEL}.* {ROOM:,} are allowed: delete"):
        save(matrices, "b")
    assert save(matrices, "a", 2.0).version == 2
    with pytest.raises(NotFound, match="'aa'"):
        matrices.delete(MODEL, "matrix", "aa", nothing)
    matrices.delete(MODEL, "matrix", "a", nothing)
    assert save(matrices, "b").version == 3


def test_what_is_not_known_yet_is_told_and_known_when_the_database_answers(
    database, monkeypatch
):
    save(SavedDocuments(database))
    matrices = SavedDocuments(database)

    @contextmanager
    def away():
        raise DatabaseAway("it is stopped")
        yield

    with pytest.raises(NotReady):
        matrices.of(MODEL, "matrix")
    with monkeypatch.context() as patched:
        patched.setattr(database, "reading", away)
        matrices.start()
    eventually(lambda: is_known(matrices))
    assert matrices.of(MODEL, "matrix").keys() == {"autumn", "autumn:1"}


def is_known(matrices):
    try:
        return matrices.of(MODEL, "matrix")
    except NotReady:
        return False
