"""Asking step by step: against a literal twin, never at the price of another answer; and the states
of all rows.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.acquisition.forest import FlatForest
from payoff.acquisition.nodes import flatten
from payoff.acquisition.prices import Prices, purchases
from payoff.acquisition.states import Trajectories
from payoff.errors import Invalid
from tests.reference.acquisition import full_class, nested, state
from tests.reference.forests import random_case, random_prices
from tests.reference.stepwise import (
    UNAVAILABLE,
    simulate,
    stands_as,
    travels_as_it_steps,
)

seeds = st.integers(0, 10**6)
budgets = st.sampled_from([None, 0, 0.3, 2.5, 6.0])


@settings(deadline=None)
@given(seed=seeds, T=st.integers(1, 9), K=st.integers(2, 5))
def test_stopping_early_never_changes_the_class(seed, T, K):
    """For every row, with and without vote stopping, the class is the one of the complete row;
    stopping costs less.
    """
    forest, trees, prices, X, _ = random_case(seed, T=T, K=K)
    full = [full_class([nested(tree) for tree in trees], x, K) for x in X.tolist()]
    np.testing.assert_array_equal(forest.predict(X), full)
    plain = simulate(forest, X, prices, stop_when_settled=False)
    stopped = simulate(forest, X, prices)
    np.testing.assert_array_equal(plain.prediction, full)
    np.testing.assert_array_equal(stopped.prediction, full)
    np.testing.assert_array_equal(plain.probabilities, forest.posterior(X))
    assert (stopped.questions <= plain.questions).all()
    assert plain.resolved.all()


@settings(deadline=None)
@given(seed=seeds, budget=budgets, T=st.integers(1, 6))
def test_a_state_is_the_literal_one(seed, budget, T):
    """For any values known, in any order, some of which cannot be had: frontier, prices, stop and
    answer agree.
    """
    forest, trees, prices, X, random = random_case(seed, T=T)
    twins = [nested(tree) for tree in trees]
    for x in X[:5]:
        order = random.permutation(5)[: random.integers(0, 6)].tolist()
        lost = [j for j in order if random.random() < 0.2 or math.isnan(x[j])]
        status = np.zeros((1, 5), int)
        status[0, order] = range(1, len(order) + 1)
        status[0, lost] = UNAVAILABLE
        known = {j: math.nan if j in lost else x[j] for j in order}
        row = np.array([[known.get(j, -5.0) for j in range(5)]])
        now = forest.step(row, status, prices, budget)
        twin = state(twins, known, 3, prices, math.inf if budget is None else budget)
        stands_as(now, 0, twin)
        assert now.prediction[0] == twin["prediction"]
        np.testing.assert_allclose(
            now.probabilities[0], twin["probabilities"], rtol=1e-6, atol=1e-9
        )


def test_classes_beyond_the_bits_of_a_word_are_still_settled_rightly():
    """With 70 classes nothing is known about what a subtree can vote for, and the answer stays
    right.
    """
    forest, trees, prices, X, _ = random_case(3, T=9, K=70)
    run = simulate(forest, X, prices)
    np.testing.assert_array_equal(
        run.prediction,
        [full_class([nested(t) for t in trees], x, 70) for x in X.tolist()],
    )


def test_no_trees_answer_with_the_prior():
    """An empty forest asks for nothing."""
    forest = FlatForest(flatten([], np.array([0.3, 0.7])), 2)
    now = forest.step(np.zeros((1, 2)), np.zeros((1, 2)), Prices.unit(2))
    assert (
        now.following[0],
        now.prediction[0],
        now.spent[0],
        now.resolved[0],
        now.trees,
    ) == (
        -1,
        1,
        0,
        0,
        0,
    )
    np.testing.assert_array_equal(now.probabilities, [[0.3, 0.7]])
    np.testing.assert_array_equal(forest.predict(np.zeros((3, 2))), [1, 1, 1])
    np.testing.assert_array_equal(forest.posterior(np.zeros((1, 2))), [[0.3, 0.7]])
    assert simulate(forest, np.zeros((3, 2)), Prices.unit(2)).cost.sum() == 0


def test_a_budget_of_a_sum_buys_its_parts():
    """0.1 and 0.2 are affordable with 0.3, whatever their sum in binary."""
    forest, _, _, X, _ = random_case(1, m=2)
    run = simulate(
        forest, np.nan_to_num(X), Prices.of([0.2, 0.1]), 0.3, stop_when_settled=False
    )
    assert run.resolved.all()
    assert run.cost.max() == pytest.approx(0.3)


@pytest.mark.parametrize("budget", [0, 1e-12])
def test_small_prices_are_not_free(budget):
    """Prices of 1e-10 are above these budgets, however small they are."""
    forest, _, _, X, _ = random_case(1, m=2)
    assert (
        simulate(forest, np.nan_to_num(X), Prices.of([1e-10, 1e-10]), budget).cost.sum()
        == 0
    )


def test_what_does_not_fit_is_refused():
    """Shapes, prices for other features, a budget below zero."""
    forest, _, prices, X, _ = random_case(0)
    known = np.zeros(X.shape)
    for call in (
        lambda: forest.step(X[:, :4], known[:, :4], prices),
        lambda: forest.step(X, known[:3], prices),
        lambda: forest.step(X, known, Prices.unit(4)),
    ):
        with pytest.raises(Invalid):
            call()


@settings(deadline=None)
@given(seed=seeds, budget=st.sampled_from([None, 0, 0.3, 2.5, 6.0]))
def test_every_state_is_the_sessions(seed, budget):
    """Question, offer, answer, when the vote is settled, and what has been paid, state by state."""
    forest, _, prices, X, _ = random_case(seed)
    travels_as_it_steps(forest, X, prices, budget)


@settings(deadline=None)
@given(seed=seeds)
def test_offers_are_the_prices_of_that_order(seed):
    """Prices in an order of questions, groups and gaps minded: what `Prices.paid` says of those
    that are had.
    """
    random = np.random.default_rng(seed)
    prices = random_prices(random, 6)
    asked = np.array([random.permutation(6) for _ in range(5)])
    asked[:, 4:] = np.where(random.random((5, 2)) < 0.5, -1, asked[:, 4:])
    asked[:, 5] = np.where(asked[:, 4] < 0, -1, asked[:, 5])
    missing = (random.random(asked.shape) < 0.3) & (asked >= 0)
    price, paid, bought = purchases(asked, missing, prices)
    for i in range(5):
        had = [s for s in range(6) if asked[i, s] >= 0 and not missing[i, s]]
        assert price[i, had].tolist() == prices.paid(asked[i, had])
        assert paid[i, had].tolist() == price[i, had].tolist()
        assert paid[i].sum() == pytest.approx(sum(prices.paid(asked[i, had])))
        assert (price[i, asked[i] < 0] == 0).all()
        assert bought[i].tolist() == (asked[i] >= 0).tolist()


def test_journeys_of_several_forests_stand_together():
    """Joined, each row keeps its states, with room for the longest."""
    parts = []
    for seed in (1, 2, 3):
        forest, _, prices, X, _ = random_case(seed, T=seed)
        parts.append(forest.travel(X, prices))
    joined = Trajectories.join(parts)
    assert len(joined) == sum(map(len, parts))
    start = 0
    for part in parts:
        width = part.asked.shape[1]
        here = slice(start, start + len(part))
        np.testing.assert_array_equal(joined.P[here, : width + 1], part.P)
        np.testing.assert_array_equal(joined.asked[here, :width], part.asked)
        assert (joined.asked[here, width:] == -1).all()
        start += len(part)
