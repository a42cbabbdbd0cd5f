"""The best set on weighted label vectors, against enumeration of all sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.errors import Invalid
from payoff.retrieval import sampled
from payoff.retrieval.losses import LOSSES, Loss, SetTerms
from payoff.retrieval.sampled import select_sampled
from tests.reference.retrieval import expected_of_all_sets, raked

NAMES = st.sampled_from(sampled.WITH_SAMPLES)


def drawn(seed, L, most, spread=1.0):
    """Distinct label vectors, weights that sum to 1, and other marginals."""
    rng = np.random.default_rng(seed)
    vectors = np.unique(rng.random((most, L)) < rng.random(L), axis=0).astype(np.uint8)
    return vectors, rng.dirichlet(np.full(len(vectors), spread)), rng.random(L)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 9999),
    st.integers(1, 6),
    st.integers(1, 10),
    NAMES,
    st.integers(0, 1),
    st.data(),
)
def test_the_set_is_the_best_of_all_sets(seed, L, most, name, empty, data):
    """Within bounds on its size; its loss, recall and precision are those on the vectors, and the
    gap is 0.
    """
    vectors, weights, p = drawn(seed, L, most)
    low = data.draw(st.integers(0, L))
    high = data.draw(st.integers(low, L))
    loss = Loss(name, 2.0 if name == "f_beta" else None)
    found, marginals = select_sampled(
        [(vectors, weights)], p[None], SetTerms(loss, empty, k_min=low, k_max=high)
    )
    law = raked(vectors, weights, p, sampled.RAKING_PASSES)
    every, losses, recalls, precisions = expected_of_all_sets(
        vectors, law, loss, empty=empty
    )
    sizes = every.sum(axis=1)
    row = np.flatnonzero((every == np.isin(np.arange(L), found.selected)).all(axis=1))[
        0
    ]

    assert found.k[0] == sizes[row]
    assert low <= found.k[0] <= high
    assert losses[row] == pytest.approx(
        losses[(low <= sizes) & (sizes <= high)].min(), abs=1e-12
    )
    expected = [losses[row], precisions[row], recalls[row]]
    assert found.figures[:3, 0] == pytest.approx(
        expected, abs=max(found.figures[3, 0], 1e-13)
    )
    assert found.figures[3:, 0] == pytest.approx([0, 0, 1 / (law**2).sum()], abs=1e-9)
    assert marginals[0] == pytest.approx(law @ vectors, abs=1e-12)
    assert (np.diff(marginals[0, found.selected]) <= 0).all()


@pytest.mark.parametrize("steps", [0, 8, 40])
def test_a_search_that_ends_early_bounds_what_it_missed(steps, monkeypatch):
    """The best set of all is better by at most the gap, which is not 0 for all."""
    monkeypatch.setattr(sampled, "_STEPS", steps)
    gaps = []
    for seed in range(15):
        vectors, weights, p = drawn(seed, 6, 10)
        found, _ = select_sampled(
            [(vectors, weights)], p[None], SetTerms(Loss("jaccard"))
        )
        law = raked(vectors, weights, p, sampled.RAKING_PASSES)
        losses = expected_of_all_sets(vectors, law, Loss("jaccard"))[1]
        gaps.append(found.figures[4, 0])
        assert -1e-12 <= found.figures[0, 0] - losses.min() <= gaps[-1] + 1e-12
    assert max(gaps) > 0.001 or steps > 0


def test_many_rows_are_rows_alone():
    """Each with vectors of its own."""
    rows = [drawn(seed, 4, 6) for seed in range(5)]
    P = np.array([p for _, _, p in rows])
    terms = SetTerms(Loss("jaccard"))
    together, _ = select_sampled([row[:2] for row in rows], P, terms)
    alone = [
        select_sampled([row[:2]], P[i : i + 1], terms)[0] for i, row in enumerate(rows)
    ]

    assert np.array_equal(
        together.selected, np.concatenate([one.selected for one in alone])
    )
    assert np.array_equal(
        together.figures, np.column_stack([one.figures for one in alone])
    )
    assert len(select_sampled([], np.empty((0, 4)), terms)[0].k) == 0


@pytest.mark.parametrize("name", sorted(set(LOSSES) - set(sampled.WITH_SAMPLES)))
def test_losses_that_the_bound_does_not_hold_for_are_refused(name):
    with pytest.raises(Invalid) as error:
        select_sampled([], np.empty((0, 3)), SetTerms(Loss(name)))
    assert error.value.flaws[0].loc == "/loss/name"


@pytest.mark.parametrize("name", sampled.WITH_SAMPLES)
def test_losses_are_concave_in_the_true_positives(name):
    """The bound needs this: half of the sum of two neighbours is not above the loss between."""
    tp, k, positives = np.meshgrid(*[np.arange(9)] * 3, indexing="ij")
    loss = Loss(name, 2.0 if name == "f_beta" else None)
    inner = (tp >= 1) & (tp < np.minimum(k, positives)) & (k + positives - tp < 9)
    below, at, above = (
        loss.of_counts((tp + by)[inner], k[inner], positives[inner], 8)
        for by in (-1, 0, 1)
    )

    assert (below + above <= 2 * at + 1e-12).all()
