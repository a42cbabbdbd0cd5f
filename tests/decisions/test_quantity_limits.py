"""Quantities limited in their sum against a linear program, over distributions with steps, ties and weights of 0."""

import numpy as np
import pytest
from scipy.optimize import linprog

from app.decisions.quantities import Distribution, Samples
from app.decisions.quantity_limits import within_sum
from app.errors import Invalid


def by_linear_program(values, weights, over, under, most):
    """The least expected cost: of each value what the quantity is above it, and below it, are variables."""
    n, m = values.shape
    equal = np.hstack([np.repeat(np.eye(n), m, axis=0), -np.eye(n * m), np.eye(n * m)])  # q - above + below = value
    costs = np.concatenate([np.zeros(n), over * weights.ravel(), under * weights.ravel()])
    least = [(row[own > 0].min(), None) for row, own in zip(values, weights, strict=True)]
    total, bounds = np.repeat([1.0, 0.0], [n, 2 * n * m])[None], least + [(0, None)] * (2 * n * m)
    return linprog(costs, total, [most], equal, values.ravel(), bounds, method="highs").fun


@pytest.mark.parametrize("seed", range(60))
def test_the_limited_quantities_cost_what_a_linear_program_finds(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 6, 2)
    values, weights = np.sort(rng.integers(-3, 9, (n, m)) * 1.5), rng.integers(0, 4, (n, m)) + 0.0
    weights[:, -1] += 1
    weights = weights[:1] if seed % 3 == 0 else weights  # the same levels for all rows
    weights /= weights.sum(axis=1, keepdims=True)
    over, under = rng.choice([0.01, 0.5, 1.0, 4.0], 2)
    reached, weights = np.minimum(weights.cumsum(axis=1), 1.0), np.broadcast_to(weights, values.shape)
    parts = [Samples(values[:2], reached[:2]), Samples(values[2:], reached[2:] if len(reached) > 1 else reached)]
    distribution = Distribution(n, lambda: parts[: 1 + (n > 2)])
    least, best = distribution.quantiles(np.array([1e-300, under / (over + under)])).sum(axis=0)
    for most in least + (best - least) * np.array([0.0, rng.random(), 1.0, 2.0]):
        found, price = within_sum(distribution, over, under, most)
        assert found.sum() <= most + 1e-9
        beyond = found[:, None] - values
        cost = (weights * np.where(beyond > 0, over * beyond, -under * beyond)).sum()
        twin, more = (by_linear_program(values, weights, over, under, most + step) for step in (0.0, 1e-4))
        assert cost == pytest.approx(twin, rel=1e-9, abs=1e-9)
        assert price == pytest.approx((twin - more) / 1e-4, abs=1e-6)
    with pytest.raises(Invalid, match=f"sum to {least:.12g};"):
        within_sum(distribution, over, under, least - 0.1)
