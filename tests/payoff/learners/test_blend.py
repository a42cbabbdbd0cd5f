"""Blends of learners: their weights, and what features contribute to them."""

import numpy as np
import pytest

from payoff.learners.blend import Blend, best_blend
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.random_forest import RandomForest


def minus_logs(p):
    return -np.log(p)


def answers(n=400, seed=0):
    """Probabilities of the true classes: two kinds that err on different rows, and a slow one."""
    rng = np.random.default_rng(seed)
    base = np.repeat(rng.uniform(0.5, 0.8, n // 2), 2)
    noise = np.tile((0.35, -0.35), n // 2)
    return {
        "a": base + noise / 2,
        "b": base - noise / 2,
        "slow": base + rng.uniform(-0.1, 0.102, n),
    }


def test_the_blend_of_least_loss_without_the_slow_kind_is_taken():
    parts = best_blend(answers(), minus_logs, np.ones(400), "slow")

    assert parts == {"a": 0.5, "b": 0.5}


def test_a_slow_kind_is_taken_where_the_quick_ones_are_clearly_worse():
    kinds = answers() | {"b": np.full(400, 0.3)}

    assert "slow" in best_blend(kinds, minus_logs, np.ones(400), "slow")


@pytest.mark.parametrize("seed", range(5))
def test_of_all_multisets_the_nearest_best_is_taken(seed):
    """By enumeration."""
    rng = np.random.default_rng(seed)
    kinds = {name: rng.uniform(0.2, 0.9, 50) for name in "abc"}
    weights = rng.uniform(0.5, 2.0, 50)
    means = {}
    for a in range(4):
        for b in range(4 - a):
            for c in range(4 - a - b):
                if a + b + c:
                    mean = (a * kinds["a"] + b * kinds["b"] + c * kinds["c"]) / (
                        a + b + c
                    )
                    means[a, b, c] = np.average(minus_logs(mean), weights=weights)
    best = np.array(min(means, key=means.get))

    parts = best_blend(kinds, minus_logs, weights, "none")

    np.testing.assert_allclose(
        [parts.get(name, 0.0) for name in "abc"], best / best.sum()
    )


def rows(K, n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X @ rng.normal(size=(3, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)


def blend_of(kinds, X, y, weights):
    members = tuple(
        kind(calibration="none", random_state=0).fit(X, y) for kind in kinds
    )
    return Blend(members, np.array(weights), None)


@pytest.mark.parametrize("K", [2, 3])
def test_contributions_are_the_weighted_mean_of_those_of_members_with_one_score(K):
    X, y = rows(K)
    blend = blend_of((Logistic, CostNaiveBayes), X, y, (1 / 3, 2 / 3))
    first, second = (member.contributions(X, y) for member in blend.members)

    mean = blend.contributions(X, y)

    np.testing.assert_allclose(mean.values, first.values / 3 + second.values * 2 / 3)
    np.testing.assert_allclose(mean.base, first.base / 3 + second.base * 2 / 3)
    assert (mean.score, mean.without) == (first.score, ())


@pytest.mark.parametrize("K", [2, 3])
def test_of_members_with_different_scores_they_add_up_to_the_probability(K):
    X, y = rows(K)
    blend = blend_of((Logistic, RandomForest), X, y, (0.5, 0.5))

    mean = blend.contributions(X, y)

    assert mean.score == "probability"
    P = blend.posterior(X)[np.arange(len(X)), mean.chosen]
    np.testing.assert_allclose(mean.base + mean.values.sum(axis=1), P, atol=1e-6)


def test_of_two_classes_a_feature_has_its_part_of_the_change_of_the_probability():
    """Along a line the probability changes in proportion to each feature's part of the log-odds."""
    X, y = rows(2)
    blend = blend_of((Logistic, RandomForest), X, y, (1 - 1e-9, 1e-9))
    odds = blend.members[0].contributions(X, y)
    start = 1 / (1 + np.exp(-odds.base))
    end = 1 / (1 + np.exp(-odds.base - odds.values.sum(axis=1)))
    parts = odds.values / odds.values.sum(axis=1, keepdims=True)

    mean = blend.contributions(X, y)

    np.testing.assert_allclose(mean.values, parts * (end - start)[:, None], atol=1e-4)


def test_members_without_contributions_are_named():
    X, y = rows(2)
    blend = blend_of((Logistic, KernelLogistic), X, y, (0.5, 0.5))

    mean = blend.contributions(X, y)

    np.testing.assert_allclose(mean.values, blend.members[0].contributions(X, y).values)
    assert mean.without == ("kernel_logistic",)
    assert blend_of((KernelLogistic,), X, y, (1.0,)).contributions(X, y) is None
