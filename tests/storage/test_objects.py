"""Folders in a bucket: what two writers at once, a killed one and a remover make of them, and what it costs."""

import io
import re
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import s3fs

from app.errors import Conflict, NotFound, Unavailable
from app.storage import Storage, objects
from app.storage.objects import Objects

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


@pytest.fixture
def requests(monkeypatch):
    """The requests that are made from now on, by their S3 names."""
    made = []
    call = s3fs.S3FileSystem._call_s3

    async def count(self, method, *arguments, **named):
        made.append(method)
        return await call(self, method, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", count)
    return made


def test_two_writers_of_one_folder_end_with_one_whole_folder(store, other):
    """Each of the two is told the truth: one has won, and what is there is all his."""
    for number in range(5):
        start = Barrier(2)

        def publish(who, content, folder=f"a/{number}", start=start):
            start.wait()
            try:
                who.publish(folder, {SEAL: content, "table": content})
            except Conflict:
                return None
            return content

        with ThreadPoolExecutor(2) as pool:
            won = list(filter(None, pool.map(publish, (store, other), (b"one", b"two"))))

        assert len(won) <= 1  # none, where each was in the other's way
        if won:
            assert {store.read(f"a/{number}", name) for name in FILES} == set(won)
        else:
            assert not store.exists(f"a/{number}")


def test_two_writers_of_the_same_bytes_both_have_written_them(store, other):
    for number in range(4):
        with ThreadPoolExecutor(2) as pool:
            published = [pool.submit(_published, who, f"a/{number}") for who in (store, other)]
        assert any(future.result() for future in published)
        assert {name: other.read(f"a/{number}", name) for name in FILES} == FILES


def test_a_folder_that_is_published_and_removed_at_once_is_whole_or_gone(store, other):
    for number in range(6):
        folder = f"a/{number}"
        with ThreadPoolExecutor(2) as pool:
            both = pool.submit(_done, _published, store, folder), pool.submit(_done, other.remove, folder)
        for future in both:
            future.result()

        there = store.read_each([f"a/{number}"], "table")
        assert store.exists(folder) == bool(there)


def test_what_another_removed_before_the_seal_was_there_is_written_again(store, other, monkeypatch):
    """The seal of the first round is the writer's own, and no conflict: a folder had only that left."""
    call, removed = s3fs.S3FileSystem._call_s3, []

    async def remove_a_part(self, method, *arguments, **named):
        answer = await call(self, method, *arguments, **named)
        if method == "put_object" and named["Key"].endswith(SEAL) and not removed:
            removed.append(named["Key"].replace(SEAL, "table"))
            await call(self, "delete_object", Bucket=named["Bucket"], Key=removed[0])
        return answer

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", remove_a_part)

    store.publish("a/1", FILES)

    assert removed
    assert {name: other.read("a/1", name) for name in FILES} == FILES


def test_who_tries_again_after_a_lost_answer_finds_his_own_bytes(store, monkeypatch):
    """The store has written the object, and the answer was lost on the way: that is no conflict."""
    call, lost = s3fs.S3FileSystem._call_s3, []

    async def lose(self, method, *arguments, **named):
        answer = await call(self, method, *arguments, **named)
        if method == "put_object" and named["Key"] not in lost:
            lost.append(named["Key"])
            raise TimeoutError
        return answer

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", lose)

    store.publish("a/1", FILES)

    assert store.exists("a/1")


def test_what_another_left_half_written_is_not_mixed_with(store):
    store.write("a/1/table", b"of somebody else")

    with pytest.raises(Conflict, match=r"a/1/table .* try again later"):
        store.publish("a/1", FILES)

    assert not store.exists("a/1")
    assert store.read("a/1/table") == b"of somebody else"


def test_sweeping_removes_old_folders_without_a_seal_and_nothing_else(store):
    store.publish("a/1", FILES)
    store.write("a/2/table", b"half")
    store.write("a/index", b"loose")
    store.write("notes/of/somebody", b"else")

    assert store.clean_up(ANY) == 0  # they are young: their writers may be alive
    assert store.clean_up(ANY, older_than_seconds=-60) == 1

    assert store.folders("a") == ["1"]
    assert store.exists("a/1")
    assert [store.read(path) for path in ("a/index", "notes/of/somebody")] == [b"loose", b"else"]


def test_memory_is_cleaned_up_the_same_way():
    store = Storage("memory://removed", SEAL)
    store.write("a/2/table", b"half")

    assert (store.clean_up(ANY), store.clean_up(ANY, older_than_seconds=-60)) == (0, 1)
    assert store.folders("a") == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError])
def test_a_writer_that_ends_between_two_objects_leaves_no_folder(store, monkeypatch, ending):
    files, written = store._place._fs, []
    put = files.pipe_file

    def die(path, *arguments, **named):
        if written:
            raise ending
        written.append(path)
        put(path, *arguments, **named)

    monkeypatch.setattr(files, "pipe_file", die)
    with pytest.raises(ending):
        store.publish("a/1", FILES)
    monkeypatch.undo()

    assert written[0].endswith("table")
    assert not store.exists("a/1")
    with pytest.raises(NotFound):
        store.read("a/1", SEAL)


