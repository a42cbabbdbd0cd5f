"""What aliases and bare names mean is in memory before it is asked for, and readiness never waits in vain."""

from threading import Event
from types import SimpleNamespace

import pytest

from app.errors import Damaged, Unavailable
from app.registry.preloading import Preloader
from app.registry.snapshot import Snapshot
from tests.jobs.waiting import eventually
from tests.registry.making import make_estimator, publish


@pytest.fixture
def preloaded(another):
    """Make another view of the registry that loads what is current, and wait for it."""
    opened = []

    def make(**changes):
        registry = another(**changes)
        opened.append(registry)
        registry.start()
        eventually(lambda: registry.preloader.complete)
        return registry

    yield make
    for registry in opened:
        registry.stop()


def exists(revision, *names):
    """A view of version 1 of each, of one byte."""
    keys = [(name, 1) for name in names]
    return Snapshot.of(
        revision, dict.fromkeys(keys, "digest"), dict.fromkeys(keys, 1), []
    )


def test_aliases_and_bare_names_are_loaded_at_the_start_and_after_each_change(
    registry, preloaded
):
    for _ in range(3):
        publish(registry)
    publish(registry, "other")
    registry.set_alias("triage", "live", 1, "ann")

    replica = preloaded()

    loaded = {
        reference
        for reference in ("triage@live", "triage", "other")
        if replica.cache.get(reference)
    }
    assert loaded == {"triage@live", "triage", "other"}
    assert replica.cache.get("triage:2") is None
    registry.set_alias("triage", "live", 2, "ann")
    eventually(lambda: replica.cache.get("triage:2"))
    newest = publish(registry).version
    eventually(lambda: replica.cache.get(f"triage:{newest}"))


@pytest.mark.parametrize(
    "harm", ["damaged", "missing", "skewed", "too big", "cannot be unpickled"]
)
def test_a_version_that_cannot_be_loaded_is_named_and_not_waited_for(
    registry, preloaded, models, harm
):
    """The others are loaded all the same."""
    changes = {}
    publish(registry, "sound")
    match harm:
        case "skewed":
            publish(registry, "bad", packages={"scikit-learn": "0.1"})
        case "cannot be unpickled":
            publish(registry, "bad", estimator=Unloadable())
        case "too big":
            size = sum(publish(registry, "bad", estimator=make_big()).sizes.values())
            changes["cache_bytes"] = size - 1
        case _:
            publish(registry, "bad")
    if harm == "damaged":
        (models / "bad" / "1" / "model.joblib").write_bytes(b"damaged")
    if harm == "missing":
        (models / "bad" / "1" / "card.json").unlink()

    replica = preloaded(**changes)

    refused = {key: reason for key, reason in replica.preloader.tried.items() if reason}
    assert all(len(reason) > 20 for reason in refused.values())
    assert replica.ready
    assert list(refused) == [("bad", 1)]
    assert ("ValueError: invalid literal" in refused["bad", 1]) == (
        harm == "cannot be unpickled"
    )
    assert replica.cache.get("sound")


def test_aliases_go_before_bare_names_where_not_all_fit(registry, preloaded):
    sizes = [sum(publish(registry).sizes.values()) for _ in range(3)]
    registry.set_alias("triage", "live", 1, "ann")

    replica = preloaded(cache_bytes=sizes[0] + sizes[2] - 1)

    assert replica.cache.get("triage@live")
    assert replica.cache.get("triage") is None
    assert "PAYOFF_CACHE_MB" in replica.preloader.tried["triage", 3]
    assert replica.load("triage").version == 3  # who asks for it gets it


def test_a_store_that_is_away_is_waited_for_and_what_is_tried_once_is_not_tried_again():
    """And the latch stays closed once all were loaded."""
    away, asked = {"b"}, []
    view = SimpleNamespace(now=Snapshot())

    def load(key, _digest):
        asked.append(key[0])
        if key[0] in away:
            raise Unavailable("away")

    preloader = Preloader(lambda: view.now, load, lambda: None, 10)
    preloader.look()
    assert not preloader.complete
    view.now = exists(1, "a", "b", "c")
    for _ in range(2):
        preloader.look()
    assert (preloader.complete, list(preloader.awaited)) == (False, [("b", 1)])
    away.clear()
    for _ in range(3):
        preloader.look()
    assert preloader.complete
    assert asked == ["a", "b", "c", "b", "b"]
    away.add("d")
    view.now = exists(2, "a", "d")
    preloader.look()
    assert (preloader.complete, list(preloader.awaited)) == (True, [("d", 1)])
    view.now = exists(3, "a")
    preloader.look()
    assert not preloader.awaited


def test_what_became_current_during_the_first_look_is_loaded_before_all_is_complete():
    """Requests mean it already, and would wait for the store, which may be away by then."""
    loaded = []
    view = SimpleNamespace(now=exists(0, "a"))

    def load(key, _snapshot):
        loaded.append(key[0])
        if len(loaded) == 1:
            view.now = exists(2, "a", "b")

    preloader = Preloader(lambda: view.now, load, lambda: None, 10)
    preloader.look()
    assert not preloader.complete
    preloader.look()
    assert (preloader.complete, loaded) == (True, ["a", "b"])


class Unloadable:
    """Pickles, and fails to come back."""

    def __reduce__(self):
        return (int, ("no number",))


def make_big():
    estimator = make_estimator()
    estimator.ballast = list(range(10_000))
    return estimator


@pytest.fixture
def held(registry, preloaded, monkeypatch):
    """A process that has version 1 in memory, and one of whose later loads wait until they may begin."""
    publish(registry)
    registry.set_alias("triage", "live", 1, "ann")
    replica = preloaded()
    free = Event()
    load = replica.files.load

    def wait(*arguments):
        free.wait(30)
        return load(*arguments)

    monkeypatch.setattr(replica.files, "load", wait)
    yield replica, free
    free.set()


def test_a_version_goes_on_answering_until_the_one_that_follows_is_loaded(
    registry, held
):
    replica, free = held
    publish(registry)
    registry.set_alias("triage", "live", 2, "ann")

    eventually(lambda: replica.resolve("triage@live") == ("triage", 2))
    assert [
        replica.cache.get(reference).version for reference in ("triage", "triage@live")
    ] == [
        1,
        1,
    ]
    free.set()
    eventually(
        lambda: (
            replica.cache.get("triage@live").version
            == replica.cache.get("triage").version
            == 2
        )
    )


def test_who_changes_an_alias_or_sees_that_a_job_has_ended_meets_what_that_means(
    registry, preloaded
):
    publish(registry)
    replica = preloaded()
    replica.set_alias("triage", "live", 1, "ann")
    publish(registry)

    replica.set_alias("triage", "live", 2, "ann")
    assert replica.cache.get("triage@live").version == 2
    publish(registry)
    replica.refresh()  # as where a job is looked at
    assert replica.cache.get("triage").version == 3


def test_a_version_that_was_deleted_or_cannot_be_followed_up_does_not_go_on_answering(
    registry, held, models
):
    replica, free = held
    publish(registry)
    registry.set_alias("triage", "live", 2, "ann")
    registry.delete_version("triage", 1)
    eventually(lambda: replica.cache.get("triage@live") is None)
    free.set()
    eventually(lambda: replica.cache.get("triage@live"))
    damaged = publish(registry).version
    (models / "triage" / str(damaged) / "model.joblib").write_bytes(b"damaged")
    eventually(lambda: replica.preloader.tried.get(("triage", damaged)))
    eventually(lambda: replica.cache.get("triage") is None)
    with pytest.raises(Damaged):
        replica.load("triage")
