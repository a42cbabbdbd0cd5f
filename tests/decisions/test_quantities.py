"""Quantiles, bands and costs of the distribution of a number, beside loops over its samples."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.quantities import Distribution, Samples
from tests.reference import decisions as reference

NUMBERS = st.integers(-5, 5).map(float) | st.floats(-1e6, 1e6)
ROW = st.lists(st.tuples(NUMBERS, st.integers(1, 9)), min_size=1, max_size=12)


def padded(row, width):
    """Values in order with the shares reached, the last repeated up to the width."""
    values, weights = map(np.array, zip(*sorted(row), strict=True))
    reached = np.cumsum(weights / weights.sum())
    reached[-1] = 1.0
    return [np.append(each, np.full(width - len(row), each[-1])) for each in (values, reached)]


@given(st.lists(ROW, max_size=5), st.lists(NUMBERS, min_size=1, max_size=4, unique=True), NUMBERS, st.integers(1, 3))
def test_answers_are_those_of_the_samples_one_by_one(rows, cuts, quantity, size):
    """Whatever rows are in a part; levels that are sums of weights are reached, however these are rounded."""
    cuts, levels = sorted(cuts), [Fraction(k, 20) for k in range(21)]
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    pairs = [np.swapaxes([padded(row, max(map(len, part))) for row in part], 0, 1) for part in parts]
    found = Distribution(len(rows), lambda: [Samples(*pair) for pair in pairs])

    expected = np.array([[reference.quantile(row, level) for level in levels] for row in rows]).reshape(-1, 21)
    np.testing.assert_array_equal(found.quantiles(np.array(levels, dtype=float)), expected)
    own = np.resize([0.05, 0.5, 1.0], (len(rows), 1))
    np.testing.assert_array_equal(found.quantiles(own), np.take_along_axis(expected, (20 * own).astype(int), axis=1))
    expected = [reference.band_shares(row, cuts) for row in rows]
    assert found.shares(cuts) == pytest.approx(np.reshape(expected, (-1, len(cuts) + 1)), abs=1e-12)
    expected = [reference.quantity_cost(row, quantity, 2, 3) for row in rows]
    costs = found.costs(np.full(len(rows), quantity), 2.0, np.full(len(rows), 3.0))
    assert costs == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


def test_all_rows_may_share_what_is_reached_and_the_best_quantity_is_the_quantile():
    """Of over 1 and under 4 the quantile of 4/5; no other value costs less."""
    values = np.sort(np.random.default_rng(0).normal(size=(3, 50)), axis=1)
    found = Distribution(3, lambda: [Samples(values, np.arange(1, 51)[None] / 50)])
    best = found.quantiles([0.8])[:, 0]
    np.testing.assert_array_equal(best, values[:, 39])
    others = [found.costs(values[:, k], 1, 4) for k in range(50)]
    assert found.costs(best, 1, 4) == pytest.approx(np.min(others, axis=0))
