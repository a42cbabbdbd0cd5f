"""Error bounds and constraints against exact integers, on probabilities chosen to break them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Invalid
from app.retrieval import selection
from app.retrieval.losses import Terms
from app.retrieval.quadrature import rate_error
from app.retrieval.selection import BATCH_DP_LIMIT, MEANS, expected_losses, select, select_many
from app.retrieval.windows import MeanOfRates
from tests.reference import losses
from tests.reference.retrieval_exact import exact_curve, exact_recalls
from tests.retrieval.sets import sets_of

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


ONE = st.sampled_from([0.0, 1.0, 0.25, 0.5, 1e-300, ALMOST]) | st.floats(0, 1)


@settings(max_examples=60)
@given(
    p=st.lists(ONE, min_size=1, max_size=7),
    loss=st.sampled_from(["f1", "jaccard", "am", "g_tp_pr", "g_mean", "precision"]),
    recall_at=st.none() | st.integers(0, 7),
    precision_at=st.none() | st.integers(0, 7),
)
def test_constraints_at_the_limit_are_met_at_the_smallest_loss(p, loss, recall_at, precision_at):
    """The bounds are the very rates of some size, so rounding would decide if it were not allowed for."""
    n, ranked = len(p), sorted(p, reverse=True)
    recalls = exact_recalls(ranked)
    precisions = [Fraction(1)] + [sum(map(Fraction, ranked[:k]), Fraction(0)) / k for k in range(1, n + 1)]
    terms = {
        "min_recall": None if recall_at is None else float(min(recalls[min(recall_at, n)], 1)),
        "min_precision": None if precision_at is None else float(precisions[min(precision_at, n)]),
    }
    slack = Fraction(3 * rate_error(BATCH_DP_LIMIT))
    exact = exact_curve(ranked, LOSSES[loss], 0)

    def meeting(slack):
        return [
            k
            for k in range(n + 1)
            if recalls[k] >= (terms["min_recall"] or 0) + slack
            and precisions[k] >= (terms["min_precision"] or 0) + slack
        ]

    for way in (select, lambda p, terms: sets_of(select_many(p, [0, n], terms))[0]):
        try:
            found = way(p, Terms(LOSSES[loss], **terms))
        except Invalid:
            assert not meeting(Fraction(0))
            continue

        assert found.k in meeting(-slack)
        assert abs(Fraction(found.expected_loss) - exact[found.k]) <= found.error_bound
        for k in meeting(Fraction(0)):
            assert exact[found.k] <= exact[k] + 2 * Fraction(found.error_bound)
