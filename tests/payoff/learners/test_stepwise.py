"""Forests learn when to stop from rows that their forests did not see."""

import pickle

import numpy as np
import pytest

from payoff.acquisition.prices import Prices
from payoff.learners import stepwise
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.random_forest import RandomForest
from tests.reference.tables import mixed


def made(kind, categorical):
    if kind == "random_forest":
        return RandomForest(
            n_estimators=8,
            calibration="sigmoid",
            categorical_features=categorical,
            random_state=0,
        )
    return BudgetForest(
        alpha=1, n_estimators=8, categorical_features=categorical, random_state=0
    )


@pytest.mark.parametrize("kind", ["random_forest", "budget_forest"])
def test_experience_is_of_all_rows_and_reproducible(kind):
    """Each row travels once; the same seed gives the same; a pickled model keeps it; the forest itself stays."""
    X, y, categorical = mixed(150, 3, 0)
    model = made(kind, categorical).fit(X, y)
    before = model.model_.posterior(X)
    prices = Prices.unit(X.shape[1])
    known = model.learn_stops(X, y, prices).experience_
    assert len(known) == 150
    assert sorted(known.y) == sorted(np.unique(y, return_inverse=True)[1])
    np.testing.assert_array_equal(model.model_.posterior(X), before)
    again = pickle.loads(
        pickle.dumps(made(kind, categorical).fit(X, y).learn_stops(X, y, prices))
    ).experience_
    np.testing.assert_array_equal(again.P, known.P)
    np.testing.assert_array_equal(again.asked, known.asked)


def test_rows_travel_through_forests_that_did_not_see_them():
    """With labels drawn by lot, a forest is sure about rows that it has seen, and clueless about others."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 4)), random.integers(0, 2, 300)
    forest = RandomForest(
        n_estimators=20, min_samples_leaf=1, calibration="none", random_state=0
    )
    model = forest.fit(X, y).learn_stops(X, y, Prices.unit(4))
    known = model.experience_
    ends = known.P[np.arange(300), known.length]
    seen = model.model_.travel(X, Prices.unit(4))
    assert (seen.P[np.arange(300), seen.length].argmax(axis=1) == y).mean() > 0.95
    assert (ends.argmax(axis=1) == known.y).mean() < 0.6


def test_a_budget_forest_is_calibrated_by_it():
    """Its probabilities get the curve that the number of rows allows; on rows by lot they lose their sureness."""
    random = np.random.default_rng(1)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200)
    model = BudgetForest(alpha=0, n_estimators=10, random_state=0).fit(X, y)
    assert model.calibration_ == "none"
    sure = model.posterior(X).max(axis=1).mean()
    model.learn_stops(X, y, Prices.unit(3))
    assert model.calibration_ == "sigmoid"
    assert model.posterior(X).max(axis=1).mean() < sure - 0.2


def test_a_sorted_table_teaches_about_every_class():
    """Rows sorted by label: of each class its share travels, and of a rare one at least a row."""
    X, y = (
        np.random.default_rng(0).normal(size=(12_000, 2)),
        np.repeat([0, 1, 2], [7000, 4994, 6]),
    )
    X[:, 0] += y
    model = RandomForest(
        n_estimators=2, min_samples_leaf=50, calibration="none", random_state=0
    ).fit(X, y)
    known = model.learn_stops(X, y, Prices.unit(2)).experience_
    assert np.bincount(known.y).tolist() == pytest.approx(
        [7000 / 6, 4994 / 6, 1], abs=1.1
    )


def test_many_classes_and_features_keep_fewer_rows(monkeypatch):
    """Rows times states times classes stay within memory; with less room than a row of each class nothing is learnt."""
    X, y, _ = mixed(900, 3, 0, words=())
    prices = Prices.unit(X.shape[1])
    model = RandomForest(
        n_estimators=2, min_samples_leaf=20, calibration="none", random_state=0
    ).fit(X, y)
    cells = (len(model.model_.columns) + 1) * 3
    monkeypatch.setattr(stepwise, "MAX_NUMBERS_OF_EXPERIENCE", 60 * cells)
    assert len(model.learn_stops(X, y, prices).experience_) == pytest.approx(60, abs=3)
    monkeypatch.setattr(stepwise, "MAX_NUMBERS_OF_EXPERIENCE", 2 * cells)
    assert model.learn_stops(X, y, prices).experience_ is None


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (
            RandomForest(n_estimators=3),
            np.arange(20.0).reshape(10, 2),
            np.array([0] * 9 + [1]),
        ),
        (
            BudgetForest(alpha=0, n_estimators=3),
            np.zeros((10, 2)),
            np.array([0, 1] * 5),
        ),
        (BudgetForest(budget=0), np.arange(20.0).reshape(10, 2), np.array([0, 1] * 5)),
    ],
)
def test_where_there_is_nothing_to_learn(model, X, y):
    """One row of a class, or a forest that asks for nothing: no experience, and no failure."""
    assert (
        model.set_params(random_state=0)
        .fit(X, y)
        .learn_stops(X, y, Prices.unit(2))
        .experience_
        is None
    )
