"""The states that rows pass through: those of the session, one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.acquisition.prices import purchases
from app.acquisition.states import Trajectories
from tests.reference.forests import random_case, random_prices
from tests.reference.stepwise import travels_as_it_steps

seeds = st.integers(0, 10**6)


@settings(deadline=None)
@given(seed=seeds, budget=st.sampled_from([None, 0, 0.3, 2.5, 6.0]))
def test_every_state_is_the_sessions(seed, budget):
    """Question, offer, answer, when the vote is settled, and what has been paid, state by state."""
    forest, _, prices, X, _ = random_case(seed)
    travels_as_it_steps(forest, X, prices, budget)


@settings(deadline=None)
@given(seed=seeds)
def test_offers_are_the_prices_of_that_order(seed):
    """Prices in an order of questions, groups and gaps minded: what `Prices.paid` says of those that are had."""
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
