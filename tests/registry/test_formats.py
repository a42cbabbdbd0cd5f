"""Registries that older versions wrote, kept as they wrote them in `formats/`.

`1` was made by version 0.1.0 before features had ranges, with the key of the tests. `0` is made up: a format before the
first, one label instead of a list and without what came later, as a rule for the next format to be read. `stepwise` has
a model of each learner that answers /acquire, as the first build of 0.1.0 trained them; their files name this service's
classes, so a class that moves leaves its name behind. From the release on they are not made anew.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sklearn

from app.errors import Conflict, Damaged
from app.learners.catalogue import KINDS
from app.registry import card as cards
from app.registry import files
from app.usecases.acquire import Question, acquire
from tests.registry.making import KEY

FORMATS = Path(__file__).parent / "formats"
ROWS = np.array([[50.0, 1.0], [38.0, 0.0], [np.nan, 1.0]])
STEPWISE = {
    "forest": ("random_forest", "pain", 0.6389071821569922),
    "budget": ("budget_forest", None, 0.8469197783775639),
    "tree": ("cost_tree", "pulse", 0.5172413793103449),
}
ANSWERS = [0.5698108454172824, 0.21689744185592982, 0.5230571881828865]


@pytest.fixture
def older(another, models, monkeypatch):
    """A registry of today in a folder of then."""

    def make(number, **settings):
        shutil.copytree(FORMATS / number, models)
        registry = another(signing_key=KEY, **settings)
        registry.prepare()
        registry.refresh()
        return registry

    monkeypatch.setitem(cards.UPGRADES, 0, lambda old: {**old, "format": 1, "labels": [old.pop("label")]})
    return make


def skewed(registry, monkeypatch):
    """As after an upgrade of scikit-learn."""
    made_with = registry.card("triage", 1).packages["scikit-learn"]
    monkeypatch.setattr(files, "SKLEARN", "99.0" if made_with != "99.0" else "98.0")


@pytest.mark.parametrize("number", ["0", "1"])
def test_an_older_registry_is_taken_over_with_aliases_history_and_numbers(older, number):
    registry = older(number)

    card = registry.card("triage", 1)
    assert (card.format, card.labels, card.classes, card.seed) == (2, ["state"], ["healthy", "ill"], 0)
    page = registry.model("triage")
    assert page.aliases == {"champion": 1}
    assert [(move.who, move.to_version) for move in page.history] == [("ann", 1)]
    assert registry.reserve("triage", "job_1", 1) == 3
    assert registry.rebuild() == 1


@pytest.mark.parametrize("number", ["0", "1"])
def test_an_older_model_answers_as_it_did_or_is_refused_with_the_reason(older, number):
    """Bound to its scikit-learn: a new one refuses it, in words that say what to do."""
    registry = older(number)
    if registry.card("triage", 1).packages["scikit-learn"] != sklearn.__version__:
        with pytest.raises(Conflict, match="train it again, or set PAYOFF_ALLOW_VERSION_SKEW"):
            registry.load("triage@champion")
        return

    loaded = registry.load("triage@champion")

    np.testing.assert_allclose(loaded.estimator.posterior(ROWS)[:, 1], ANSWERS, rtol=1e-9)
    assert loaded.holdout is not None
    assert loaded.schema.names == ("age", "pain")


@pytest.mark.parametrize("name", STEPWISE)
def test_an_older_stepwise_model_asks_as_it_did(older, name):
    kind, following, healthy = STEPWISE[name]
    registry = older("stepwise")
    registry.rebuild()
    registry._files._allow_version_skew = True
    loaded = registry.load(name)

    (plain,) = acquire(loaded, [{"age": 50}], Question()).documents()
    (valued,) = acquire(loaded, [{}], Question(benefits=[[0, -1], [-10, 5]])).documents()

    assert loaded.card.learner.kind == kind
    assert (plain["next"] or {}).get("feature") == following
    assert plain["probabilities"]["healthy"] == pytest.approx(healthy, rel=1e-9)
    assert (valued["expected_gain"] is not None) == (kind != "cost_tree")


def test_each_learner_that_answers_acquire_has_an_older_model():
    """But `forest_chain`, which no released version has published."""
    known = {kind for kind, _, _ in STEPWISE.values()}
    assert known | {"forest_chain"} == {kind.name for kind in KINDS.values() if kind.stepwise}


def test_a_model_of_another_scikit_learn_is_refused_or_loaded_at_own_risk(older, monkeypatch):
    registry = older("1")
    skewed(registry, monkeypatch)

    with pytest.raises(Conflict, match=r"was made with scikit-learn .*, and 99\.0 is installed"):
        registry.load("triage")
    registry._files._allow_version_skew = True
    assert registry.load("triage").version == 1


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_harmed_older_card_is_refused_before_it_is_upgraded(older, models, number):
    registry = older(number)
    path = models / "triage" / "1" / "card.json"
    path.write_bytes(path.read_bytes().replace(b"strong", b"strung"))

    with pytest.raises(Damaged):
        registry.load("triage")


def test_a_newer_registry_is_refused_and_left_as_it_is(older, models):
    """Cards and the mirror: a service that is too old neither guesses nor drops anything."""
    registry = older("1")
    card, mirror = models / "triage" / "1" / "card.json", models / "triage" / "index.json"
    kept = card.read_bytes()
    card.write_text(json.dumps(json.loads(kept) | {"format": 3}))

    with pytest.raises(Conflict, match=r"triage/1/card\.json: this card has format 3.*: upgrade it"):
        registry._files.read_card(("triage", 1))

    card.write_bytes(kept)
    mirror.write_text(json.dumps(json.loads(mirror.read_text()) | {"format": 3}))
    with pytest.raises(Conflict, match=r"triage/index\.json has format 3.*: upgrade it"):
        registry.rebuild()
    assert registry.model("triage").aliases == {"champion": 1}
