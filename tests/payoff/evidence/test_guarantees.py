"""Certified cuts: equal to the slow twin, kept in simulated worlds, and none where none can be."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.evidence import guarantees
from payoff.evidence.guarantees import Limit, certify, is_below, upper_bound
from tests.reference import guarantees as twin

TEN_PERCENT = Limit(0.1, 0.95)
CONFIDENCES = {0.9: Fraction(9, 10), 0.95: Fraction(19, 20)}


def cases(seed: int, n: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, cases that are wrong the rarer the higher the score, and gains."""
    rng = np.random.default_rng(seed)
    score = rng.integers(0, levels, n) / levels
    wrong = (rng.random(n) < 0.4 * (1 - score) ** 2).astype(float)
    return score, wrong, rng.normal(1.0, 2.0, n)


@given(
    st.integers(0, 10_000),
    st.integers(1, 700),
    st.sampled_from((3, 20, 1_000)),
    st.sampled_from((0.05, 0.1, 0.3)),
    st.sampled_from((0.9, 0.95)),
)
def test_the_cut_is_that_of_the_twin_which_earns_most(
    seed, n, levels, at_most, confidence
):
    score, wrong, gain = cases(seed, n, levels)
    limit = Limit(at_most, confidence)
    exact = Fraction(str(at_most))

    def is_shown(cut, error):
        above = score >= cut
        p_value = twin.p_value_of_wrong(
            int(wrong[above].sum()), int(above.sum()), exact
        )
        return p_value <= error

    cuts = twin.certified(score.tolist(), is_shown, limit.min_cases, limit.error)
    earned = {cut: gain[score >= cut].sum() for cut in cuts}
    certificate = certify(score, wrong, gain, limit)
    assert (certificate is None) == (not cuts)
    if certificate is not None:
        assert certificate.cut in cuts
        assert certificate.gain == pytest.approx(max(earned.values()))
        assert certificate.cases == (score >= certificate.cut).sum()
        assert certificate.risk == pytest.approx(wrong[score >= certificate.cut].mean())
        assert certificate.risk <= certificate.bound <= at_most + 1e-12


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.floats(0.01, 0.9),
    st.sampled_from((0.05, 0.2)),
)
def test_bets_are_those_of_the_twin(values, target, error):
    assert is_below(np.array(values), target, error) == twin.shows_by_bets(
        values, target, error
    )


def test_29_flawless_cases_are_the_fewest_for_90_percent_at_95():
    assert TEN_PERCENT.min_cases() == 29
    score, wrong, gain = np.arange(29.0), np.zeros(29), np.ones(29)
    certificate = certify(score, wrong, gain, TEN_PERCENT)
    assert certificate is not None
    assert (certificate.cut, certificate.cases, certificate.risk) == (0.0, 29, 0.0)
    assert certificate.bound == pytest.approx(1 - 0.05 ** (1 / 29))
    assert certify(score[1:], wrong[1:], gain[1:], TEN_PERCENT) is None


def test_money_that_is_never_lost_certifies_from_the_fewest_on():
    limit = Limit(50.0, 0.95, largest=500.0, of_money=True)
    n = limit.min_cases()
    certificate = certify(np.arange(n), np.zeros(n), np.ones(n), limit)
    assert certificate is not None
    assert certificate.cases == n
    assert certificate.bound <= 50.0
    assert certify(np.arange(n - 1), np.zeros(n - 1), np.ones(n - 1), limit) is None


@pytest.mark.parametrize("of_money", [False, True])
@pytest.mark.parametrize("at_most", [1e-20, 1e-300, 5e-324])
def test_limits_that_no_table_can_show_certify_nothing(of_money, at_most):
    limit = Limit(at_most, 0.9999, largest=500.0, of_money=of_money)
    assert certify(np.arange(30.0), np.zeros(30), np.ones(30), limit) is None


@pytest.mark.parametrize("of_money", [False, True])
@pytest.mark.parametrize("digits", [12, 1])
def test_a_guarantee_is_broken_in_at_most_5_percent_of_worlds(of_money, digits):
    """A fifth is wrong at the lowest score, none at the highest; one digit makes ties."""
    limit = Limit(0.1, 0.95, of_money=of_money)
    share_lost = 0.75 if of_money else 1.0
    drawn = np.random.default_rng(999).random(100_000).round(digits)
    worlds = 200
    broken = 0
    certified = 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        score = rng.random(300).round(digits)
        risk = (rng.random(300) < 0.2 / share_lost * (1 - score)).astype(float)
        if of_money:
            risk *= rng.uniform(0.5, 1.0, 300)
        certificate = certify(score, risk, np.ones(300), limit)
        if certificate is not None:
            certified += 1
            broken += 0.2 * (1 - drawn[drawn >= certificate.cut]).mean() > 0.1
    assert certified > worlds / 10
    assert broken <= 0.05 * worlds


def test_a_bound_of_money_is_the_smallest_mean_that_the_bets_reject():
    limit = Limit(0.2, 0.95, of_money=True)
    values = np.random.default_rng(0).beta(1, 9, 400)
    bound = upper_bound(values, limit)
    assert is_below(values, bound + 1e-9, limit.error)
    assert not is_below(values, bound - 1e-6, limit.error)
    assert values.mean() < bound < 0.15


def test_a_cut_at_which_all_are_wrong_at_the_top_does_not_end_every_sequence():
    score = np.linspace(1, 0, 2_000)
    wrong = np.zeros(2_000)
    wrong[:20] = 1
    certificate = certify(score, wrong, np.ones(2_000), TEN_PERCENT)
    assert certificate is not None
    assert certificate.cases == 2_000
    assert guarantees.STEP == 0.05
