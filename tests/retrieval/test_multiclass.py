"""Sets of classes when one class is true, against all sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.retrieval.losses import Terms
from app.retrieval.selection import select_class_set
from tests.reference import losses
from tests.reference.retrieval import multinomial_losses_of_all_sets
from tests.retrieval.sets import sets_of

LOSSES = [
    losses.f_beta(1),
    losses.f_beta(3),
    *losses.PLAIN,
    losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1]),
]
WEIGHTS = st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any)


@given(WEIGHTS, st.sampled_from(LOSSES), st.integers(0, 1))
def test_no_set_of_classes_is_better(weights, loss, empty):
    p = np.array(weights) / sum(weights)
    n = len(p)
    sets, values = multinomial_losses_of_all_sets(p, loss, empty=empty)
    sizes = sets.sum(axis=1)
    low, high = (min(1, n), max(1, n - 1)) if loss.name == "auc" else (0, n)
    (found,) = sets_of(select_class_set(p[None], Terms(loss, empty=empty, curve=True)))
    chosen = np.isin(np.arange(n), found.indices)

    assert found.expected_loss == pytest.approx(values[(sizes >= low) & (sizes <= high)].min(), abs=1e-14)
    assert found.expected_loss == pytest.approx(values[(sets == chosen).all(axis=1)][0], abs=1e-14)
    for k in range(n + 1):
        assert found.curve[k] == pytest.approx(values[sizes == k].min(), abs=1e-14)
    assert found.expected_recall == pytest.approx(p[chosen].sum(), abs=1e-14)
    assert found.expected_precision == pytest.approx(p[chosen].sum() / found.k if found.k else 1.0, abs=1e-14)


def test_rows_are_independent_and_ties_keep_the_order_of_the_classes():
    rows = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    many = sets_of(select_class_set(rows, Terms(losses.f_beta(), k_min=1)))

    for i, row in enumerate(rows):
        assert many[i].expected_loss == select_class_set(row[None], Terms(losses.f_beta(), k_min=1)).figures[0, 0]
    assert many[1].indices.tolist() == [0]
    assert many[2].indices.tolist() == list(range(many[2].k))
