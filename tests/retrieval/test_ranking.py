"""The order of many probabilities, against numpy's stable sort."""

import numpy as np
import pytest

from app.retrieval.selection import descending

N = 20_000
RANDOM = np.random.default_rng(0)
CASES = {
    "uniform": RANDOM.random(N),
    "of all sizes": 10.0 ** RANDOM.uniform(-320, 0, N),
    "ties": RANDOM.integers(0, 50, N) / 49,
    "zeros and ones": RANDOM.integers(0, 2, N).astype(float),
    "both zeros": np.where(RANDOM.random(N) < 0.5, RANDOM.choice([0.0, -0.0], N), RANDOM.random(N)),
    "all equal": np.full(N, 0.3),
    "falling": np.sort(RANDOM.random(N))[::-1].copy(),
    "rising": np.sort(RANDOM.random(N)),
    "neighbouring numbers": 0.5 + RANDOM.integers(0, 2**20, N) * 2.0**-53,
    "few": RANDOM.random(30),
    "one": np.array([0.4]),
    "none": np.array([]),
}


@pytest.mark.parametrize("p", CASES.values(), ids=CASES)
def test_the_order_is_that_of_a_stable_sort(p):
    order, ranked = descending(p)
    expected = np.argsort(-p, kind="stable")

    assert (order == expected).all()
    assert (ranked == p[expected]).all()
