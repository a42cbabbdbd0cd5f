"""The law of a sum of independent labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from app.errors import Invalid
from app.retrieval import poisson_binomial, poisson_binomial_pmf
from app.retrieval.poisson_binomial import DP_LIMIT, LEAF
from tests.reference.retrieval import outcomes, pmf

PROBABILITIES = st.lists(st.sampled_from([0.0, 1.0, 0.5, 1e-300]) | st.floats(0, 1), max_size=8)


@given(PROBABILITIES)
def test_each_entry_is_the_probability_of_that_many_ones(p):
    y, probability = outcomes(p)
    expected = np.bincount(y.sum(axis=1), weights=probability, minlength=len(p) + 1)

    np.testing.assert_allclose(poisson_binomial_pmf(p), expected, rtol=1e-13, atol=1e-300)  # below, floats thin out


@pytest.mark.parametrize("n", [1, LEAF - 1, LEAF, LEAF + 1, 2 * LEAF, 2 * LEAF + 1, 1000, 4 * LEAF])
def test_transforms_agree_with_the_recursion_around_the_leaves(n, monkeypatch):
    monkeypatch.setattr(poisson_binomial, "DP_LIMIT", 0)
    p = np.random.default_rng(n).random(n)

    np.testing.assert_allclose(poisson_binomial_pmf(p), pmf(p), rtol=0, atol=2e-15)


@pytest.mark.parametrize("n", [DP_LIMIT, DP_LIMIT + 1])
def test_both_sides_of_the_change_over_give_the_binomial_law(n):
    expected = binom.pmf(np.arange(n + 1), n, 0.5)

    np.testing.assert_allclose(poisson_binomial_pmf(np.full(n, 0.5)), expected, rtol=0, atol=1e-12)


def test_the_recursion_keeps_the_smallest_entries_relatively_right():
    assert poisson_binomial_pmf(np.full(20, 1e-12))[20] == pytest.approx(1e-240, rel=1e-12)


def test_large_laws_have_mass_one_mean_and_no_negative_entry():
    p = np.random.default_rng(0).random(50_001) ** 3
    law = poisson_binomial_pmf(p)

    assert law.shape == (50_002,)
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert law @ np.arange(50_002) == pytest.approx(p.sum(), rel=1e-11)


@pytest.mark.parametrize(
    ("p", "place"),
    [([0.5, np.nan], "/1"), ([0.1, 0.2, 1.5], "/2"), ([-1e-9], "/0"), ([[0.5]], ""), (["a"], ""), (0.5, "")],
)
def test_what_is_not_a_probability_is_refused_with_its_place(p, place):
    with pytest.raises(Invalid) as refused:
        poisson_binomial_pmf(p)

    assert refused.value.flaws[0].loc == place
