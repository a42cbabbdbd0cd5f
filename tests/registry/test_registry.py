"""The registry: publishing, answering, rebuilding, references, keeping up with others, and what it refuses."""

import hashlib
import shutil
import time
import warnings

import numpy as np
import pytest
import sklearn
from sqlalchemy import text

from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import Conflict, Damaged, NotFound, NotReady
from app.registry import files as module
from app.registry.card import Card
from app.registry.loaded import Holdout
from app.registry.snapshot import Snapshot
from payoff.errors import Invalid
from tests.registry.making import (
    HOLDOUT,
    make_card,
    make_estimator,
    open_registry,
    publish,
)


def test_a_published_model_answers_as_the_fitted_one(registry):
    publish(registry)

    assert registry.cache.get("triage") is None
    loaded = registry.load("triage")

    X = np.array([[0.5, 1], [2.5, 0]])
    np.testing.assert_array_equal(
        loaded.estimator.predict_proba(X), make_estimator().predict_proba(X)
    )
    np.testing.assert_array_equal(loaded.holdout.scores, HOLDOUT.scores)
    np.testing.assert_array_equal(loaded.holdout.y, HOLDOUT.y)
    np.testing.assert_array_equal(loaded.priors, [0.75, 0.25])
    assert loaded.classes == ("healthy", "ill")
    assert (
        loaded.named
        == {"name": "triage", "version": 1}
        == {"name": loaded.name, "version": loaded.version}
    )
    assert loaded.schema.names == ("age", "sex")
    assert registry.cache.get("triage") is loaded
    assert registry.cache.get("triage:1") is loaded


def test_the_card_says_how_big_the_files_are_and_what_is_in_them(registry, models):
    before = time.time()
    card = publish(registry)

    folder = models / "triage" / "1"
    assert card.sizes == {
        name: (folder / name).stat().st_size for name in ("model.joblib", "holdout.npz")
    }
    assert set(card.sha256) == set(card.sizes)
    assert abs(card.created_at.timestamp() - before) < 60
    assert registry.index.card("triage", 1) == card


def test_columns_of_the_hold_out_are_read_once_they_are_needed(
    registry, models, database
):
    """They are as large as the table: no start reads them, and the room for models does not count them."""
    columns = {"file": np.array([1.5, np.nan]), "age": np.array([3.0, 4.0])}
    card = registry.stage(
        make_card(), make_estimator(), Holdout(HOLDOUT.scores, HOLDOUT.y, columns.copy)
    )
    with database.writing() as connection:
        registry.index.add(connection, card)
    path = models / "triage" / "1" / "columns.npz"
    content = path.read_bytes()
    path.unlink()
    holdout = registry.load("triage").holdout
    assert registry.cache.size == sum(card.sizes.values()) - len(content)
    with pytest.raises(Damaged, match="columns"):
        holdout.columns()
    path.write_bytes(content)
    found = holdout.columns()
    assert list(found) == list(columns)
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name], values)


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


def test_folders_that_the_database_does_not_know_are_never_written_nor_removed(
    registry, another, models, tmp_path
):
    """As where the database is an older copy: what it does not know may be the only place of a model."""
    for _ in range(4):
        publish(registry)
    database = Database(f"sqlite:///{tmp_path / 'old.db'}")
    old = another(database=database)

    assert publish(old).version == 5
    stolen = old.stage(make_card(job="job_2"), None)
    shutil.rmtree(models / stolen.folder)
    registry.files.stage(
        make_card(version=stolen.version), {}, 0.0
    )  # another job's, under a number that was taken
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


def test_when_the_database_is_away_the_last_view_stays(
    tmp_path, another, registry, caplog
):
    publish(registry)
    view = another()
    with registry.index.database.writing() as connection:
        connection.execute(text("ALTER TABLE registry_state RENAME TO away"))

    view.start()
    view.stop()

    assert "the database does not answer" in caplog.text
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


@pytest.fixture
def empty(another, tmp_path):
    """A registry over the same folders whose database is new."""
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    yield another(database=database)
    database.close()


def test_an_older_database_gets_what_was_published_since(registry, empty):
    """What it knows of aliases stays, and so does what it knows to be deleted or a job's own."""
    publish(registry)
    empty.rebuild()
    empty.set_alias("triage", "champion", 1, "ann")
    publish(empty)
    empty.index.delete_version(
        "triage", 2
    )  # its folder stays, as where the store is away
    for name in ("triage", "triage", "other"):
        publish(registry, name)

    assert empty.rebuild() == 3

    assert empty.index.model("triage").aliases == {"champion": 1}
    assert {line.name: line.versions for line in empty.index.models("", 10)} == {
        "triage": [4, 3, 1],
        "other": [1],
    }
    assert empty.rebuild() == 0


def test_what_is_no_folder_of_a_version_is_passed_over(registry, models, empty, caplog):
    """Damaged ones are named; numbers are not given again even where nothing is left of a version but its folder."""
    for _ in range(4):
        publish(registry)
    first, second, third = (
        models / "triage" / number / "card.json" for number in "123"
    )
    third.write_bytes(first.read_bytes())
    first.write_bytes(b"{")
    second.unlink()
    (models / "triage" / "9").mkdir()
    (models / "triage" / "README").write_text("")
    (models / "triage" / "notes").mkdir()
    (models / "Not-a-name").mkdir()
    (models / "empty").mkdir()

    assert empty.rebuild() == 1

    assert "triage/1/card.json: this card cannot be read as format" in caplog.text
    assert "there is no triage/2" in caplog.text
    assert "the card in triage/3 is that of triage/1" in caplog.text
    assert empty.load("triage").version == 4
    assert [
        empty.stage(make_card(name), None).version for name in ("triage", "empty")
    ] == [10, 1]
    assert [line.name for line in empty.index.models("", 10)] == ["triage"]


