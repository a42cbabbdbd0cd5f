"""Quantiles, bands, costs and sums of the distribution of a number, beside loops and a linear
program.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from payoff.decisions.quantities import Distribution, Samples
from payoff.decisions.quantity_limits import within_sum
from payoff.errors import Invalid
from tests.reference import decisions as reference

NUMBERS = st.integers(-5, 5).map(float) | st.floats(-1e6, 1e6)
ROW = st.lists(st.tuples(NUMBERS, st.integers(1, 9)), min_size=1, max_size=12)


def padded(row, width):
    """Values in order with the shares reached, the last repeated up to the width."""
    values, weights = map(np.array, zip(*sorted(row), strict=True))
    reached = np.cumsum(weights / weights.sum())
    reached[-1] = 1.0
    repeats = width - len(row)
    return [np.pad(column, (0, repeats), mode="edge") for column in (values, reached)]


@given(
    st.lists(ROW, max_size=5),
    st.lists(NUMBERS, min_size=1, max_size=4, unique=True),
    NUMBERS,
    st.integers(1, 3),
)
def test_answers_are_those_of_the_samples_one_by_one(rows, cuts, quantity, size):
    """Whatever rows are in a part; levels that are sums of weights are reached, however these are
    rounded.
    """
    cuts, levels = sorted(cuts), [Fraction(k, 20) for k in range(21)]
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    pairs = [
        np.swapaxes([padded(row, max(map(len, part))) for row in part], 0, 1)
        for part in parts
    ]
    distribution = Distribution(
        np.empty(len(rows)), lambda: [Samples(*pair) for pair in pairs]
    )

    expected = np.array(
        [[reference.quantile(row, level) for level in levels] for row in rows]
    ).reshape(-1, 21)
    np.testing.assert_array_equal(
        distribution.quantiles(np.array(levels, dtype=float)), expected
    )
    by_row = np.resize([0.05, 0.5, 1.0], (len(rows), 1))
    np.testing.assert_array_equal(
        distribution.quantiles(by_row),
        np.take_along_axis(expected, (20 * by_row).astype(int), axis=1),
    )
    expected = [reference.band_shares(row, cuts) for row in rows]
    assert distribution.shares(cuts) == pytest.approx(
        np.reshape(expected, (-1, len(cuts) + 1)), abs=1e-12
    )
    expected = [reference.quantity_cost(row, quantity, 2, 3) for row in rows]
    costs = distribution.costs(
        np.full(len(rows), quantity), 2.0, np.full(len(rows), 3.0)
    )
    assert costs == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


def test_all_rows_may_share_what_is_reached_and_the_best_quantity_is_the_quantile():
    """Of over 1 and under 4 the quantile of 4/5; no other value costs less."""
    values = np.sort(np.random.default_rng(0).normal(size=(3, 50)), axis=1)
    distribution = Distribution(
        np.empty(3), lambda: [Samples(values, np.arange(1, 51)[None] / 50)]
    )
    best = distribution.quantiles([0.8])[:, 0]
    np.testing.assert_array_equal(best, values[:, 39])
    costs = [distribution.costs(values[:, k], 1, 4) for k in range(50)]
    assert distribution.costs(best, 1, 4) == pytest.approx(np.min(costs, axis=0))


def by_linear_program(values, weights, over, under, limit):
    """The least expected cost; how much a quantity is above each value, and below it, are
    variables.
    """
    n, m = values.shape
    # The quantity, less what it is above a value, plus what it is below it, is the value.
    equal = np.hstack([np.repeat(np.eye(n), m, axis=0), -np.eye(n * m), np.eye(n * m)])
    costs = np.concatenate(
        [np.zeros(n), over * weights.ravel(), under * weights.ravel()]
    )
    lowest = [
        (row[of_row > 0].min(), None)
        for row, of_row in zip(values, weights, strict=True)
    ]
    total, bounds = (
        np.repeat([1.0, 0.0], [n, 2 * n * m])[None],
        lowest + [(0, None)] * (2 * n * m),
    )
    return linprog(
        costs, total, [limit], equal, values.ravel(), bounds, method="highs"
    ).fun


@pytest.mark.parametrize("seed", range(60))
def test_the_limited_quantities_cost_what_a_linear_program_finds(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 6, 2)
    values, weights = (
        np.sort(rng.integers(-3, 9, (n, m)) * 1.5),
        rng.integers(0, 4, (n, m)) + 0.0,
    )
    weights[:, -1] += 1
    weights = weights[:1] if seed % 3 == 0 else weights  # the same levels for all rows
    weights /= weights.sum(axis=1, keepdims=True)
    over, under = rng.choice([0.01, 0.5, 1.0, 4.0], 2)
    reached = np.minimum(weights.cumsum(axis=1), 1.0)
    weights = np.broadcast_to(weights, values.shape)
    parts = [
        Samples(values[:2], reached[:2]),
        Samples(values[2:], reached[2:] if len(reached) > 1 else reached),
    ]
    distribution = Distribution(np.empty(n), lambda: parts[: 1 + (n > 2)])
    least, best = distribution.quantiles(
        np.array([1e-300, under / (over + under)])
    ).sum(axis=0)
    for limit in least + (best - least) * np.array([0.0, rng.random(), 1.0, 2.0]):
        quantities, price = within_sum(distribution, over, under, limit)
        assert quantities.sum() <= limit + 1e-9
        beyond = quantities[:, None] - values
        cost = (weights * np.where(beyond > 0, over * beyond, -under * beyond)).sum()
        twin = by_linear_program(values, weights, over, under, limit)
        more = by_linear_program(values, weights, over, under, limit + 1e-4)
        assert cost == pytest.approx(twin, rel=1e-9, abs=1e-9)
        assert price == pytest.approx((twin - more) / 1e-4, abs=1e-6)
    with pytest.raises(Invalid, match=f"sum to {least:.12g};"):
        within_sum(distribution, over, under, least - 0.1)