def test_large_files_go_in_parts_and_are_created_as_well(store, other, requests, monkeypatch):
    monkeypatch.setattr(store._place, "_writing", {"chunksize": 5 * 2**20})
    large = bytes(range(256)) * (11 * 2**12)  # 11 MB

    store.publish("a/1", {SEAL: b"{}", "table": large})

    assert requests.count("upload_part") == 3
    assert other.read("a/1", "table") == large
    monkeypatch.setattr(other._place, "_has", lambda _: False)  # as a writer who looked too early
    with pytest.raises(Conflict):
        other.publish("a/1", {SEAL: b"[]", "table": large + b"other"})
    assert store.read("a/1", SEAL) == b"{}"


def test_an_upload_in_parts_that_is_broken_off_is_done_again(store, monkeypatch):
    """The answer to the last request of the first try is lost, and then there is nothing to be broken off either."""
    monkeypatch.setattr(store._place, "_writing", {"chunksize": 5 * 2**20})
    call, lost = s3fs.S3FileSystem._call_s3, []

    async def lose(self, method, *arguments, **named):
        answer = await call(self, method, *arguments, **named)
        if method == "complete_multipart_upload" and not lost:
            lost.append(method)
            raise TimeoutError
        return answer

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", lose)
    large = bytes(11 * 2**20)

    store.publish("a/1", {SEAL: b"{}", "table": large})

    assert lost
    assert store.read("a/1", "table") == large


def test_an_object_is_read_piece_by_piece(store, requests):
    """Four megabytes at a time, so that a large one does not stand in memory."""
    large = bytes(range(256)) * (10 * 2**12)  # 10 MB
    store.publish("a/1", {SEAL: b"{}", "table": large})
    requests.clear()

    with store.open("a/1", "table") as file:
        assert file.read(1000) == large[:1000]
        assert requests.count("get_object") == 1
        assert len(file._file.cache.cache) < 5 * 2**20
        pieces = io.BytesIO()
        file.seek(0)
        while piece := file.read(2**20):
            pieces.write(piece)

    assert pieces.getvalue() == large


def test_requests_are_few(store, requests):
    store.publish("a/1", FILES)
    assert requests == ["get_object", "put_object", "put_object", "list_objects_v2"]
    requests.clear()
    store.read("a/1", SEAL)
    store.read("a/1", "table")
    assert requests == ["get_object"] * 2
    requests.clear()
    store.write("a/index", b"")
    assert requests == ["put_object"]
    requests.clear()
    assert store.folders() == ["a"]
    assert requests == ["list_objects_v2"]
    requests.clear()
    store.check()
    assert requests == ["get_object"]
    requests.clear()
    store.remove("a/1")
    assert requests[:3] == ["list_objects_v2", "delete_object", "delete_object"]
    assert len(requests) <= 7


def test_many_are_read_together(store, requests):
    for number in range(20):
        store.write(f"a{number}/seal.json", str(number).encode())
    requests.clear()

    found = store.read_each([f"a{number}" for number in range(25)], SEAL)

    assert found == {f"a{number}": str(number).encode() for number in range(20)}
    assert requests == ["get_object"] * 25


def test_a_store_without_conditions_is_written_all_the_same(store, monkeypatch):
    files, refused = store._place._fs, []
    put = files.pipe_file

    def refuse(path, content, mode="overwrite", **named):
        if mode == "create":
            refused.append(path)
            raise OSError(38, "A header you provided implies functionality that is not implemented")
        put(path, content, **named)

    monkeypatch.setattr(files, "pipe_file", refuse)
    store.publish("a/1", FILES)

    assert len(refused) == 2
    with pytest.raises(Conflict):
        store.publish("a/1", FILES)
    assert store.read("a/1", "table") == FILES["table"]


def test_a_bucket_alone_is_a_place(bucket):
    store = Storage(bucket, SEAL)
    store.publish("a", FILES)

    assert store.folders() == ["a"]
    assert isinstance(store._place, Objects)


def _done(work, *arguments):
    """Its result; who is told to try again later does so, as all callers do."""
    while True:
        try:
            return work(*arguments)
        except Unavailable:
            continue


def _published(store, folder):
    try:
        store.publish(folder, FILES)
    except Conflict:
        return False
    return True


def test_a_machine_whose_clock_is_ahead_does_not_remove_what_is_being_written(store, monkeypatch):
    """Age is told by the store's clock, not by that of the machine that cleans up."""
    store.write("a/1/big", b"under way")
    monkeypatch.setattr(objects, "time", lambda: time.time() + 86_400)

    assert store.clean_up(ANY) == 0
    assert store.folders("a") == ["1"]
