"""Folders that exist whole or not at all, on a disk and in a bucket; files that are kept within a number of bytes."""

import os
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from app.errors import Conflict, NotFound, Unavailable
from app.storage import FileCache, Storage

FILES = {"seal.json": b"{}", "table": b"\x00\x01"}
ANY = re.compile("[a-z]/[0-9]")


@pytest.fixture
def storage(storage_url):
    return Storage(storage_url, seal="seal.json")


@pytest.fixture
def other(storage):
    """Another process's view of the same place."""
    return Storage(storage.url, seal="seal.json")


@pytest.fixture
def disk(tmp_path):
    return Storage(str(tmp_path / "root"), seal="seal.json")


def test_a_folder_is_there_whole_until_it_is_removed(storage, other):
    storage.publish("a/1", FILES)
    storage.publish("a/2", FILES)

    assert storage.exists("a/1")
    assert {name: other.read("a/1", name) for name in FILES} == FILES
    assert (storage.folders(), storage.folders("a"), storage.folders("b")) == (
        ["a"],
        ["1", "2"],
        [],
    )
    with pytest.raises(Conflict):
        other.publish("a/1", {**FILES, "table": b"other"})
    assert storage.read("a/1", "table") == FILES["table"]
    for ask in (storage.read, storage.open):
        for absent in (("a/1", "other"), ("b", "table")):
            with pytest.raises(NotFound):
                ask(*absent)
    other.remove("a/1")
    other.remove("a/1")  # nothing happens
    assert not storage.exists("a/1")
    assert storage.folders("a") == ["2"]


def test_what_a_killed_writer_left_is_no_folder_and_not_mixed_with(storage):
    storage.write("a/1/table", b"of somebody else")

    assert not storage.exists("a/1")
    with pytest.raises(NotFound):
        storage.read("a/1", "seal.json")
    with pytest.raises(Conflict, match=r"a/1/table .* try again later"):
        storage.publish("a/1", FILES)
    assert storage.read("a/1/table") == b"of somebody else"
    storage.remove("a/1")
    storage.publish("a/1", FILES)
    assert storage.read("a/1", "table") == FILES["table"]


def test_a_single_file_is_replaced(storage):
    storage.write("a/index", b"1")
    storage.write("a/index", b"2")

    assert storage.read("a/index") == b"2"


@pytest.mark.parametrize(
    "name", ["..", "a/../../b", ".hidden", "a//b", "/etc", "a/", "a\0b"]
)
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


def test_two_writers_of_one_folder_end_with_one_whole_folder(storage, other):
    """Each of the two is told the truth: one has won, and what is there is all his. Of the same bytes both are his."""
    for number, other_content in enumerate([b"two"] * 5 + [b"one"] * 3):
        start = Barrier(2)

        def publish(who, content, folder=f"a/{number}", start=start):
            start.wait()
            try:
                who.publish(folder, {"seal.json": content, "table": content})
            except Conflict:
                return None
            return content

        with ThreadPoolExecutor(2) as pool:
            won = list(
                filter(
                    None, pool.map(publish, (storage, other), (b"one", other_content))
                )
            )

        assert (
            len(won) <= 1 or other_content == b"one"
        )  # none, where each was in the other's way
        if won:
            assert {storage.read(f"a/{number}", name) for name in FILES} == set(won)
        else:
            assert not storage.exists(f"a/{number}")


def test_sweeping_removes_old_folders_without_a_seal_and_nothing_else(storage):
    storage.publish("a/1", FILES)
    storage.write("a/2/table", b"half")
    storage.write("a/index", b"loose")
    storage.write("notes/of/somebody", b"else")

    assert storage.clean_up(ANY) == 0  # they are young: their writers may be alive
    assert storage.clean_up(ANY, older_than_seconds=-60) == 1

    assert storage.folders("a") == ["1"]
    assert storage.exists("a/1")
    assert [storage.read(path) for path in ("a/index", "notes/of/somebody")] == [
        b"loose",
        b"else",
    ]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), Unavailable),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failed_or_interrupted_publication_leaves_nothing(
    disk, monkeypatch, error, raised
):
    """A cancelled job is interrupted wherever it is."""
    monkeypatch.setattr(os, "fsync", _raise(error))

    with pytest.raises(raised):
        disk.publish("a", FILES)
    with pytest.raises(raised):
        disk.write("index", b"")

    assert _names(disk.url) == []


def test_clean_up_removes_what_killed_processes_left_on_a_disk_and_nothing_else(disk):
    root = Path(disk.url)
    disk.publish("a/1", FILES)
    disk.write("a/index", b"1")
    (root / "a" / "2").mkdir()
    for place in ("a/2", "a/1", "a", "."):
        (root / place / f".{uuid.uuid4().hex}").write_bytes(b"half")
    (root / ".gitignore").write_bytes(b"")

    assert disk.clean_up(ANY) == 0  # they are young: their writers may be alive
    for entry in root.rglob("*"):
        os.utime(entry, (time.time() - 90_000,) * 2)
    disk.publish("a/3", FILES)

    assert disk.clean_up(ANY) == 4
    assert disk.folders("a") == ["1", "3"]
    assert _names(f"{disk.url}/a") == ["1", "3", "index"]
    assert _names(f"{disk.url}/a/1") == sorted(FILES)
    assert _names(root) == [".gitignore", "a"]


def _names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def _raise(error):
    def fail(_descriptor):
        raise error

    return fail


@pytest.fixture
def cache(tmp_path):
    return FileCache(tmp_path / "kept", 300)


def size_of(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_the_least_recently_read_goes_first(cache, tmp_path):
    for age, name in enumerate("abc"):
        cache.keep(name, name.encode() * 100)
        os.utime(tmp_path / "kept" / name, (age, age))
    assert cache.get("a") == b"a" * 100  # from now on the most recent

    cache.keep("d", b"d" * 150)

    assert [cache.get(name) is not None for name in "abcd"] == [
        True,
        False,
        False,
        True,
    ]
    cache.keep("e", b"e" * 301)
    assert cache.get("e") is None
    assert size_of(tmp_path / "kept") == 250


def test_a_disk_that_takes_nothing_fails_nothing(cache, tmp_path, caplog):
    (tmp_path / "kept").write_text("in the way")

    cache.keep("a", b"a")

    assert cache.get("a") is None
    assert "no copy of a file of a model is kept" in caplog.text
