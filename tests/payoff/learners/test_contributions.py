"""What features contribute adds up to the score, and is the Shapley value where that can be enumerated."""

import numpy as np
import pytest
from scipy.special import logit

from payoff.acquisition.nodes import MISSING_LEFT
from payoff.learners.benefit_logistic import BenefitLogistic
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.random_forest import RandomForest
from tests.reference.shapley import expectation, shapley

M = 4
GAPS = 0.1


def table(classes=2, n=240, seed=0):
    """Three numbers, with gaps, and a category in the second column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 2, (n, M))
    X[:, 1] = rng.integers(0, 5, n)
    push = X[:, [0]] * np.linspace(-1, 1, classes) + (X[:, [1]] % 2) * np.linspace(
        0, 1.5, classes
    )
    y = (push + rng.gumbel(0, 1, push.shape)).argmax(axis=1)
    X[rng.random((n, M)) < GAPS] = np.nan
    return X, y


def log_ratios(P, chosen):
    """The log odds of the second of two classes; of more, the log of the chosen one less the mean of all logs."""
    if P.shape[1] == 2:
        return logit(P[:, 1])
    logs = np.log(P)
    return logs[np.arange(len(P)), chosen] - logs.mean(axis=1)


LEARNERS = {
    "logistic": Logistic(categorical_features=[1]),
    "spline": Logistic(categorical_features=[1], numeric_transform="spline"),
    "plain": Logistic(categorical_features=[1], numeric_transform="none"),
    "numbers": Logistic(numeric_transform="none"),
    "benefit_logistic": BenefitLogistic(categorical_features=[1]),
    "cost_naive_bayes": CostNaiveBayes(categorical_features=[1]),
    "kernel_logistic": KernelLogistic(kernel="linear", categorical_features=[1]),
    "gradient_boosting": GradientBoosting(max_iter=20, categorical_features=[1]),
    "random_forest": RandomForest(
        n_estimators=8, categorical_features=[1], random_state=0
    ),
    "budget_forest": BudgetForest(
        n_estimators=4, categorical_features=[1], random_state=0
    ),
}


@pytest.mark.parametrize("calibration", ["none", "sigmoid"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.sampled
def test_contributions_and_base_sum_to_the_score(name, classes, calibration):
    X, y = table(classes)
    model = LEARNERS[name].__class__(**LEARNERS[name].get_params())
    if "calibration" in model.get_params():
        model.set_params(calibration=calibration)
    model.fit(X, y)
    P = model.model_.posterior(X)
    chosen = model.posterior(X).argmax(axis=1)
    found = model.contributions(X, chosen)
    assert found.values.shape == X.shape
    assert (found.chosen == (1 if classes == 2 else chosen)).all()
    if found.score == "probability":
        score = P[np.arange(len(X)), found.chosen]
    elif name == "benefit_logistic" and classes > 2:
        score = model.model_.linear.scores(X)[np.arange(len(X)), chosen]
    else:
        score = log_ratios(P, chosen)
    np.testing.assert_allclose(
        found.base + found.values.sum(axis=1), score, atol=1e-9, rtol=0
    )


@pytest.mark.parametrize(
    "name",
    ["logistic", "numbers", "cost_naive_bayes", "gradient_boosting", "random_forest"],
)
def test_the_base_is_the_mean_score_of_training_and_an_unused_feature_contributes_nothing(
    name,
):
    X, y = table()
    X[:, 3] = 1.0
    model = (
        LEARNERS[name]
        .__class__(**LEARNERS[name].get_params())
        .set_params(calibration="none")
        .fit(X, y)
    )
    found = model.contributions(X, y)
    assert not found.values[:, 3].any()
    if name in ("logistic", "numbers", "cost_naive_bayes"):
        np.testing.assert_allclose(found.values.mean(axis=0), 0, atol=1e-9)


def of_forest(forest, x, known):
    """The class shares that are expected if only the features `known` are."""
    N, x = forest.model_.nodes, forest.model_.orders.apply(x[None])[0]

    def goes(node):
        v = x[N.column[node]]
        left = (
            N.feature[node] >= MISSING_LEFT if np.isnan(v) else v <= N.threshold[node]
        )
        return node + 1 if left else N.right[node]

    parts = (
        lambda n: (n + 1, N.right[n]),
        lambda n: N.column[n],
        lambda n: float(N.cover[n]),
    )
    each = [
        expectation(root, known, goes, *parts, lambda n: N.value[N.share[n]])
        for root in N.roots
    ]
    return np.mean(each, axis=0)


def of_boosting(boosting, x, known):
    """The scores that are expected if only the features `known` are."""
    model, position = (
        boosting.model_.model,
        [1, 0, 2, 3],
    )  # of the trees' columns, the category first
    raw = model._baseline_prediction[0].copy()
    for k, tree in (
        (k, tree) for trees in model._predictors for k, tree in enumerate(trees)
    ):
        n, sets = tree.nodes, tree.raw_left_cat_bitsets

        def goes(node, n=n, sets=sets):
            v = x[position[n["feature_idx"][node]]]
            if np.isnan(v):
                left = n["missing_go_to_left"][node]
            elif n["is_categorical"][node]:
                left = (
                    int(sets[n["bitset_idx"][node]][int(v) // 32]) >> (int(v) % 32) & 1
                )
            else:
                left = v <= n["num_threshold"][node]
            return n["left" if left else "right"][node]

        raw[k] += expectation(
            0, known, goes,
            lambda a, n=n: (n["left"][a], n["right"][a]),
            lambda a, n=n: -1 if n["is_leaf"][a] else position[n["feature_idx"][a]],
            lambda a, n=n: float(n["count"][a]),
            lambda a, n=n: float(n["value"][a]),
        )  # fmt: skip
    return raw


@pytest.mark.parametrize("kind", [RandomForest, BudgetForest, GradientBoosting])
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_give_shapley_values(kind, classes):
    X, y = table(classes, 240 if kind is GradientBoosting else 80)
    size = (
        {"max_iter": 4, "calibration": "none"}
        if kind is GradientBoosting
        else {"n_estimators": 3}
    )
    model = kind(**size, categorical_features=[1], random_state=0).fit(X, y)
    some, chosen = X[:12], np.arange(12) % classes
    found = model.contributions(some, chosen)
    for i, x in enumerate(some):

        def score(known, x=x, k=chosen[i]):
            if kind is GradientBoosting:
                raw = of_boosting(model, x, known)
                return raw[0] if classes == 2 else raw[k] - raw.mean()
            return of_forest(model, x, known)[1 if classes == 2 else k]

        np.testing.assert_allclose(found.values[i], shapley(score, M), atol=1e-7)
        np.testing.assert_allclose(found.base[i], score(frozenset()), atol=1e-7)
