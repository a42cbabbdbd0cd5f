"""A chain of forests: its trees, its states, and its stop, against literal twins."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.acquisition.chain import Chain, ChainExperience, Reduced, lacking
from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import Orders
from payoff.acquisition.nodes import MISSING_LEFT, beside
from payoff.acquisition.prices import Prices
from payoff.acquisition.stopping import Blend
from tests.reference.chain import shares, without
from tests.reference.forests import random_prices
from tests.reference.stepwise import travels_as_it_steps
from tests.reference.worth import curves_of_chains

seeds = st.integers(0, 10**6)
PRICES = Prices(
    np.array([1.0, 2, 0.5, 0]),
    np.array([1.0, 0.5, 0.5, 0]),
    np.array([-1, 0, 0, -1], np.int32),
    ("g",),
)
PRIOR = np.array([0.5, 0.3, 0.2])


def table(seed, n=60, m=4, K=3, gaps=0.1):
    """Columns (m, n) with ties and gaps, and classes that lean on them."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 6, (m, n)).astype(np.float32)
    y = ((X[0] + X[1] + random.integers(0, 3, n)) % K).astype(int)
    X[random.random((m, n)) < gaps] = np.nan
    return X, y


def forests(seed, states=4, trees=3, **changes):
    X, y = table(seed, **changes)
    K = int(y.max()) + 1
    parts = [
        grow(X[:s], y, np.ones(len(y)), K, Rule(1), range(trees))[0]
        for s in range(1, states + 1)
    ]
    return beside(parts, PRIOR[:K]), X, y


@settings(deadline=None, max_examples=25)
@given(seed=seeds, gaps=st.sampled_from([0, 0.2]))
def test_a_forest_answers_as_its_trees_say(seed, gaps):
    """The mean of the leaves that a row reaches, with missing values, in each state; also after a
    pickle.
    """
    trees, X, y = forests(seed, gaps=gaps)
    rows = np.ascontiguousarray(X.T)
    state = np.arange(len(y)) % 4 + 1
    expected = [
        shares(trees, s - 1, 4, x) for s, x in zip(state, rows.tolist(), strict=True)
    ]
    np.testing.assert_allclose(trees.shares(rows, state, 4), expected, rtol=1e-6)
    copied = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(
        copied.shares(rows, state, 4), trees.shares(rows, state, 4)
    )


@settings(deadline=None, max_examples=25)
@given(
    seed=seeds,
    least=st.sampled_from([1, 3, 10]),
    tries=st.sampled_from([1, 3]),
    gaps=st.sampled_from([0, 0.2]),
)
def test_a_tree_divides_all_rows(seed, least, tries, gaps):
    """Every leaf has at least so many rows, and the class shares of the rows that reach it; with
    one row a leaf, rows that differ are told apart.
    """
    X, y = table(seed, gaps=gaps)
    tree, importance = grow(X, y, np.ones(len(y)), 3, Rule(least, tries), [seed])
    P = tree.shares(X.T, np.ones(len(y)))
    distinct, which = np.unique(P, axis=0, return_inverse=True)
    for place, distribution in enumerate(distinct):
        counts = np.bincount(y[which == place], minlength=3)
        assert counts.sum() >= least
        np.testing.assert_allclose(counts / counts.sum(), distribution, atol=1e-6)
    assert (importance >= -1e-9).all()
    if least == 1:
        for i in range(len(y)):
            same = np.array(
                [
                    np.array_equal(X[:, i], X[:, k], equal_nan=True)
                    for k in range(len(y))
                ]
            )
            np.testing.assert_allclose(
                P[i], np.bincount(y[same], minlength=3) / same.sum(), atol=1e-6
            )


def test_the_threshold_is_uniform_and_the_purest_feature_wins():
    """One feature that tells the classes apart is split on, anywhere between its values; others are
    not.
    """
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = np.stack((random.random(100), np.repeat([0.0, 10.0], 50))).astype(np.float32)
    roots = [grow(X, y, np.ones(100), 2, Rule(1), [seed])[0] for seed in range(400)]
    assert {int(tree.feature[0]) for tree in roots} == {1}
    thresholds = np.array([tree.threshold[0] for tree in roots])
    assert (len(roots[0].right), thresholds.min() >= 0, thresholds.max() < 10) == (
        3,
        True,
        True,
    )
    assert np.histogram(thresholds, 4, (0, 10))[0].min() > 70


