"""Learners whose inner splits are by group or by time."""

import numpy as np
import pytest

from payoff.acquisition.prices import Prices
from payoff.decisions.folds import Blocks
from payoff.errors import Invalid
from payoff.learners.automatic import Automatic
from payoff.learners.benefit_logistic import BenefitLogistic
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.cost_tree.estimator import CostTree
from payoff.learners.forest_chain import ForestChain
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.hierarchical_logistic import HierarchicalLogistic
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.multilabel import MultilabelForest, MultilabelLogistic
from payoff.learners.random_forest import FreeForest, RandomForest
from payoff.learners.ridge import Ridge
from payoff.learners.score_calibrator import ScoreCalibrator

CLASSIFIERS = [
    Automatic(max_seconds=1e-9, random_state=0),
    Automatic(max_seconds=1e-9, random_state=0, feature_costs=[1, 2, 0]),
    BenefitLogistic(),
    BudgetForest(n_estimators=4, random_state=0),
    CostNaiveBayes(),
    CostTree(depth=1, trade_off=0.01, random_state=0),
    ForestChain(n_estimators=4, random_state=0),
    FreeForest(n_estimators=8, random_state=0),
    GradientBoosting(max_iter=8, random_state=0),
    HierarchicalLogistic(random_state=0),
    KernelLogistic(random_state=0),
    Logistic(random_state=0),
    RandomForest(n_estimators=8, random_state=0),
    ScoreCalibrator(),
]
REGRESSORS = [
    Automatic(max_seconds=1e-9, task="regression", random_state=0),
    CostTree(depth=1, trade_off=0.01, task="regression", random_state=0),
    GradientBoosting(max_iter=8, task="regression", random_state=0),
    RandomForest(n_estimators=8, task="regression", random_state=0),
    Ridge(random_state=0),
]
LABELLERS = [
    MultilabelForest(n_estimators=8, random_state=0),
    MultilabelLogistic(random_state=0),
    MultilabelLogistic(chain=True, random_state=0),
]
ROWS = 60
BLOCKS = {
    "groups": Blocks.of(np.repeat(np.arange(12), 5)),
    "moments": Blocks.of(np.repeat(np.arange(20), 3), ordered=True),
    "two groups": Blocks.of(np.repeat([0, 1], [50, 10])),
    "one group": Blocks.of(np.zeros(ROWS)),
    "a class in one group": Blocks.of(np.arange(ROWS) < 20),
}


def _table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    y = (np.arange(ROWS) % 3 == 0).astype(int)
    X[:, 0] += y
    return X, y


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize(
    "learner", CLASSIFIERS, ids=[type(learner).__name__ for learner in CLASSIFIERS]
)
def test_every_classifier_learns_from_any_blocks_and_keeps_none(learner, blocks):
    X, y = _table()
    if len(np.unique(blocks.codes)) == 2:
        y = np.where(np.arange(ROWS) >= 40, 2, y)
    X = X[:, :1] if isinstance(learner, ScoreCalibrator) and y.max() == 1 else X

    learner.fit(X, y, blocks=blocks)
    if hasattr(learner, "learn_stops"):
        learner.learn_stops(X, y, Prices.unit(X.shape[1]), blocks=blocks)
    learner.refit(X, y, blocks=blocks)

    assert np.isfinite(learner.predict_proba(X)).all()
    assert learner.blocks is None


@pytest.mark.parametrize(
    "blocks", [BLOCKS["groups"], BLOCKS["moments"], BLOCKS["two groups"]]
)
@pytest.mark.parametrize(
    "learner", REGRESSORS, ids=[type(learner).__name__ for learner in REGRESSORS]
)
def test_every_regressor_learns_from_any_blocks(learner, blocks):
    X, _ = _table()

    learner.fit(X, X[:, 0] + X[:, 1], blocks=blocks)
    learner.refit(X, X[:, 0] + X[:, 1], blocks=blocks)

    distribution = learner.distribution(X)
    if distribution is not None:
        assert np.isfinite(distribution.quantiles(np.array([0.1, 0.9]))).all()


def test_boosting_of_numbers_needs_two_blocks():
    X, _ = _table()

    with pytest.raises(Invalid, match="two groups or moments"):
        REGRESSORS[2].fit(X, X[:, 0], blocks=BLOCKS["one group"])


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize(
    "learner", LABELLERS, ids=[type(learner).__name__ for learner in LABELLERS]
)
def test_every_learner_of_labels_learns_from_any_blocks(learner, blocks):
    X, y = _table()
    Y = np.column_stack((y, X[:, 1] > 0, np.arange(ROWS) == 7)).astype(int)

    learner.fit(X, Y, blocks=blocks)
    learner.refit(X, Y, blocks=blocks)

    assert np.isfinite(learner.predict_proba(X)).all()


def test_rows_of_weight_0_take_their_blocks_with_them():
    X, y = _table()
    weights = (np.arange(ROWS) % 5 > 0).astype(float)
    kept = weights > 0
    blocks = BLOCKS["groups"]
    first = Logistic(random_state=0).fit(X, y, weights, blocks)
    second = Logistic(random_state=0).fit(X[kept], y[kept], None, blocks.take(kept))

    assert first.predict_proba(X) == pytest.approx(second.predict_proba(X))


def test_blocks_are_those_of_the_rows():
    X, y = _table()

    with pytest.raises(Invalid, match="blocks of 60 rows for 59 rows"):
        Logistic().fit(X[1:], y[1:], blocks=BLOCKS["groups"])


@pytest.mark.parametrize(
    "learner",
    [
        RandomForest(n_estimators=40, random_state=0),
        GradientBoosting(max_iter=40, random_state=0),
    ],
    ids=["random_forest", "gradient_boosting"],
)
def test_a_calibration_by_group_does_not_believe_in_repeated_rows(learner):
    """Labels are noise, and each row is there four times: only whole groups show that nothing is
    learned.
    """
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(100, 2)), 4, axis=0)
    y = np.repeat(rng.integers(0, 2, 100), 4)
    new = rng.normal(size=(500, 2))

    random = learner.fit(X, y).predict_proba(new)
    grouped = learner.fit(X, y, blocks=Blocks.of(X[:, 0])).predict_proba(new)

    assert np.abs(random - 0.5).mean() > 0.2
    assert np.abs(grouped - 0.5).mean() < 0.1


def test_quantiles_of_a_forest_by_group_do_not_believe_in_repeated_rows():
    """Numbers are noise from 0 to 1: half of the new ones lie between the quartiles by group."""
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(100, 2)), 4, axis=0)
    y = np.repeat(rng.random(100), 4)
    new = rng.normal(size=(500, 2))
    forest = RandomForest(n_estimators=40, task="regression", random_state=0)

    def covered(blocks):
        forest.fit(X, y, blocks=blocks)
        low, high = forest.distribution(new).quantiles(np.array([0.25, 0.75])).T
        truth = rng.random(500)
        return np.mean((low <= truth) & (truth <= high))

    assert covered(None) < 0.4
    assert 0.42 < covered(Blocks.of(X[:, 0])) < 0.58
