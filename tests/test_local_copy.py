"""Starts without the database, by what the local copies of tables contain."""

from __future__ import annotations

import json
from threading import current_thread

import pytest
from pydantic import TypeAdapter

from app import local_copy
from app.database import Database, DatabaseAway
from app.errors import NotReady
from app.local_copy import LocalCopy
from app.outcomes.defaults import Defaults
from app.registry.saved_matrices import SavedMatrices
from tests.jobs.waiting import eventually

SAVED = {"model": "triage", "matrix": "autumn", "version": 1, "content": "[{},null]", "created_at": 0.5, "who": "ann"}
UNREADABLE = (
    b"", b"\0", b"\xff", b"{", b"null", b"1", b'"text"', b"[1]", b"[[1]]", b"[null]", b"[[]]", b'["ab"]', b"[{}]",
    b'{"triage": 1}', b'{"triage": null}', b'{"triage": "yes"}', b'{"triage": {}}', b"[" * 5_000,
    *(json.dumps([{**SAVED, name: value}]).encode() for name in SAVED for value in (None, [], {})),
    *(json.dumps([SAVED, {key: SAVED[key] for key in SAVED if key != name}]).encode() for name in SAVED),
)  # fmt: skip


@pytest.fixture
def database(tmp_path, monkeypatch):
    database = Database(f"sqlite:///{tmp_path}/away.sqlite")

    def away():
        raise DatabaseAway("it is stopped")

    monkeypatch.setattr(database, "reading", away)
    yield database
    database.close()


def started(store):
    store.start()
    store.stop()
    return store


@pytest.mark.parametrize("content", UNREADABLE)
def test_a_start_without_the_database_goes_on_by_a_copy_that_cannot_be_read(content, database, tmp_path):
    copy = tmp_path / "copy.json"
    copy.write_bytes(content)
    assert started(Defaults(database, copy)).of("triage") is None
    with pytest.raises(NotReady):
        started(SavedMatrices(database, copy)).of("triage")


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_start_without_the_database_goes_on_without_a_copy(is_folder, database, tmp_path):
    copy = tmp_path / "copy.json"
    if is_folder:
        copy.mkdir()
    assert started(Defaults(database, copy)).of("triage") is None
    with pytest.raises(NotReady):
        started(SavedMatrices(database, copy)).of("triage")


def test_the_last_content_is_kept_when_it_stops_and_none_before_it_is_due(tmp_path):
    path = tmp_path / "copy.json"
    copy = LocalCopy(path, "numbers", TypeAdapter(list[int]))
    copy.start()
    copy.keep(iter([b"[1", b"]"]))
    copy.keep(iter([b"[2", b",3]"]))
    assert copy.read() is None
    copy.stop()
    assert copy.read() == [2, 3]
    assert list(tmp_path.iterdir()) == [path]


def test_the_copy_is_written_in_a_thread_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(local_copy, "_SECONDS", 0.01)
    copy = LocalCopy(tmp_path / "copy.json", "numbers", TypeAdapter(list[int]))
    threads = []

    def parts():
        threads.append(current_thread().name)
        yield b"[1]"

    copy.start()
    try:
        copy.keep(parts())
        eventually(lambda: copy.read() == [1])
    finally:
        copy.stop()
    assert threads == ["copy of numbers"]


def test_copies_of_earlier_releases_are_read(database, tmp_path):
    recording, matrices = tmp_path / "recording.json", tmp_path / "matrices.json"
    recording.write_text('{"triage": false, "heart": true}')
    matrices.write_text(json.dumps([SAVED, {**SAVED, "version": 2, "created_at": 3}]))
    defaults = started(Defaults(database, recording))
    assert [defaults.of(model) for model in ("triage", "heart", "ward")] == [False, True, None]
    known = started(SavedMatrices(database, matrices)).of("triage")
    versions = {reference: saved.version for reference, saved in known.items()}
    assert versions == {"autumn:1": 1, "autumn:2": 2, "autumn": 2}
    assert known["autumn"].stated() == ({}, None)
