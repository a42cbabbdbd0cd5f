"""What is checked before a model is unpickled, and what is refused."""

import hashlib
import shutil
import warnings

import pytest
import sklearn

from app.errors import Conflict, Damaged
from app.registry import files as module
from app.registry.loaded import Holdout
from tests.registry.making import HOLDOUT, make_card, make_estimator, publish


class Trap:
    """Unpickling it is what must not happen."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


HARMS = {
    "flip": lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:],
    "flip the middle": lambda content: content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :],
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


def test_damaged_files_are_never_unpickled_nor_handed_out(registry, models, monkeypatch):
    """Card, artifact and hold-out, flipped, cut, emptied, lengthened and removed; and mended they load again."""
    publish(registry)
    monkeypatch.setattr(module.joblib, "load", lambda *_: pytest.fail("the file was unpickled"))
    for name in ("model.joblib", "holdout.npz", "card.json"):
        for _harm in harmed(models / "triage" / "1" / name):
            with pytest.raises(Damaged, match="triage"):
                registry.load("triage")
            if name == "model.joblib":  # which the card in the database is enough to check
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


def test_models_of_another_scikit_learn_are_refused_unless_allowed(registry, another, monkeypatch):
    """Where they are, its own warning is silent; elsewhere warnings are errors, and would fail the load."""
    monkeypatch.setattr("sklearn.base.__version__", "1.2.3")
    publish(registry, packages={"scikit-learn": "1.2.3"})
    monkeypatch.undo()

    with pytest.raises(Conflict, match=rf"scikit-learn 1\.2\.3, and {sklearn.__version__} is installed"):
        registry.load("triage")
    with warnings.catch_warnings(record=True) as heard:
        assert another(allow_version_skew=True).load("triage").estimator.__dict__  # it was unpickled
    assert heard == []


def test_pickles_are_not_accepted_in_the_hold_out(registry):
    staged = registry.stage(make_card(), make_estimator(), Holdout(HOLDOUT.scores, [Trap()]))
    with registry.index.database.writing() as connection:
        registry.index.add(connection, staged)
    with pytest.raises(ValueError, match="allow_pickle"):
        registry.load("triage")
    assert not Trap.sprung
