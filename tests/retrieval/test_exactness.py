"""Error bounds against exact integers, on probabilities chosen to break them."""

from fractions import Fraction

import numpy as np
import pytest

from app.retrieval import selection
from app.retrieval.selection import MEANS, expected_losses
from app.retrieval.windows import MeanOfRates
from tests.reference import losses
from tests.reference.retrieval_exact import exact_curve

ALMOST = float(np.nextafter(1, 0))
LOSSES = {
    "f1": losses.f_beta(1),
    "f_tiny": losses.f_beta(1e-150),
    "f_huge": losses.f_beta(1e150),
    **{loss.name: loss for loss in losses.PLAIN},
    "precision": losses.fractional_linear([0, -1, 1, 0], [0, 0, 1, 0]),
    "recall": losses.fractional_linear([0, -1, 0, 1], [0, 0, 0, 1]),
    "fall_out": losses.fractional_linear([0, -1, 1, 0], [1, 0, 0, -1]),
    "cancelling": losses.fractional_linear([0.1, -1, 0.2, 1], [1, 0, -0.9999999, 0]),
    "badly_scaled": losses.fractional_linear([0, -1e-8, 1, 1e6], [1e-9, 0, 1, 1e6]),
}
KINDS = {
    "tiny": lambda n: np.full(n, 1e-300),
    "smallest": lambda n: np.full(n, 5e-324),
    "almost 1": lambda n: np.full(n, ALMOST),
    "both ends": lambda n: np.where(np.arange(n) < n / 2, ALMOST, 2.0**-54),
    "one large": lambda n: np.where(np.arange(n) < 1, 0.999999, 1e-12),
    "one small": lambda n: np.where(np.arange(n) < n - 1, ALMOST, 1e-12),
    "all orders": lambda n: np.logspace(0, -20, n),
    "thirds": lambda n: np.sort(np.arange(n) % 4)[::-1] / 3,
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_error_of_every_entry_is_within_its_bound(name, n):
    """By the tables for small sets, and by the methods for large ones."""
    loss = LOSSES[name]
    for kind, make in KINDS.items():
        for empty in (0, 1):
            p = make(n)
            exact = exact_curve(p.tolist(), loss, empty)
            large = (
                MeanOfRates(p, harmonic=MEANS[loss.name]).curve()
                if loss.name in MEANS
                else selection.BY_QUADRATURE[loss.name](p, loss, empty)
            )
            for found in (expected_losses(p, loss, empty), large):
                off = max(abs(Fraction(value) - true) for value, true in zip(found.values.tolist(), exact, strict=True))

                assert off <= found.error, (kind, empty)
