"""A process that starts without the store, or without the database, answers with the copies on its own disk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import joblib
import pytest

from app.database import DatabaseAway
from app.errors import NotFound, NotReady, Unavailable
from app.registry import copies as module
from app.registry.copies import Copies, copies_of
from app.registry.snapshot import Snapshot
from app.storage import store_calls
from tests.registry.making import KEY, publish
from tests.registry.test_preloading import soon

in_a_bucket = pytest.mark.parametrize("models", ["s3"], indirect=True)


@pytest.fixture
def replica(another, models, tmp_path, monkeypatch, impatient):
    """Make a started view of the registry whose copies are in one folder, as of one service that is restarted."""
    monkeypatch.setattr(store_calls, "_REST_SECONDS", 0.0)
    running = []

    def make(*, limit=2**30, key=None, database=None, **changes):
        for before in running:
            before.stop()
        copies = copies_of(str(models), tmp_path / "copies", limit, signing_key=key, allow_version_skew=False)
        given = {} if database is None else {"database": database}
        registry = another(copies=copies, signing_key=key, refresh=False, **given, **changes)
        registry.prepare()
        registry.start()
        running.append(registry)
        return registry

    yield make
    for registry in running:
        registry.stop()


@pytest.fixture
def cut(way, monkeypatch):
    """Put the store behind a network that can be cut."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    return way


def files_in(tmp_path: Path) -> set[str]:
    root = next((tmp_path / "copies").iterdir())
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@in_a_bucket
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.thorough
def test_a_restart_without_the_store_is_ready_and_answers(another, replica, cut, key):
    """With all that aliases and names meant, and no other process asks the store for anything."""
    owner = another(signing_key=key)
    for _ in range(2):
        publish(owner)
    owner.set_alias("triage", "live", 1, "ann")
    first = replica(key=key)
    assert soon(lambda: first.preloader.complete)
    cut.kill()

    again = replica(key=key)

    assert soon(lambda: again.preloader.complete)
    assert again.ready
    assert [again.load(reference).version for reference in ("triage@live", "triage", "triage:2")] == [1, 2, 2]
    with again.artifact("triage", 1)[1] as file:
        assert file.read()
    assert again.preloader.refused == {}


@in_a_bucket
@pytest.mark.thorough
def test_a_version_published_while_the_store_is_cut_is_answered_with_the_one_before(another, replica, cut, registry):
    """Also by a process that starts only then."""
    publish(registry)
    first = replica()
    assert soon(lambda: first.preloader.complete and first.cached("triage"))
    assert soon(lambda: first._copies.read_index() is not None)
    first.stop()
    publish(registry)
    cut.kill()

    again = replica()

    assert soon(lambda: again.load("triage").version == 1)
    assert not again.preloader.complete
    cut.start()
    assert soon(lambda: again.preloader.complete)
    assert again.load("triage").version == 2


@in_a_bucket
def test_a_start_without_the_database_answers_from_the_copy_of_the_index(registry, replica, another, monkeypatch):
    publish(registry)
    registry.set_alias("triage", "live", 1, "ann")
    first = replica()
    assert soon(lambda: first._copies.read_index() is not None and first.cached("triage@live"))
    first.stop()
    reading = registry._database.reading

    def away(**_named):
        raise DatabaseAway("it is switched off")

    monkeypatch.setattr(registry._database, "reading", away)

    again = replica()

    assert again.ready
    assert again.resolve("triage@live") == ("triage", 1)
    assert again.load("triage@live").version == 1
    with pytest.raises(NotFound):
        again.resolve("triage@other")
    monkeypatch.setattr(registry._database, "reading", reading)
    registry.set_alias("triage", "other", 1, "ann")
    assert soon(lambda: "triage@other" in again._snapshot.references)


@in_a_bucket
def test_without_a_copy_of_the_index_nothing_is_known_until_the_database_answers(registry, replica, monkeypatch):
    def away(**_named):
        raise DatabaseAway("it is switched off")

    monkeypatch.setattr(registry._database, "reading", away)

    again = replica()

    assert not again.ready
    with pytest.raises(NotReady):
        again.resolve("triage")


@in_a_bucket
@pytest.mark.parametrize("harm", ["cut", "changed", "emptied", "removed", "a trap"])
@pytest.mark.sampled
def test_a_harmed_copy_is_read_anew_and_never_unpickled(another, replica, tmp_path, harm):
    """Whichever file of a model it is; of four models each has another one harmed."""
    owner = another(signing_key=KEY)
    files = {"a": "card.json", "b": "card.hmac", "c": "model.joblib", "d": "holdout.npz"}
    for name in files:
        publish(owner, name)
    first = replica(key=KEY)
    assert soon(lambda: all(map(first.cached, files)))
    copies = [next((tmp_path / "copies").glob(f"*/{name}/1/{file}")) for name, file in files.items()]
    contents = [copy.read_bytes() for copy in copies]
    for copy in copies:
        do_harm(harm, copy, tmp_path / "sprung")

    again = replica(key=KEY)

    assert soon(lambda: all(map(again.cached, files)))
    assert not (tmp_path / "sprung").exists()
    assert [copy.read_bytes() for copy in copies] == contents


