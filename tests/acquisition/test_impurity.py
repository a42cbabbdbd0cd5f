"""Threshold-pairs: its definition, and the properties that the cost guarantee needs."""

import itertools

import numpy as np
import pytest

from app.acquisition._growth import threshold_pairs
from tests.reference.acquisition import pairs

ALPHAS = [0.0, 0.5, 1.0, 2.0, 3.0]
COUNTS = list(itertools.product(range(6), repeat=3))


def impurity(counts, alpha):
    return threshold_pairs(np.array(counts), alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_it_is_its_definition(alpha):
    """Equal to the sum over ordered pairs for every small set."""
    assert all(impurity(counts, alpha) == pairs(counts, alpha) for counts in COUNTS)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_it_is_admissible(alpha):
    """Not negative, zero for pure sets, monotone, and supermodular, over all sets of up to five per class."""
    step = np.eye(3, dtype=int)
    for counts in COUNTS:
        whole = np.array(counts)
        assert impurity(whole, alpha) >= 0
        assert np.count_nonzero(whole) > 1 or impurity(whole, alpha) == 0
        for j, k in itertools.product(range(3), repeat=2):
            gain = impurity(whole + step[j], alpha) - impurity(whole, alpha)
            assert gain >= 0
            assert impurity(whole + step[k] + step[j], alpha) - impurity(whole + step[k], alpha) >= gain


def test_it_grows_slowly_enough():
    """Its logarithm stays below twice that of the number of examples."""
    assert all(impurity(counts, 0.0) <= sum(counts) ** 2 for counts in COUNTS)
