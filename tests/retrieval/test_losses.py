"""The losses, and their conventions for 0/0."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Invalid, TooLarge
from app.retrieval.selection import check_usable, expected_losses
from tests.reference import losses
from tests.reference.retrieval import loss_of

EVERY = [
    losses.f_beta(1),
    losses.f_beta(0.3),
    *losses.PLAIN,
    losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1]),
    losses.fractional_linear([0.5, -1, 0.2, 0.1], [1, 0.3, -0.9, -0.2]),
]


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: f"{loss.name}-{loss.beta}-{loss.d}")
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("empty", [0, 1])
def test_losses_in_counts_agree_with_the_definitions(loss, n, empty):
    for k, positives in product(range(n + 1), repeat=2):
        for tp in range(max(0, k + positives - n), min(k, positives) + 1):
            s = [1] * k + [0] * (n - k)
            y = [1] * tp + [0] * (k - tp) + [1] * (positives - tp) + [0] * (n - k - positives + tp)
            expected = loss_of(loss, y, s, empty=empty)

            assert loss.of_counts(tp, k, positives, n, empty=empty) == pytest.approx(expected, abs=1e-15, rel=4e-16)


EXTREMES = st.sampled_from([0.0, -0.0, 1e100, -1e100, 1e-100, -1e-100, 1.0, -1.0])


@settings(max_examples=300)
@given(
    st.lists(EXTREMES, min_size=4, max_size=4), st.lists(EXTREMES, min_size=4, max_size=4), st.sampled_from([1, 3, 40])
)
def test_the_largest_coefficients_stay_within_the_floats(c, d, n):
    """A loss is refused, or its curve is finite, with a finite bound; no arithmetic warns or breaks down."""
    p = np.linspace(0, 1, n)
    try:
        loss = losses.fractional_linear(c, d)
        check_usable(loss, n)
        curve = expected_losses(p, loss)
    except (Invalid, TooLarge):
        return
    assert np.isfinite(curve.values).all()
    assert np.isfinite(curve.error)
