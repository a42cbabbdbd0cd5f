"""Sums of exponentials in place of powers, and the error they promise."""

import numpy as np
import pytest

from app.retrieval.quadrature import LANES, exponential_sum

ROUNDING = 2e-15


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2), (2, 2e3), (1, 1e6), (1e-9, 1e9), (1e300, 1e305)])
def test_the_sum_is_within_its_error_in_the_interval(power, low, high):
    rule = exponential_sum(power, low, high)
    a = np.exp(np.linspace(np.log(low), np.log(high), 2001))
    relative = np.exp(-np.outer(a, rule.t)) @ (rule.w / low**-power) * (a / low) ** power - 1

    assert rule.error < 3e-16
    assert np.abs(relative).max() <= rule.error + ROUNDING * np.log(a).max() / 14 + ROUNDING


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_weights_are_positive(power):
    rule = exponential_sum(power, 1, 1e4)
    zero = rule.w == 0

    assert np.all(rule.w >= 0)
    assert zero.sum() < LANES
    assert len(rule.t) % LANES == 0
    assert np.all(np.diff(rule.t[~zero]) > 0)
