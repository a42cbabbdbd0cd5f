"""The registry: publishing, answering, keeping up with other processes, and what it refuses."""

import shutil
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from sqlalchemy import text

from app.database import Database
from app.errors import Conflict, Invalid, NotFound, NotReady
from app.migrations import migrate
from app.registry.card import Card
from app.registry.index import Unpublished
from tests.jobs.waiting import SOON, eventually
from tests.registry.making import HOLDOUT, make_card, make_estimator, open_registry, publish


def test_a_published_model_answers_as_the_fitted_one(registry):
    publish(registry)

    assert registry.cache.get("triage") is None
    loaded = registry.load("triage")

    X = np.array([[0.5, 1], [2.5, 0]])
    np.testing.assert_array_equal(loaded.estimator.predict_proba(X), make_estimator().predict_proba(X))
    np.testing.assert_array_equal(loaded.holdout.scores, HOLDOUT.scores)
    np.testing.assert_array_equal(loaded.holdout.y, HOLDOUT.y)
    np.testing.assert_array_equal(loaded.priors, [0.75, 0.25])
    assert loaded.classes == ("healthy", "ill")
    assert loaded.named == {"name": "triage", "version": 1} == {"name": loaded.name, "version": loaded.version}
    assert loaded.schema.names == ("age", "sex")
    assert registry.cache.get("triage") is loaded
    assert registry.cache.get("triage:1") is loaded


def test_the_card_says_how_big_the_files_are_and_what_is_in_them(registry, models):
    before = time.time()
    card = publish(registry)

    folder = models / "triage" / "1"
    assert card.sizes == {name: (folder / name).stat().st_size for name in ("model.joblib", "holdout.npz")}
    assert set(card.sha256) == set(card.sizes)
    assert abs(card.created_at.timestamp() - before) < 60
    assert registry.index.card("triage", 1) == card


def test_before_it_was_read_nothing_is_said_about_what_exists(database, models):
    migrate(database)
    registry = open_registry(str(models), database)

    assert not registry.ready
    with pytest.raises(NotReady):
        registry.resolve("triage")
    assert registry.cache.get("triage") is None


def test_staged_files_are_invisible_until_they_are_added(registry, another):
    """A process that dies between writing the files and the transaction leaves nothing that anybody can see."""
    registry.stage(make_card(), make_estimator())

    for view in (registry, another()):
        with pytest.raises(NotFound):
            view.load("triage")
        assert view.index.models("", 10) == []
        with pytest.raises(NotFound):
            view.index.card("triage", 1)
        with pytest.raises(NotFound):
            view.artifact("triage", 1)
        with pytest.raises(NotFound):
            view.set_alias("triage", "champion", 1, "ann")


def test_only_staged_versions_are_published_and_only_once(registry, database):
    card = registry.stage(make_card(), make_estimator())
    for _ in range(2):
        with suppress(Conflict), database.writing() as connection:
            registry.index.add(connection, card)
    assert [line.version for line in registry.index.model("triage").versions] == [1]
    for wrong in (card, card.model_copy(update={"version": 5})):
        with pytest.raises(Conflict, match="not staged"), database.writing() as connection:
            registry.index.add(connection, wrong)


def test_an_attempt_that_is_over_gets_no_number(registry, models):
    def over(_connection):
        raise Conflict("it is over")

    with pytest.raises(Conflict, match="it is over"):
        registry.stage(make_card(), None, also=over)
    assert registry.index.unpublished() == []
    assert not (models / "triage").exists()


def test_folders_that_the_database_does_not_know_are_never_written_nor_removed(registry, another, models, tmp_path):
    """As where the database is an older copy: what it does not know may be the only place of a model."""
    for _ in range(4):
        publish(registry)
    database = Database(f"sqlite:///{tmp_path / 'old.db'}")
    old = another(database=database)

    assert publish(old).version == 5
    stolen = old.stage(make_card(job="job_2"), None)
    shutil.rmtree(models / stolen.folder)
    registry.files.stage(make_card(version=stolen.version), {}, 0.0)  # another job's, under a number that was taken
    old.discard(*old.index.unpublished())

    assert sorted(registry.files.numbers("triage")) == [1, 2, 3, 4, 5, 6]
    assert old.index.unpublished() == []
    database.close()


