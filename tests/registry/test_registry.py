"""The registry: publishing, answering, keeping up with other processes, and what it refuses."""

import shutil
import time

import numpy as np
import pytest
from sqlalchemy import text

from app.database import Database
from app.errors import Conflict, Invalid, NotFound, NotReady
from app.migrations import migrate
from app.registry.card import Card
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


@pytest.mark.parametrize("name", ["", "Triage", "..", "a/b"])
def test_names_are_checked_before_anything_is_written(registry, models, name):
    with pytest.raises(Invalid):
        registry.stage(Card.model_construct(name=name), None)
    publish(registry)
    with pytest.raises(Invalid):
        registry.set_alias("triage", name, 1, "ann")
    assert registry.index.model("triage").aliases == {}


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