class Trap:
    """Unpickling it is what must not happen."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


HARMS = {
    "flip": lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:],
    "flip the middle": lambda content: (
        content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :]
    ),
    "truncate": lambda content: content[:-1],
    "empty": lambda _: b"",
    "append": lambda content: content + b" ",
    "remove": None,
}


def harmed(path):
    """Do each harm to a file in turn, naming it, and make it good in the end."""
    content = path.read_bytes()
    for name, harm in HARMS.items():
        if harm is None:
            path.unlink()
        else:
            assert harm(content) != content
            path.write_bytes(harm(content))
        yield name
    path.write_bytes(content)


def test_damaged_files_are_never_unpickled_nor_handed_out(
    registry, models, monkeypatch
):
    """Card, artifact and hold-out, flipped, cut, emptied, lengthened and removed; and mended they load again."""
    publish(registry)
    monkeypatch.setattr(
        module.joblib, "load", lambda *_: pytest.fail("the file was unpickled")
    )
    for name in ("model.joblib", "holdout.npz", "card.json"):
        for _harm in harmed(models / "triage" / "1" / name):
            with pytest.raises(Damaged, match="triage"):
                registry.load("triage")
            if (
                name == "model.joblib"
            ):  # which the card in the database is enough to check
                with pytest.raises(Damaged):
                    registry.artifact("triage", 1)
    monkeypatch.undo()

    assert registry.load("triage").version == 1
    card, content = registry.artifact("triage", 1)
    assert hashlib.sha256(content).hexdigest() == card.sha256["model.joblib"]


def test_a_folder_under_another_name_is_refused(registry, models):
    """Sealed as it is, an old version does not pass for a new one."""
    publish(registry)
    publish(registry)
    shutil.rmtree(models / "triage" / "2")
    shutil.copytree(models / "triage" / "1", models / "triage" / "2")

    with pytest.raises(Damaged, match="not the card that was published"):
        registry.load("triage")
    assert registry.load("triage:1").version == 1


def test_models_of_another_scikit_learn_are_refused_unless_allowed(
    registry, another, monkeypatch
):
    """Where they are, its own warning is silent; elsewhere warnings are errors, and would fail the load."""
    monkeypatch.setattr("sklearn.base.__version__", "1.2.3")
    publish(registry, packages={"scikit-learn": "1.2.3"})
    monkeypatch.undo()

    with pytest.raises(
        Conflict, match=rf"scikit-learn 1\.2\.3, and {sklearn.__version__} is installed"
    ):
        registry.load("triage")
    with warnings.catch_warnings(record=True) as heard:
        assert (
            another(allow_version_skew=True).load("triage").estimator.__dict__
        )  # it was unpickled
    assert heard == []


def test_pickles_are_not_accepted_in_the_hold_out(registry):
    staged = registry.stage(
        make_card(), make_estimator(), Holdout(HOLDOUT.scores, [Trap()])
    )
    with registry.index.database.writing() as connection:
        registry.index.add(connection, staged)
    with pytest.raises(ValueError, match="allow_pickle"):
        registry.load("triage")
    assert not Trap.sprung


LONG = f"0{'_-' * 31}z"
SNAPSHOT = Snapshot.of(
    7,
    {
        ("triage", 1): "x",
        ("triage", 2): "y",
        ("triage", 10): "z",
        ("heart", 3): "h",
        (LONG, 999_999_999): "l",
    },
    {},
    [("triage", "champion", 2), ("triage", "gone", 5)],
)


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " a",
            "a ",
            "a\n",
            "A",
            "a:",
            "a:0",
            "a:01",
            "a:-1",
            "a:x",
            "a@",
            "a@B",
            "a:1@b",
            "a@b:1",
            "../a",
            "é",
        ],
        *["a:1234567890", "a" * 65, "a@" + "b" * 65, "a:\u0663"],
    ],
)
def test_what_is_no_reference_is_refused_with_the_grammar(text):
    with pytest.raises(Invalid, match="write name, name:3") as refused:
        SNAPSHOT.resolve(text)
    assert [flaw.loc for flaw in refused.value.flaws] == ["/model"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("triage", ("triage", 10)),
        ("triage:1", ("triage", 1)),
        ("triage@champion", ("triage", 2)),
        ("heart", ("heart", 3)),
        (f"{LONG}:999999999", (LONG, 999_999_999)),
    ],
)
def test_references_mean_versions(text, key):
    """A bare name is the highest version, by number and not by spelling."""
    assert SNAPSHOT.resolve(text) == key


@pytest.mark.parametrize(
    "text", ["stroke", "triage:3", "triage@best", "heart@best", "triage@gone"]
)
def test_what_is_unknown_is_not_found(text):
    with pytest.raises(NotFound, match=f"no model '{text}'"):
        SNAPSHOT.resolve(text)
