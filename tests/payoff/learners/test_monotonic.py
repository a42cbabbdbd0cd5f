"""Answers that only rise, or only fall, with a feature: over random pairs of rows, whatever else they have."""

import numpy as np
import pytest

from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.benefit_logistic import BenefitLogistic
from payoff.learners.design import Design
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.logistic import Logistic
from tests.messages import says
from tests.reference.learners import logistic_with_slopes

ROUNDING = 1e-12
TRANSFORMS = ("none", "clip", "power", "spline", "auto")


def table(n=500, seed=0, gaps=True):
    """Waves that no constraint fits, numbers of which one follows another, and a category; some missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (n, 4)) ** np.array([1, 1, 3, 1])
    X[:, 1] -= 2 * X[:, 0]
    X[:, 3] = rng.integers(0, 3, n)
    score = np.sin(2 * X[:, 0]) + X[:, 1] + np.abs(X[:, 2]) - 1 + (X[:, 3] == 1)
    y = (score + rng.logistic(size=n) > 0).astype(int)
    if gaps:
        X[rng.random(n) < 0.1, 2] = np.nan
    return X, y


def pairs(X, directions, seed=1, count=600):
    """Rows, some values missing, and the same with one of the features moved in its direction."""
    rng = np.random.default_rng(seed)
    rows = X[rng.integers(0, len(X), count)].copy()
    rows[rng.random(rows.shape) < 0.2] = np.nan
    moved = rows.copy()
    for i, step in enumerate(10 ** rng.uniform(-3, 3, count)):
        j = rng.choice(list(directions))
        moved[i, j] += step if directions[j] == "up" else -step
    return rows, moved


def learners():
    for calibration in ("none", "sigmoid", "isotonic"):
        yield GradientBoosting(max_iter=20, calibration=calibration)
    for transform in TRANSFORMS:
        yield Logistic(numeric_transform=transform, calibration="isotonic")
    yield Logistic(numeric_transform="spline", calibration="none", C=100.0)
    yield BenefitLogistic(benefits=[[0, -1], [-5, 3]])


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "directions", [{0: "up", 2: "down"}, {0: "down", 1: "up", 2: "up"}], ids=str
)
@pytest.mark.parametrize("learner", [*learners()], ids=str)
def test_the_probability_of_the_second_class_moves_with_the_feature(
    learner, directions, gaps
):
    """Also where other features are missing that no row in training lacked."""
    X, y = table(gaps=gaps)
    parameters = {"monotonic": directions, "categorical_features": [3]}
    model = learner.set_params(**parameters).fit(X, y)
    rows, moved = pairs(X, directions)
    change = model.posterior(moved)[:, 1] - model.posterior(rows)[:, 1]
    assert change.min() >= -ROUNDING
    assert (change > ROUNDING).mean() > 0.05
    model.refit(X[::2], y[::2])
    change = model.posterior(moved)[:, 1] - model.posterior(rows)[:, 1]
    assert change.min() >= -ROUNDING


def test_without_a_constraint_they_would_not():
    """The pairs show it: a value that is lent follows the one that moves."""
    X, y = table(gaps=False)
    rows, moved = pairs(X, {0: "up"})
    for learner in (GradientBoosting(max_iter=20), Logistic()):
        model = learner.fit(X, y)
        change = model.posterior(moved)[:, 1] - model.posterior(rows)[:, 1]
        assert change.min() < -0.1


def test_numbers_move_with_the_feature():
    X, y = table()
    numbers = y + X[:, 1]
    learner = GradientBoosting(
        task="regression", max_iter=20, monotonic={0: "up", 1: "down"}
    )
    model = learner.fit(X, numbers)
    rows, moved = pairs(X, {0: "up", 1: "down"})
    assert (model.values(moved) - model.values(rows)).min() >= -ROUNDING


@pytest.mark.parametrize("shape", ["none", "clip", "spline"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_fit_is_the_best_of_those_with_such_slopes(shape, C):
    X, y = table(150, 3)
    weights = np.random.default_rng(4).uniform(0.5, 2, len(y))
    design = Design.fit(X, weights, [3], shape)
    columns = design.dense(X)
    slopes = design.slopes(np.array([1.0, -1.0, 0.0, 0.0]))
    model, converged = loading.scikit.fit_linear(columns, y, weights, C, slopes)
    raw = np.zeros((len(design.numeric), design.width))
    for w, j in enumerate(design.numeric):
        so_far = np.arange(w + 1)
        of_feature = so_far[design.numeric[so_far] == j]
        sign = {0: 1.0, 1: -1.0}.get(int(j), 0.0)
        raw[w, of_feature] = sign / design.scales[of_feature]
    coef, intercept = logistic_with_slopes(columns, y, weights, C, raw)
    assert converged
    np.testing.assert_allclose(
        columns @ model.coef_[0] + model.intercept_,
        columns @ coef + intercept,
        atol=1e-3,
    )
    assert (raw @ model.coef_[0]).min() >= -ROUNDING


def test_where_the_constraint_holds_anyway_the_fit_is_scikit_learns():
    X, y = table(300, 5, gaps=False)
    y = (X[:, 1] + np.random.default_rng(6).logistic(size=300) > 0).astype(int)
    free = Logistic(calibration="none", numeric_transform="none").fit(X, y)
    kept = Logistic(
        calibration="none", numeric_transform="none", monotonic={1: "up"}
    ).fit(X, y)
    np.testing.assert_allclose(kept.posterior(X), free.posterior(X), atol=1e-4)
    assert kept.converged_


@pytest.mark.parametrize("kind", [Logistic, BenefitLogistic, GradientBoosting])
def test_what_cannot_be_kept_is_refused(kind):
    X, y = table()
    for parameters, labels, flaw in (
        ({"monotonic": {3: "up"}}, y, says("/monotonic/3", "category")),
        ({"monotonic": {4: "up"}}, y, says("/monotonic/4", "unknown feature")),
        ({"monotonic": {0: "up"}}, np.arange(500) % 3, says("/monotonic", "two")),
    ):
        with pytest.raises(Invalid) as caught:
            kind(categorical_features=[3], **parameters).fit(X, labels)
        assert [*caught.value.flaws] == [flaw]
