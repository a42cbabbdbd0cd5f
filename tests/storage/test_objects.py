"""Folders in a bucket: what two writers at once, a killed one and a remover make of them, and what it costs."""

import io

import obstore
import pytest

from app.errors import Unavailable
from app.storage import Storage, circuit_breaker

SEAL = "seal.json"
FILES = {SEAL: b"{}", "table": b"\x00\x01"}


@pytest.fixture
def store(bucket):
    return Storage(bucket, SEAL)  # which alone is a place, too


@pytest.fixture
def other(store):
    """Another process's view of the same bucket."""
    return Storage(store.url, SEAL)


def test_what_another_removed_before_the_seal_was_there_is_written_again(
    store, other, monkeypatch
):
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
    put = obstore.put
    monkeypatch.setattr(circuit_breaker, "REST_SECONDS", 0.0)

    def lose(*arguments, **named):
        put(*arguments, **named)
        raise TimeoutError

    with monkeypatch.context() as losing:
        losing.setattr(obstore, "put", lose)
        with pytest.raises(Unavailable):
            store.publish("a/1", FILES)

    store.publish("a/1", FILES)

    assert store.exists("a/1")


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


def test_many_are_read_together(store, requests):
    for number in range(20):
        store.write(f"a{number}/seal.json", str(number).encode())
    requests.clear()

    found = store.read_each([f"a{number}" for number in range(25)], SEAL)

    assert found == {f"a{number}": str(number).encode() for number in range(20)}
    assert sorted(requests) == sorted(
        ("get", f"a{number}/{SEAL}") for number in range(25)
    )