@settings(deadline=None, max_examples=25)
@given(seed=seeds, least=st.sampled_from([1, 5]), gaps=st.sampled_from([0, 0.2]))
def test_many_thresholds_find_the_best_split(seed, least, gaps):
    """The root of a tree with 200 thresholds for each feature is as pure as the best split."""
    X, y = table(seed, gaps=gaps)
    tree, _ = grow(X, y, np.ones(len(y)), 3, Rule(least, 200), [seed])
    column, left = (
        int(tree.feature[0]) % MISSING_LEFT,
        bool(tree.feature[0] >= MISSING_LEFT),
    )
    found = impurity(X, y, column, float(tree.threshold[0]), left, least)
    tops = np.nanmax(X, axis=1).astype(int)
    every = [
        impurity(X, y, j, t, side, least)
        for j in range(4)
        for t in range(tops[j])
        for side in (False, True)
    ]
    assert found == pytest.approx(min(every))


def impurity(X, y, column, threshold, left, least):
    """The rows of the sides times their Gini impurity, or infinity if a side has too few rows."""
    goes = (X[column] <= threshold) | (np.isnan(X[column]) & left)
    sides = [np.bincount(y[side], minlength=3) for side in (goes, ~goes)]
    if min(counts.sum() for counts in sides) < least:
        return np.inf
    return sum(counts.sum() - (counts**2).sum() / counts.sum() for counts in sides)


def test_a_weight_is_a_repeated_row():
    """Thresholds depend on the values alone, so the tree is the same."""
    X, y = table(0)
    weights = np.random.default_rng(1).integers(1, 4, len(y))
    twice = np.repeat(np.arange(len(y)), weights)
    one = grow(X, y, weights.astype(float), 3, Rule(1), [5])[0]
    other = grow(
        np.ascontiguousarray(X[:, twice]),
        y[twice],
        np.ones(len(twice)),
        3,
        Rule(1),
        [5],
    )[0]
    np.testing.assert_array_equal(
        one.shares(X.T, np.ones(len(y))), other.shares(X.T, np.ones(len(y)))
    )


def random_experience(seed, n=50, S=4, K=3):
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.ones(K), (n, S + 1))
    P[:, 0] = P[0, 0]
    order = random.permutation(S)
    return ChainExperience.of(
        P, random.integers(0, K, n), random.random((n, S)) < 0.2, order, S
    ), random


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds,
    budget=st.sampled_from([None, 1.0, 2.5]),
    size=st.sampled_from([0.1, 3, 50]),
)
def test_the_stop_is_the_literal_backward_pass(seed, budget, size):
    """Curves of random experience with gaps, groups and budgets."""
    known, random = random_experience(seed)
    B = random.normal(size=(3, 2)) * size
    worth = known.worth(B, PRICES, budget)
    found = curves_of_chains(known, B, PRICES, math.inf if budget is None else budget)
    assert len(found) == 4 or budget is not None
    z = random.random(50) * 2 * size
    for j, curve in found.items():
        gains = worth.gain(np.full(50, j), z)
        np.testing.assert_allclose(
            gains, [curve(stake) for stake in z], rtol=1e-6, atol=1e-6 * size
        )
        assert (gains <= z).all(), "more than perfect information is worth"


def reduced_forests(seed, X, y, marks, calibrated):
    """Forests that lack a feature, with losses and blends at random; a little more than the chain's
    losses.
    """
    random = np.random.default_rng(seed)
    missing, parts = lacking(4, marks), []
    for length, lost in missing:
        rows = X[:length].copy()
        rows[list(lost)] = np.nan
        parts.append(grow(rows, y, np.ones(len(y)), 3, Rule(1), [9, 10])[0])
    if not parts:
        return None
    reduced = Reduced.of(4, missing, beside(parts, PRIOR))
    if not calibrated:
        return reduced
    two = [k > 0 and missing[k - 1][1] == missing[k][1] for k in range(len(missing))]
    blends = [
        Blend(random.random(1 + more), random.normal(size=3), 0.01) for more in two
    ]
    return replace(
        reduced,
        blends=blends,
        loss=random.random(5 + len(missing)),
        masked_loss=random.random(),
    )


def chain(seed, gaps=0.0, known_gaps=(), reduced=None):
    """A chain over four of five columns, not calibrated, with prices and rows; `reduced`: whether
    those are.
    """
    trees, X, y = forests(seed, gaps=gaps)
    masked, _ = grow(X, y, np.ones(len(y)), 3, Rule(5), [7, 8])
    marks = np.isin(np.arange(4), known_gaps)
    order = np.array([3, 0, 4, 1])
    others = None if reduced is None else reduced_forests(seed, X, y, marks, reduced)
    model = Chain(order, 5, trees, [], marks, masked, None, Orders(), others)
    rows = np.full((len(y), 5), 9.0)
    rows[:, order] = X.T
    return model, rows, random_prices(np.random.default_rng(seed), 5)


