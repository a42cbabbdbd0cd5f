"""What asking on is worth: against a literal twin, where the answer is known, and where nothing is
to be gained.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.acquisition.learning import fit_stages, learn
from payoff.acquisition.prices import Prices
from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Experience, StageCurve, at_stake
from tests.reference.forests import random_case
from tests.reference.worth import gain, lines_of_forests

seeds = st.integers(0, 10**6)


def experience(P, y, asked=None, missing=None):
    """Of states as given: P (n, S + 1, K); every row is asked for all of its S features in turn."""
    n, S = P.shape[0], P.shape[1] - 1
    asked = np.tile(np.arange(S, dtype=np.int16), (n, 1)) if asked is None else asked
    missing = np.zeros((n, S), dtype=bool) if missing is None else missing
    curve = StageCurve(
        np.zeros((2 * P.shape[2] + 1, P.shape[2])), np.zeros(P.shape[2]), 1.0, 0.01
    )
    return Experience(
        asked, missing, (asked >= 0).sum(axis=1), P.astype(np.float32), y, curve, S
    )


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds,
    budget=st.sampled_from([None, 0.4, 1.0, 4.0]),
    size=st.sampled_from([0.1, 3, 50]),
)
def test_it_is_the_literal_backward_pass(seed, budget, size):
    """Offsets and slopes of random experience with gaps, groups and trajectories of different
    lengths.
    """
    random = np.random.default_rng(seed)
    n, S, K = 40, 4, 3
    P = random.dirichlet(np.ones(K), (n, S + 1))
    asked = np.array([random.permutation(S) for _ in range(n)]).astype(np.int16)
    lengths = random.integers(0, S + 1, n)
    asked[np.arange(S) >= lengths[:, None]] = -1
    missing = (random.random((n, S)) < 0.2) & (asked >= 0)
    known = experience(P, random.integers(0, K, n), asked, missing)
    prices = Prices(
        np.array([1.0, 2, 0.5, 0]),
        np.array([1.0, 0.5, 0.5, 0]),
        np.array([-1, 0, 0, -1], np.int32),
        ("g",),
    )
    B = random.normal(size=(K, 2)) * size
    worth = known.worth(B, prices, budget)
    expected = lines_of_forests(known, B, prices, np.inf if budget is None else budget)
    for name, values, scale in zip(
        ("offset", "slope", "low", "high"),
        expected.T,
        (size, 1, size, size),
        strict=True,
    ):
        np.testing.assert_allclose(
            getattr(worth, name), values, rtol=1e-6, atol=1e-6 * scale
        )
    stakes = np.concatenate(
        ([0.0], 10.0 ** random.uniform(-6, 3, 50))
    )  # also far outside of those that were seen
    for j in range(S):
        gains = [gain(expected[j], stake) for stake in stakes]
        np.testing.assert_allclose(
            worth.gain(np.full(51, j), stakes), gains, rtol=1e-6, atol=1e-6 * size
        )
        assert (worth.gain(np.full(51, j), stakes) <= stakes).all()


def perfect(n=200):
    """A first feature that tells nothing and a second one that tells everything; classes half and
    half.
    """
    y = np.arange(n) % 2
    truth = np.eye(2)[y]
    half = np.full((n, 2), 0.5)
    return experience(np.stack([half, half, truth], axis=1), y)


@pytest.mark.parametrize(("second", "buys"), [(4.0, True), (6.0, False)])
def test_a_useless_question_is_worth_what_follows_it(second, buys):
    """At a price of 3 for the first feature and `second` for the telling one, 10 are at stake
    between two classes: knowing is worth 10 - 5 = 5. The first is bought for the sake of the
    second, if both together are worth it.
    """
    B = np.array([[10.0, 0.0], [0.0, 10.0]])
    for first in (0.5, 3.0):
        worth = perfect().worth(B, Prices.of([first, second]))
        stake = np.array([5.0])
        assert worth.gain(np.array([1]), stake) == pytest.approx(5)
        assert worth.stops(np.array([1]), np.array([second]), stake)[0] != buys
        gain = 5 - second if buys else 0
        assert worth.gain(np.array([0]), stake) == pytest.approx(gain)
        assert worth.stops(np.array([0]), np.array([first]), stake)[0] == (
            gain <= first
        )


def test_a_budget_buys_with_the_sessions_slack():
    """.1 and .2 add up to a hair more than .3."""
    y = np.arange(200) % 2
    half = np.full((200, 2), 0.5)
    known = experience(np.stack([half, half, np.eye(2)[y]], axis=1), y)
    within = known.worth(np.eye(2), Prices.of([0.1, 0.2]), budget=0.3)
    np.testing.assert_allclose(
        within.offset, known.worth(np.eye(2), Prices.of([0.1, 0.2])).offset
    )


def test_a_constant_added_to_a_row_of_benefits_changes_nothing():
    """What is earned whatever is done is not at stake, be it a billion times the rest."""
    B = np.array([[10.0, 0.0], [0.0, 10.0]])
    high = B + np.array([[1e13], [-1e12]])
    P = np.array([[0.3, 0.7], [0.999, 0.001]])
    np.testing.assert_allclose(at_stake(P, high), at_stake(P, B), rtol=1e-12)
    plain, moved = (
        perfect().worth(matrix, Prices.of([1.0, 2.0])) for matrix in (B, high)
    )
    np.testing.assert_allclose(moved.offset, plain.offset)
    np.testing.assert_allclose(moved.slope, plain.slope)


def test_free_features_are_never_refused_and_nothing_is_paid_for_nothing():
    """Without anything at stake the gain is 0, at whatever offset; a free feature goes on all the
    same.
    """
    worth = perfect().worth(np.array([[1.0, 1.0], [1.0, 1.0]]), Prices.of([0.0, 1.0]))
    features, nothing = np.array([0, 1]), np.zeros(2)
    assert worth.gain(features, nothing).tolist() == [0, 0]
    assert worth.stops(features, np.array([0.0, 1.0]), nothing).tolist() == [
        False,
        True,
    ]


def test_what_is_at_stake():
    """The expected value of knowing the truth: never below 0, and 0 where one action is always
    best.
    """
    random = np.random.default_rng(0)
    P, B = random.dirichlet(np.ones(3), 50), random.normal(size=(3, 4))
    np.testing.assert_allclose(
        at_stake(P, B), P @ B.max(axis=1) - (P @ B).max(axis=1), atol=1e-12
    )
    assert (at_stake(P, np.array([[3.0, 1], [0.1, 0.1], [7, 2]])) == 0).all()


def test_experience_keeps_the_states_and_calibrates_them():
    """Ends are as `finish` says, states before are calibrated rows of probabilities."""
    forest, _, prices, X, random = random_case(3, T=9)
    rows = Trajectories.join([forest.travel(X, prices)] * 5)
    y = random.integers(0, 3, len(rows))
    known = learn(rows, y, 5, lambda P: P)
    np.testing.assert_allclose(known.P.sum(axis=2), 1, rtol=1e-6)
    ends = np.arange(len(rows)), rows.length
    np.testing.assert_allclose(known.P[ends], rows.P[ends], rtol=1e-6)
    assert known.P[:, 0].min() > 1 / (len(rows) + 3) / 2
    assert known.curve.typical == rows.length.mean()


@pytest.mark.parametrize("longest", [2, 8, 20])
@pytest.mark.parametrize("rare", [0.03, 0.1, 0.4])
def test_what_is_at_stake_at_first_is_what_the_class_shares_say(longest, rare):
    """Also where the rows of one class take the long journeys: one question tells that a row is of
    the other class.

    The dear first question pays, so it is asked.
    """
    n = 1000
    y = (np.arange(n) < rare * n).astype(int)
    length = np.where(y == 1, longest, 1).astype(np.int32)
    states = np.arange(longest + 1)
    asked = np.where(states[:-1] < length[:, None], states[:-1], -1).astype(np.int32)
    P = np.tile([1 - rare, rare], (n, longest + 1, 1))
    P[:, 1:] = np.where((y == 1)[:, None, None], [0.2, 0.8], [1.0, 0.0])
    vote, none = P.argmax(axis=2), np.zeros((n, longest), dtype=bool)
    rows = Trajectories(
        asked, 1.0 * (asked >= 0), none, P, vote, length, length, np.ones(n, dtype=bool)
    )
    known = learn(rows, y, longest, lambda P: P)
    assert known.P[:, 0, 1] == pytest.approx(rare, abs=0.1 * rare)
    B = np.array([[0.0, -100], [-100, 0]])
    stake, _ = known.valued(B)
    dear = Prices.of([0.5 * 100 * rare] + [0.1] * (longest - 1))
    stops = known.worth(B, dear).stops(
        asked[:, 0], np.full(n, 50.0 * rare), stake[:, 0]
    )
    assert not stops.any()


def test_calibrated_states_say_what_happens():
    """Probabilities of states that were far too sure are drawn to what happened, and keep away from
    0 and 1.
    """
    random = np.random.default_rng(1)
    n = 4000
    y = random.integers(0, 2, n)
    right = random.random(n) < 0.7
    sure = np.where(right, y, 1 - y)
    P = np.where(np.arange(2) == sure[:, None], 0.99, 0.01)
    curve = fit_stages(P, np.ones(n), y, np.ones(n), 2.0)
    assert curve.apply(P, np.ones(n)).max(axis=1).mean() == pytest.approx(0.7, abs=0.02)
    many = fit_stages(np.eye(3)[y], np.ones(n), y, np.ones(n), 2.0).apply(
        np.eye(3), np.ones(3)
    )
    assert (many > 0).all()
    np.testing.assert_allclose(many.sum(axis=1), 1)


def test_shares_that_hardly_differ_after_few_questions_count_as_much_as_they_mean():
    """After the first question 60 % of the trees are right for 90 % of the rows; after the last 90
    % of them are.
    """
    y, sure = (
        np.tile(np.repeat([0, 1], 10), 10),
        np.tile(np.repeat([0, 1, 0], [9, 10, 1]), 10),
    )
    known = np.repeat([1.0, 20.0], len(y))
    share = np.where(known[:, None] == 1, 0.6, 0.9)
    P = np.where(np.arange(2) == np.tile(sure, 2)[:, None], share, 1 - share)
    curve = fit_stages(P, known, np.tile(y, 2), np.full(2 * len(y), 0.5), 20.0)
    np.testing.assert_allclose(curve.apply(P, known).max(axis=1), 0.9, atol=0.05)