def do_harm(harm, copy, sprung):
    content = copy.read_bytes()
    match harm:
        case "cut":
            copy.write_bytes(content[:-3])
        case "changed":
            copy.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "emptied":
            copy.write_bytes(b"")
        case "removed":
            copy.unlink()
        case _:
            joblib.dump(Trap(str(sprung)), copy)


class Trap:
    """Unpickling it leaves a trace."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@in_a_bucket
def test_a_copy_that_another_signed_is_not_loaded_though_its_digests_are_right(another, replica, cut, tmp_path):
    """Somebody who can write the home folder can make a card, digests and index to match, and no signature."""
    publish(another())
    first = replica()
    assert soon(lambda: first.cached("triage") and first._copies.read_index() is not None)
    cut.kill()

    again = replica(key=KEY)

    assert again._copies.read_index() is None
    with pytest.raises(Unavailable):
        again.load("triage")


@pytest.mark.parametrize("harm", [b"", b"{}", b"\n{}", b"x" * 64 + b'\n{"format": 1}', b"\xff\xfe\n\n"])
def test_a_harmed_copy_of_the_index_is_not_used(tmp_path, harm):
    copies = Copies(tmp_path, "s3://bucket/models", 2**30, signing_key=None, allow_version_skew=False)
    snapshot = Snapshot.of(7, {("a", 1): "1" * 64, ("a", 2): "2" * 64}, [("a", "live", 1)])
    assert copies.read_index() is None
    assert copies.write_index(snapshot)
    assert not copies.write_index(snapshot)
    read = copies.read_index()
    assert (read.digests, read.references, read.revision) == (snapshot.digests, snapshot.references, -1)
    other = Copies(tmp_path, "s3://bucket/other", 2**30, signing_key=None, allow_version_skew=False)
    assert other.read_index() is None  # of another store

    next(tmp_path.glob("*/snapshot.json")).write_bytes(harm)

    assert copies.read_index() is None


def test_a_format_of_a_newer_version_is_not_read(tmp_path, monkeypatch):
    copies = Copies(tmp_path, "s3://bucket/models", 2**30, signing_key=KEY, allow_version_skew=False)
    monkeypatch.setattr(module, "FORMAT", 2)
    copies.write_index(Snapshot.of(7, {}, []))
    assert json.loads(next(tmp_path.glob("*/snapshot.json")).read_bytes().partition(b"\n")[2])["format"] == 2
    monkeypatch.undo()

    assert copies.read_index() is None


def test_the_least_recently_used_copy_goes_first_and_the_current_ones_last(tmp_path):
    copies = Copies(tmp_path, "s3://bucket/models", 300, signing_key=None, allow_version_skew=False)
    root = next(tmp_path.iterdir())

    def keep(version, size=100):
        copies.keep(("a", version), {"card.json": b"c" * size})
        if copies.has(("a", version)):
            os.utime(root / "a" / str(version), (version, version))
        return {int(path.name) for path in (root / "a").iterdir()}

    copies.current = frozenset({("a", 1)})
    assert [keep(version) for version in (1, 2, 3)][-1] == {1, 2, 3}
    assert keep(4) == {1, 3, 4}
    assert keep(5, 250) == {5}
    assert keep(6, 301) == {5}  # more than all
    copies.retain({("a", 9)})
    assert list((root / "a").iterdir()) == []


def test_deleted_versions_and_what_is_left_over_do_not_stay_on_the_disk(tmp_path):
    copies = Copies(tmp_path, "s3://bucket/models", 300, signing_key=None, allow_version_skew=False)
    for version in (1, 2):
        copies.keep(("a", version), {"card.json": b"c"})
    copies.retain([("a", 2)])

    assert files_in_folder(tmp_path) == ["a/2/card.json"]


def files_in_folder(folder: Path) -> list[str]:
    root = next(folder.iterdir())
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_disk_that_takes_no_copies_fails_nothing(tmp_path, monkeypatch, caplog):
    copies = Copies(tmp_path, "s3://bucket/models", 300, signing_key=None, allow_version_skew=False)
    shutil.rmtree(next(tmp_path.iterdir()))
    (tmp_path / next(iter(copies._root.parts[-1:]))).write_text("in the way")

    copies.keep(("a", 1), {"card.json": b"c"})
    copies.write_index(Snapshot.of(1, {}, []))
    copies.retain([])

    assert not copies.has(("a", 1))
    assert copies.read_index() is None
    assert "is kept" in caplog.text


def test_copies_are_for_stores_on_the_network_alone(tmp_path):
    def made(url, limit=1, folder=tmp_path):
        return copies_of(url, folder, limit, signing_key=None, allow_version_skew=False)

    assert made("models") is None
    assert made("file:///srv/models") is None
    assert made("s3://bucket/models", 0) is None
    (tmp_path / "file").write_text("in the way")
    assert made("s3://bucket/models", folder=tmp_path / "file") is None
    assert isinstance(made("s3://bucket/models"), Copies)
