"""Folders that exist whole or not at all, on a disk, in memory and in a bucket."""

import os
import time
import uuid
from pathlib import Path

import pytest

from app.errors import Conflict, NotFound, Unavailable
from app.storage import Storage

FILES = {"seal.json": b"{}", "table": b"\x00\x01"}


@pytest.fixture
def storage(storage_url):
    return Storage(storage_url, seal="seal.json")


@pytest.fixture
def disk(tmp_path):
    return Storage(str(tmp_path / "root"), seal="seal.json")


def test_a_published_folder_reads_back(storage):
    storage.publish("a/1", FILES)

    assert storage.exists("a/1")
    assert {name: storage.read("a/1", name) for name in FILES} == FILES
    assert storage.folders() == ["a"]
    assert storage.folders("a") == ["1"]


def test_an_opened_file_can_be_read_twice(storage):
    storage.publish("a/1", FILES)

    with storage.open("a/1", "table") as file:
        assert file.read() == b"\x00\x01"
        file.seek(0)
        assert file.read() == b"\x00\x01"


def test_a_folder_is_not_overwritten(storage):
    storage.publish("a", FILES)

    with pytest.raises(Conflict):
        storage.publish("a", {**FILES, "table": b"other"})
    assert storage.read("a", "table") == FILES["table"]


def test_a_folder_needs_its_seal(storage):
    with pytest.raises(ValueError, match="seal"):
        storage.publish("a", {"table": b""})


@pytest.mark.parametrize("ask", ["read", "open"])
def test_what_is_absent_is_not_found(storage, ask):
    storage.publish("a", FILES)

    with pytest.raises(NotFound):
        getattr(storage, ask)("a", "other")
    with pytest.raises(NotFound):
        getattr(storage, ask)("b", "table")
    assert storage.folders("b") == []


def test_a_folder_without_its_seal_does_not_exist(storage):
    """What a killed process left in an object store has no seal to be read first, and can be removed."""
    storage.write("a/table", b"half")

    assert not storage.exists("a")
    with pytest.raises(NotFound):
        storage.read("a", "seal.json")
    storage.remove("a")
    storage.publish("a", FILES)
    assert storage.read("a", "table") == FILES["table"]


def test_removing_a_folder_leaves_nothing_and_its_neighbours(storage):
    storage.publish("a/1", FILES)
    storage.publish("a/2", FILES)

    storage.remove("a/1")
    storage.remove("a/1")  # nothing happens

    assert not storage.exists("a/1")
    assert storage.folders("a") == ["2"]


def test_a_single_file_is_replaced(storage):
    storage.write("a/index", b"1")
    storage.write("a/index", b"2")

    assert storage.read("a/index") == b"2"
    with pytest.raises(NotFound):
        storage.read("a/other")


@pytest.mark.parametrize("name", ["..", "a/../../b", ".hidden", "a//b", "/etc", "a/", "a\0b"])
def test_no_name_leads_out_of_the_root(storage, name):
    """Names come from callers: none may reach, let alone remove, what lies elsewhere."""
    storage.publish("a", FILES)
    for ask in (
        storage.exists,
        storage.remove,
        storage.folders,
        storage.read,
        lambda name: storage.read(name, "table"),
        lambda name: storage.read("a", name),
        lambda name: storage.write(name, b""),
        lambda name: storage.publish(name, FILES),
    ):
        with pytest.raises(NotFound):
            ask(name)
    assert storage.exists("a")


def test_a_failed_publication_leaves_nothing(disk, monkeypatch):
    monkeypatch.setattr(os, "fsync", _raise(OSError(28, "No space left on device")))

    with pytest.raises(Unavailable, match="No space"):
        disk.publish("a", FILES)
    with pytest.raises(Unavailable, match="No space"):
        disk.write("index", b"")

    assert _names(disk.url) == []


def test_an_interrupted_publication_leaves_nothing(disk, monkeypatch):
    """Not only errors of the disk end a publication: a cancelled job is interrupted wherever it is."""
    monkeypatch.setattr(os, "fsync", _raise(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        disk.publish("a", FILES)

    assert _names(disk.url) == []


def test_two_publishers_of_one_folder_end_with_one_whole_folder(disk, monkeypatch):
    """The second one, who looked before the first had finished, is told of the conflict."""
    disk.publish("a", FILES)
    monkeypatch.setattr(disk, "exists", lambda _: False)

    with pytest.raises(Conflict):
        disk.publish("a", {**FILES, "table": b"other"})

    assert disk.read("a/table") == FILES["table"]
    assert _names(disk.url) == ["a"]


def test_clean_up_removes_what_killed_processes_left_and_nothing_else(disk):
    disk.publish("a/1", FILES)
    disk.write("a/index", b"1")
    half = Path(disk.url, "a", f".2.{uuid.uuid4().hex}")
    half.mkdir()
    (half / "table").write_bytes(b"half")
    Path(disk.url, "a", f".index.{uuid.uuid4().hex}").write_bytes(b"half")
    Path(disk.url, ".gitignore").write_bytes(b"")

    assert disk.clean_up() == 0  # they are young: their writers may be alive
    old = time.time() - 7200
    for entry in [*Path(disk.url).rglob("*"), Path(disk.url, ".gitignore")]:
        os.utime(entry, (old, old))

    assert disk.clean_up() == 2
    assert disk.folders("a") == ["1"]
    assert _names(f"{disk.url}/a") == ["1", "index"]
    assert Path(disk.url, ".gitignore").exists()


def _names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def _raise(error):
    def fail(_descriptor):
        raise error

    return fail
