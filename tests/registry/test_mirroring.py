"""Index files follow the index without holding up its writers."""

import threading
from contextlib import contextmanager
from time import sleep

import pytest

from app.database import Database
from app.errors import Conflict, Unavailable
from app.jobs.queue import Beat, Queue
from app.storage.disk import Disk
from app.storage.objects import Objects
from tests.registry.making import HOLDOUT, everywhere, make_card, make_estimator, publish

STORE = ("check", "publish", "read", "read_many", "open", "write", "folders", "remove", "clean_up")


@pytest.fixture
def calls_in_transactions(monkeypatch):
    """Calls of the store by a thread that holds a transaction that writes."""
    inside, found = threading.local(), []
    writing = Database.writing

    @contextmanager
    def noting(self, **options):
        with writing(self, **options) as connection:
            inside.depth = getattr(inside, "depth", 0) + 1
            try:
                yield connection
            finally:
                inside.depth -= 1

    monkeypatch.setattr(Database, "writing", noting)

    def noting_call(real, name):
        def call(*arguments):
            if getattr(inside, "depth", 0):
                found.append((name, *arguments[1:2]))
            return real(*arguments)

        return call

    for place in (Disk, Objects):
        for name in STORE:
            monkeypatch.setattr(place, name, noting_call(getattr(place, name), name))
    return found


@everywhere
@pytest.mark.thorough
def test_no_change_calls_the_store_in_a_transaction_that_writes(registry, another, calls_in_transactions, tmp_path):
    for _ in range(3):
        publish(registry)
    registry.set_alias("triage", "champion", 1, "ann")
    registry.set_alias("triage", "champion", 2, "ann")
    registry.delete_alias("triage", "champion", "ann")
    registry.delete_version("triage", 1)
    registry.stage(make_card("triage", registry.reserve("triage", "job_1", 1)), make_estimator(), HOLDOUT)
    registry.give_up("triage", 4)
    registry.clean_up()
    registry.catch_up()
    registry.rebuild()
    registry.delete_model("triage", "ann")
    fresh = Database(f"sqlite:///{tmp_path / 'fresh.db'}")
    another(database=fresh).prepare()
    fresh.close()
    assert calls_in_transactions == []


@pytest.mark.parametrize("method", ["write", "remove", "folders"])
@everywhere
@pytest.mark.thorough
def test_a_store_that_hangs_holds_up_no_heartbeat(registry, database, monkeypatch, method):
    """Whatever is being changed while the store hangs: on SQLite there is one write lock for all."""
    for _ in range(2):
        publish(registry)
    queue = Queue(database)
    queue.submit("train", {})
    job = queue.claim("ann")
    hangs, may_end = threading.Event(), threading.Event()

    def hang(*_arguments):
        hangs.set()
        assert may_end.wait(60)
        raise Unavailable("the store does not answer")

    place = type(registry._files.storage._backend)
    works = getattr(place, method)
    monkeypatch.setattr(place, method, hang)
    change = {"write": lambda: registry.set_alias("triage", "champion", 1, "ann")}
    change |= {"remove": lambda: registry.delete_version("triage", 2), "folders": lambda: _rebuild_in_vain(registry)}
    changing = threading.Thread(target=change[method])
    changing.start()
    try:
        assert hangs.wait(60)
        assert queue.beat(job, 0.5, "") is Beat.GO_ON  # DatabaseAway after 15 seconds where it would wait
    finally:
        may_end.set()
        changing.join()
    monkeypatch.setattr(place, method, works)
    registry.catch_up()
    there = registry._files.read_mirror("triage")
    assert (there.aliases, there.versions) == (registry.model("triage").aliases, _versions(registry))


def _rebuild_in_vain(registry):
    with pytest.raises(Unavailable):
        registry.rebuild()


def _versions(registry):
    return sorted(line.version for line in registry.model("triage").versions)


@pytest.mark.parametrize("models", ["s3"], indirect=True)
def test_what_changed_while_the_store_hung_is_written_when_it_answers(registry, another, way, impatient, monkeypatch):
    publish(registry)
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    replica = another()
    way.hang()
    replica.set_alias("triage", "champion", 1, "ann")
    way.kill()
    way.start()
    sleep(0.5)  # a store that failed is left alone for a moment
    assert replica.catch_up() == 1
    assert registry._files.read_mirror("triage").aliases == {"champion": 1}


def test_of_two_writers_at_once_the_newest_content_stays(registry, another, monkeypatch):
    """The first is stopped with the older content in its hands while the second changes and writes."""
    publish(registry)
    publish(registry)
    slow, fast = another(), another()
    write, begun, may_end = slow._mirroring._write, threading.Event(), threading.Event()

    def stopped(mirror):
        if not begun.is_set():
            begun.set()
            may_end.wait(30)
        write(mirror)

    monkeypatch.setattr(slow._mirroring, "_write", stopped)
    changing = threading.Thread(target=slow.set_alias, args=("triage", "champion", 1, "ann"))
    changing.start()
    begun.wait(30)
    fast.set_alias("triage", "champion", 2, "bob")
    assert registry._files.read_mirror("triage").aliases == {"champion": 2}
    may_end.set()
    changing.join()
    assert registry._files.read_mirror("triage").aliases == {"champion": 2}
    assert registry.catch_up() == 0


def test_a_version_is_in_the_index_file_before_it_is_published(registry):
    """The database is lost right after the commit, before anything else is written."""
    card = registry.stage(make_card("triage", registry.reserve("triage", "job_1", 1)), make_estimator())
    registry.announce(card)
    assert registry._files.read_mirror("triage").versions == [1]
    assert registry.rebuild() == 1  # rather brought to light than lost: nobody can say that it was not published
    with pytest.raises(Conflict, match="published already"), registry._database.writing() as connection:
        registry.add(connection, card)


def test_a_rebuild_waits_for_changes_that_are_not_in_the_folder_yet(registry, another, monkeypatch):
    """An alias that moves while the folder is read is not lost."""
    publish(registry)
    other, moved = another(), []
    read = registry._files.read_mirror

    def read_slowly(name):
        mirror = read(name)
        if not moved:
            moved.append(name)
            other.set_alias("triage", "champion", 1, "ann")
        return mirror

    monkeypatch.setattr(registry._files, "read_mirror", read_slowly)
    registry.rebuild()
    assert registry.model("triage").aliases == {"champion": 1}


def test_a_rebuild_gives_up_where_changes_never_end(registry, another, monkeypatch):
    publish(registry)
    other = another()
    read = registry._files.read_mirror

    def read_slowly(name):
        other.reserve("triage", "job_1", 1)
        return read(name)

    monkeypatch.setattr(registry._files, "read_mirror", read_slowly)
    with pytest.raises(Conflict, match="the index changed during each attempt"):
        registry.rebuild()
    assert registry.load("triage:1").version == 1


def test_a_number_that_was_given_up_is_never_published(registry):
    card = registry.stage(make_card("triage", registry.reserve("triage", "job_1", 1)), make_estimator())
    registry.give_up("triage", 1)
    with pytest.raises(Conflict):
        registry.announce(card)
    again = registry.stage(card, make_estimator())  # its author was stopped before it wrote the folder
    with pytest.raises(Conflict, match="not reserved"):
        registry.announce(again)
    with pytest.raises(Conflict, match="not reserved"), registry._database.writing() as connection:
        registry.add(connection, again)
    assert [one.key for one in registry.reserved("job_1")] == [("triage", 1)]
    registry.give_up("triage", 1)
    assert registry._files.storage.folders("triage") == []
