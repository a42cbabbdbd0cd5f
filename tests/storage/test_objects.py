"""Folders in a bucket: what two writers at once, a killed one and a remover make of them, and what it costs."""

import io
import re
import time

import obstore
import pytest

from app.errors import NotFound
from app.storage import Storage
from app.storage import storage as module

SEAL = "seal.json"
FILES = {SEAL: b"{}", "table": b"\x00\x01"}
ANY = re.compile("[a-z]/[0-9]")


@pytest.fixture
def store(bucket):
    return Storage(f"{bucket}/root", SEAL)


@pytest.fixture
def other(store):
    """Another process's view of the same bucket."""
    return Storage(store.url, SEAL)


def test_what_another_removed_before_the_seal_was_there_is_written_again(store, other, monkeypatch):
    """The seal of the first round is the writer's own, and no conflict: a folder had only that left."""
    put, removed = obstore.put, []

    def remove_a_part(place, path, *arguments, **named):
        put(place, path, *arguments, **named)
        if path.endswith(SEAL) and not removed:
            removed.append("a/1/table")
            obstore.delete(place, removed[0])

    monkeypatch.setattr(obstore, "put", remove_a_part)

    store.publish("a/1", FILES)

    assert removed
    assert {name: other.read("a/1", name) for name in FILES} == FILES


def test_who_tries_again_after_a_lost_answer_finds_his_own_bytes(store, monkeypatch):
    """The store has written the object, and the answer was lost on the way: that is no conflict."""
    put, lost = obstore.put, []

    def lose(place, path, *arguments, **named):
        put(place, path, *arguments, **named)
        if path not in lost:
            lost.append(path)
            raise TimeoutError

    monkeypatch.setattr(obstore, "put", lose)

    store.publish("a/1", FILES)

    assert store.exists("a/1")


@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError])
def test_a_writer_that_ends_between_two_objects_leaves_no_folder(store, monkeypatch, ending):
    put, written = obstore.put, []

    def die(place, path, *arguments, **named):
        if written:
            raise ending
        written.append(path)
        put(place, path, *arguments, **named)

    monkeypatch.setattr(obstore, "put", die)
    with pytest.raises(ending):
        store.publish("a/1", FILES)
    monkeypatch.undo()

    assert written[0].endswith("table")
    assert not store.exists("a/1")
    with pytest.raises(NotFound):
        store.read("a/1", SEAL)


def test_an_object_is_read_piece_by_piece(store):
    large = bytes(range(256)) * (10 * 2**12)  # 10 MB
    store.publish("a/1", {SEAL: b"{}", "table": large})

    with store.open("a/1", "table") as file:
        assert file.read(1000) == large[:1000]
        pieces = io.BytesIO()
        file.seek(0)
        while piece := file.read(2**20):
            pieces.write(piece)

    assert pieces.getvalue() == large


def test_requests_are_few(store, requests):
    def made():
        names = [name for name, _ in requests]
        requests.clear()
        return names

    store.publish("a/1", FILES)
    assert made() == ["get", "put", "put", "list"]
    store.read("a/1", SEAL)
    store.read("a/1", "table")
    assert made() == ["get"] * 2
    store.write("a/index", b"")
    assert made() == ["put"]
    assert store.folders() == ["a"]
    assert made() == ["list_with_delimiter"]
    store.check()
    assert made() == ["list_with_delimiter"]
    store.remove("a/1")
    assert made() == ["list", "delete", "delete", "list"]


def test_many_are_read_together(store, requests):
    for number in range(20):
        store.write(f"a{number}/seal.json", str(number).encode())
    requests.clear()

    found = store.read_each([f"a{number}" for number in range(25)], SEAL)

    assert found == {f"a{number}": str(number).encode() for number in range(20)}
    assert sorted(requests) == sorted(("get", f"a{number}/{SEAL}") for number in range(25))


def test_a_bucket_alone_is_a_place(bucket):
    store = Storage(bucket, SEAL)
    store.publish("a", FILES)

    assert store.folders() == ["a"]


def test_a_machine_whose_clock_is_ahead_does_not_remove_what_is_being_written(store, monkeypatch):
    """Age is told by the store's clock, not by that of the machine that cleans up."""
    store.write("a/1/big", b"under way")
    monkeypatch.setattr(module, "time", lambda: time.time() + 86_400)

    assert store.clean_up(ANY) == 0
    assert store.folders("a") == ["1"]
