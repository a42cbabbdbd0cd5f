"""The best set: against all 2^n sets and 2^n outcomes, under bounds, and at its edges."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import Invalid
from app.retrieval.losses import AUC_WARNING, Loss, Terms
from app.retrieval.selection import DP_LIMIT, UNPROVEN_WARNING, select_class_set, select_many
from tests.reference import losses
from tests.reference.retrieval import expected_losses_of_all_sets, expected_rates_of_all_sets
from tests.retrieval.sets import best

LOSSES = [
    losses.f_beta(1),
    losses.f_beta(0.37),
    losses.f_beta(20),
    *losses.PLAIN,
    losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1]),
    losses.fractional_linear([0, -1, 0, 1], [0, 0, 0, 1]),
    losses.fractional_linear([0.5, -1, 0.2, 0.1], [1, 0.3, -0.9, -0.2]),
]
ONE = st.sampled_from([0.0, 1.0, 0.25, 0.5, 0.75, 1e-300]) | st.floats(0, 1)
PROBABILITIES = st.lists(ONE, max_size=6)
LOSS = st.sampled_from(LOSSES)
BOTH_WAYS = pytest.mark.parametrize("limit", [DP_LIMIT, 0], ids=["dynamic programming", "large-n methods"])


def allowed_sizes(loss, n):
    return (min(1, n), max(min(1, n), n - 1)) if loss.name == "auc" else (0, n)


def agrees_with_enumeration(p, loss, empty):
    sets, values = expected_losses_of_all_sets(p, loss, empty=empty)
    low, high = allowed_sizes(loss, len(p))
    sizes = sets.sum(axis=1)
    least = values[(sizes >= low) & (sizes <= high)].min()
    found = best(p, Terms(loss, empty=empty, curve=True))
    chosen = np.zeros(len(p), dtype=int)
    chosen[found.indices] = 1
    at = np.flatnonzero((sets == chosen).all(axis=1))[0]
    own = values[at]
    largest = max(1.0, np.abs(values).max())

    assert found.expected_loss == pytest.approx(least, abs=1e-13 * largest)
    assert found.expected_loss == pytest.approx(own, abs=1e-13 * largest)
    assert found.error_bound < 1e-12 * largest * 1e3
    _, recalls, precisions = expected_rates_of_all_sets(p)
    assert found.expected_recall == pytest.approx(recalls[at], abs=1e-13)
    assert found.expected_precision == pytest.approx(precisions[at], abs=1e-13)
    for k in range(len(p) + 1):
        assert found.curve[k] == pytest.approx(values[sizes == k].min(), abs=1e-13 * largest)


@BOTH_WAYS
@given(p=PROBABILITIES, loss=LOSS, empty=st.sampled_from([0, 1]))
def test_no_set_is_better_than_the_one_selected(limit, p, loss, empty):
    """And no set of k items is better than the first k, which is what the whole curve says."""
    with pytest.MonkeyPatch.context() as patch:
        if p:
            patch.setattr("app.retrieval.selection.DP_LIMIT", limit)
        agrees_with_enumeration(p, loss, empty)


@given(p=st.lists(ONE, min_size=1, max_size=80), loss=LOSS, data=st.data())
def test_reordering_the_items_reorders_the_selection(p, loss, data):
    order = data.draw(st.permutations(range(len(p))))
    one, other = best(p, Terms(loss)), best([p[i] for i in order], Terms(loss))

    assert one.expected_loss == pytest.approx(other.expected_loss, abs=1e-14 + one.error_bound)
    assert [p[i] for i in one.indices] == [p[order[i]] for i in other.indices]


@example(p=[0.0], loss=losses.auc(), bounds=(1, 2))
@given(p=st.lists(ONE, min_size=1, max_size=60), loss=LOSS, bounds=st.tuples(st.integers(0, 60), st.integers(0, 70)))
def test_the_best_size_within_the_bounds_is_selected(p, loss, bounds):
    low, high = min(*bounds, len(p)), max(*bounds, 1)
    low = max(low, 1)
    unbounded = loss.name == "auc" and high > len(p)  # for the AUC a k_max beyond the items is no bound
    found = best(p, Terms(loss, k_min=low, k_max=high, curve=True))
    inside = found.curve[low : (max(low, len(p) - 1) if unbounded else high) + 1]

    assert found.k == low + int(np.argmin(inside))
    assert found.expected_loss == inside.min()
    assert found.warnings == ((AUC_WARNING,) if unbounded else ())


@pytest.mark.parametrize("n", [5, DP_LIMIT, 5000])
def test_ties_keep_the_callers_order(n):
    found = best(np.full(n, 0.5), Terms(losses.f_beta(), k_min=3))

    assert np.array_equal(found.indices, np.arange(found.k))


@pytest.mark.parametrize("curve", [False, True])
@pytest.mark.parametrize("loss", [losses.g_mean(), losses.h_mean()], ids=lambda loss: loss.name)
def test_an_unproven_search_gives_the_same_result_with_a_warning(loss, curve, monkeypatch):
    p = np.full(4000, 0.03)
    proven = best(p, Terms(loss, curve=curve))
    monkeypatch.setattr("app.retrieval.windows.FULL_AT_MOST", 0)
    found = best(p, Terms(loss, curve=curve))

    assert proven.warnings == ()
    assert found.warnings == (UNPROVEN_WARNING,)
    assert found.k == proven.k
    assert found.expected_loss == pytest.approx(proven.expected_loss, abs=1e-14)
    if curve:
        np.testing.assert_allclose(found.curve, proven.curve, rtol=0, atol=2e-14)


def test_auc_excludes_empty_and_whole_sets_with_a_warning():
    found = best([0.9, 0.8, 0.1], Terms(losses.auc()))

    assert 1 <= found.k <= 2
    assert len(found.warnings) == 1
    assert best([0.9, 0.8, 0.1], Terms(losses.auc(), k_max=3)).k == 3
    assert best([0.9, 0.8, 0.1], Terms(losses.auc(), k_max=0)).k == 0
    assert best([0.9, 0.8, 0.1], Terms(losses.auc(), k_min=3)).k == 3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.beta}-{loss.d}")
def test_no_items_and_one_item_have_a_selection(loss):
    nothing = best([], Terms(loss, curve=True))

    assert (nothing.k, len(nothing.indices), len(nothing.curve)) == (0, 0, 1)
    assert (nothing.expected_recall, nothing.expected_precision) == (1.0, 1.0)
    assert best([1.0], Terms(loss)).k in (0, 1)


@pytest.mark.parametrize(("bounds", "place"), [({"k_min": 3}, "/k_min"), ({"k_min": 2, "k_max": 1}, "/k_min")])
def test_bounds_that_exclude_every_size_are_refused_by_place(bounds, place):
    with pytest.raises(Invalid) as refused:
        best([0.5, 0.5], Terms(losses.f_beta(), **bounds))

    assert [flaw.loc for flaw in refused.value.flaws] == [place]


@pytest.mark.parametrize("name", ["auc", "f_beta", "am"])
def test_a_k_max_above_the_number_of_items_is_no_bound(name):
    """For one set, for many of different sizes, and for rows of classes."""
    loss = Loss(name)
    p = np.array([0.5, 0.3, 0.2])
    offsets = np.array([0, 1, 3])

    assert best(p, Terms(loss, k_max=99)).k == best(p, Terms(loss)).k
    assert best(p, Terms(loss, k_max=99, k_min=1)).warnings == best(p, Terms(loss, k_min=1)).warnings
    assert select_many(p, offsets, Terms(loss, k_max=99)).k.tolist() == select_many(p, offsets, Terms(loss)).k.tolist()
    rows = select_class_set(p[None, :], Terms(loss, k_max=99))
    assert rows.k.tolist() == select_class_set(p[None, :], Terms(loss)).k.tolist()