@settings(deadline=None, max_examples=20)
@given(
    seed=seeds, budget=st.sampled_from([None, 0, 2.5, 6.0]), gaps=st.sampled_from([0, 0.2]),
    reduced=st.sampled_from([None, False, True]),
)  # fmt: skip
def test_step_by_step_is_the_trajectory(seed, budget, gaps, reduced):
    """Answers, prices and the sum spent agree to the last digit, with values that cannot be had;
    these are missing, or marked in complete rows.
    """
    model, complete, prices = chain(seed, gaps, reduced=reduced)
    complete = complete[:10]
    missing = np.isnan(complete) | (
        np.random.default_rng(seed).random(complete.shape) < 0.2
    )
    travels_as_it_steps(model, complete, prices, budget, missing)


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    gaps=st.sampled_from([0.2, 0.5]),
    known=st.sets(st.integers(0, 3)),
    reduced=st.sampled_from([None, False, True]),
)
def test_what_cannot_be_had_is_answered_by_the_best_forest_without_it(
    seed, gaps, known, reduced
):
    """As the plain loops, also if only some columns had gaps in training; no missing value reaches
    a forest without. Without reduced forests it is the masked one.
    """
    model, X, _ = chain(seed, gaps, known, reduced=reduced)
    rows = X[:, model.order].astype(np.float32)
    state = np.random.default_rng(seed).integers(1, 5, len(rows)).astype(np.int32)
    strange = (np.isnan(rows) & ~model.gaps & (np.arange(4) < state[:, None])).any(
        axis=1
    )
    expected = [
        without(model, x, s)
        for x, s in zip(rows[strange].tolist(), state[strange].tolist(), strict=True)
    ]
    np.testing.assert_allclose(
        model.answers(rows, state)[strange], np.reshape(expected, (-1, 3)), rtol=1e-6
    )
    plain = replace(model, reduced=None).answers(rows, state)
    np.testing.assert_array_equal(model.answers(rows, state)[~strange], plain[~strange])


def test_a_lost_feature_has_a_forest_for_each_prefix():
    """Up to seven features and for all of them, without one of the first five or two of the first
    three; none lacks what had gaps in training.
    """
    none = np.zeros(12, dtype=bool)
    first = [length for length, lost in lacking(12, none) if lost == (0,)]
    assert first == [2, 3, 4, 5, 6, 7, 12]
    assert [length for length, lost in lacking(12, none) if lost == (4,)] == [6, 7, 12]
    assert {lost for _, lost in lacking(12, none)} == {
        (0,),
        (1,),
        (2,),
        (3,),
        (4,),
        (0, 1),
        (0, 2),
        (1, 2),
    }
    assert {lost for _, lost in lacking(12, np.arange(12) == 1)} == {
        (0,),
        (2,),
        (3,),
        (4,),
        (0, 2),
    }
    assert lacking(1, none[:1]) == []


def test_a_value_known_out_of_turn_counts_in_its_turn():
    """The second and third of the order are known: the first is asked for, and then the state is
    three.
    """
    model, X, prices = chain(4)
    status = np.array([[1, 0, 0, 0, 2]])
    now = model.step(X[:1], status, prices)
    assert now.following[0] == 3
    assert now.order[0, : now.wanted[0]].tolist() == [3, 1]
    np.testing.assert_array_equal(now.probabilities[0], PRIOR)
    later = model.step(X[:1], status | np.array([[0, 0, 0, 3, 0]]), prices)
    rows = X[:1, model.order].astype(np.float32)
    np.testing.assert_array_equal(
        later.probabilities, model.forests.shares(rows, np.array([3]), 4)
    )
    assert later.spent[0] == pytest.approx(sum(prices.paid([0, 4, 3])))


def test_what_costs_more_than_the_budget_ends_the_chain():
    """The state is complete knowledge for what the budget pays; a later, cheaper feature is not
    asked for.
    """
    model, X, _ = chain(5)
    prices = Prices.of([9.0, 1, 1, 1, 1])
    run = model.travel(X[:3], prices, 2.0)
    assert run.asked[0].tolist() == [3]
    assert run.length.tolist() == [1, 1, 1]
    now = model.step(X[:1], np.array([[0, 0, 0, 1, 0]]), prices, 2.0)
    assert now.following[0] == -1
    sums = model.travel(
        X[:3], Prices.of([0.2, 1, 9, 0.1, 1]), 0.3
    )  # .1 and .2 add up to a hair more than .3
    assert sums.length.tolist() == [2, 2, 2]
