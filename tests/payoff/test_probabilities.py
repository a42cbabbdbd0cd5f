"""Rounding of probabilities is no error; what is further outside of [0, 1] stays for the caller to refuse."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from payoff.probabilities import TOLERANCE, are_shares, clipped

NUMBERS = st.floats(-2, 2) | st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(NUMBERS, max_size=8))
def test_numbers_are_moved_by_the_tolerance_at_most_and_into_the_range(values):
    p = np.array(values)
    found = clipped(p)
    for before, after in zip(values, found.tolist(), strict=True):
        if -TOLERANCE <= before <= 1 + TOLERANCE:
            assert after == min(max(before, 0.0), 1.0)
        else:
            assert after == before or (np.isnan(before) and np.isnan(after))


def test_sums_of_single_precision_with_many_classes_are_1():
    z = np.random.default_rng(13).normal(0, 4, (200, 1000)).astype(np.float32)
    e = np.exp(z)
    P = (e / e.sum(axis=1, keepdims=True, dtype=np.float32)).astype(np.float64)
    assert are_shares(P).all()
    wrong = np.array(
        [[0.5, 0.49], [np.nan, 1.0], [1e308, 1e308], [0.5, 0.5 + 2 * TOLERANCE]]
    )
    assert not are_shares(wrong).any()