def test_what_is_discarded_was_neither_published_nor_is_it_there_afterwards(registry, models):
    published, lost = publish(registry), registry.stage(make_card(), None)
    for one in [*registry.index.unpublished(), Unpublished("triage", published.version, published.job)]:
        registry.discard(one)

    assert registry.load("triage").version == published.version
    assert not (models / lost.folder).exists()
    assert registry.index.unpublished() == []


@pytest.mark.parametrize("name", ["", "Triage", "..", "a/b"])
def test_names_are_checked_before_anything_is_written(registry, models, name):
    with pytest.raises(Invalid):
        registry.stage(Card.model_construct(name=name), None)
    publish(registry)
    with pytest.raises(Invalid):
        registry.set_alias("triage", name, 1, "ann")
    assert registry.index.model("triage").aliases == {}


def test_another_process_sees_changes_within_a_second(registry, another):
    """A version, an alias, a deletion: by the poller, without being asked for by name."""
    view = another()
    view.start()
    try:
        for change, seen in (
            (lambda: publish(registry), lambda: view.resolve("triage") == ("triage", 1)),
            (lambda: publish(registry), lambda: view.resolve("triage") == ("triage", 2)),
            (
                lambda: registry.set_alias("triage", "best", 1, "ann"),
                lambda: view.resolve("triage@best") == ("triage", 1),
            ),
            (lambda: registry.delete_version("triage", 2), lambda: view.resolve("triage") == ("triage", 1)),
        ):
            change()
            eventually(partial(_holds, seen), SOON)
    finally:
        view.stop()


def test_what_was_published_a_moment_ago_loads_at_once(registry, another):
    """A client whose job has just succeeded is not told that there is no such model."""
    view = another()
    publish(registry)

    assert view.load("triage").version == 1


def test_when_the_database_is_away_the_last_view_stays(tmp_path, another, registry, caplog):
    publish(registry)
    view = another()
    with registry.index.database.writing() as connection:
        connection.execute(text("ALTER TABLE registry_state RENAME TO away"))

    view.start()
    view.stop()

    assert "the last view of it stays" in caplog.text
    assert view.load("triage").version == 1
    with pytest.raises(NotReady):
        view.load("unknown")


def test_deleted_models_leave_memory_and_disk_but_not_the_requests_that_hold_them(registry, models):
    publish(registry)
    held = registry.load("triage")

    registry.delete_version("triage", 1)

    assert registry.cache.get("triage") is None
    assert len(registry.cache) == 0
    assert not (models / "triage" / "1").exists()
    with pytest.raises(NotFound):
        registry.load("triage")
    assert held.estimator.predict([[0.0, 0.0]]).size == 1


def test_a_version_deleted_while_it_is_read_is_not_found(registry, another):
    """The other process's view is a moment old: the files are gone, and that is not damage."""
    publish(registry)
    publish(registry)
    view = another()
    registry.delete_version("triage", 2)

    assert view.load("triage").version == 1
    view = another()
    registry.delete_model("triage", "ann")
    with pytest.raises(NotFound):
        view.load("triage")


def test_the_alias_history_says_who_moved_what_and_when(registry):
    publish(registry)
    publish(registry)
    registry.set_alias("triage", "champion", 1, "ann")
    registry.set_alias("triage", "champion", 1, "bob")  # where it is already: nothing to remember
    registry.set_alias("triage", "champion", 2, "bob")
    registry.delete_alias("triage", "champion", "eve")

    history = registry.index.model("triage").history
    moves = [(move.who, move.alias, move.from_version, move.to_version) for move in history]
    assert moves == [("ann", "champion", None, 1), ("bob", "champion", 1, 2), ("eve", "champion", 2, None)]
    assert all(abs(move.at.timestamp() - time.time()) < 60 for move in history)


def _holds(condition):
    try:
        return condition()
    except NotFound:
        return False
