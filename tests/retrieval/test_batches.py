"""Many sets at once are the sets one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.retrieval.dynamic_programming import LANES
from app.retrieval.losses import Terms
from app.retrieval.selection import BATCH_DP_LIMIT, UNPROVEN_WARNING, select_many
from tests.reference import losses
from tests.retrieval.sets import best, sets_of

LOSSES = [
    losses.f_beta(2),
    losses.jaccard(),
    losses.g_mean(),
    losses.auc(),
    losses.fractional_linear([0, -2, 1, 1], [0, 0, 1, 1]),
]


def agree(p, sizes, loss, threads=None, **terms):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    many = sets_of(select_many(p, offsets, Terms(loss, **terms), threads=threads))

    assert len(many) == len(sizes)
    for i in range(len(sizes)):
        one, found = best(p[offsets[i] : offsets[i + 1]], Terms(loss, **terms)), many[i]
        assert found.expected_loss == pytest.approx(one.expected_loss, abs=1e-13)
        if found.k == one.k:  # else two sizes that tie but for rounding
            assert np.array_equal(found.indices, one.indices)
            assert found.expected_recall == pytest.approx(one.expected_recall, abs=1e-13)
            assert found.expected_precision == pytest.approx(one.expected_precision, abs=1e-13)
        assert found.error_bound < 3e-12
        if terms.get("curve"):
            np.testing.assert_allclose(found.curve, one.curve, rtol=0, atol=1e-13)
        else:
            assert found.curve is None


@settings(max_examples=40)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 3, 7, 20]), max_size=12),
    loss=st.sampled_from(LOSSES),
    seed=st.integers(0, 1000),
    curve=st.booleans(),
    empty=st.integers(0, 1),
)
def test_groups_get_the_same_sets_as_alone(sizes, loss, seed, curve, empty):
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(sum(sizes)) < 0.3, rng.integers(0, 3, sum(sizes)) / 2, rng.random(sum(sizes)))
    agree(p, sizes, loss, curve=curve, empty=empty)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_groups_around_the_limits_of_size_and_lanes(threads, loss):
    rng = np.random.default_rng(3)
    sizes = (
        [5] * (LANES + 1)
        + [BATCH_DP_LIMIT, BATCH_DP_LIMIT + 1, 200, 1, BATCH_DP_LIMIT - 1]
        + [6] * (LANES - 1)
        + [8] * LANES
    )
    agree(rng.random(sum(sizes)) ** 2, sizes, loss, threads=threads, curve=True)


def test_an_unproven_search_of_a_large_group_adds_a_warning(monkeypatch):
    """Whichever of several threads searches it."""
    monkeypatch.setattr("app.retrieval.windows.FULL_AT_MOST", 0)
    p, offsets = np.full(2170, 0.05), [0, 2000, 2070, 2170]
    for threads in 1, 2:
        assert select_many(p, offsets, Terms(losses.g_mean()), threads=threads).warnings == (UNPROVEN_WARNING,)
