"""Tests of known shares, worst-case payoffs, changes of distributions, and means of skewed
money.
"""

import numpy as np
import pytest
from scipy.stats import binom, chi2, chi2_contingency, false_discovery_control, ks_2samp

from payoff.evidence.drift import (
    category_change,
    drifted,
    histogram_change,
    holm,
    odds_change,
)
from payoff.evidence.intervals import Mean, MeanSums, wilson
from payoff.evidence.truths import AlikeDecisions, Selection, known_shares, payoff_range
from tests.reference.evidence import known_moments


def group(known, cases):
    return AlikeDecisions(range(len(cases)), np.array(known), np.array(cases))


def test_known_shares_are_compared_by_chi_squared_without_replacement():
    table = np.array([[70, 150], [30, 50]])
    closer = table + np.array([[1, -1], [-1, 1]])  # by one case
    selection = known_shares([group(table[0], table.sum(axis=0))])

    statistic = chi2_contingency(closer, correction=False).statistic * 299 / 300
    assert selection.p_value == pytest.approx(chi2.sf(statistic, 1), rel=1e-6)
    assert known_shares([group([70, 150, 30], [100, 200, 100])]).selective
    # The difference is significant, and harmless.
    assert not known_shares([group([95_000, 90_000], [100_000, 100_000])]).selective
    assert not known_shares([group([3, 5], [5, 5])]).selective
    assert known_shares([group([0, 50], [40, 50])]).selective
    assert known_shares([group([0, 10], [10, 10])]).selective
    # Few loans are refused, and those are never repaid.
    assert known_shares([group([2_377, 0], [2_377, 23])]).selective
    assert known_shares([group([59, 0], [59, 1])] * 20).selective
    for nothing in (
        [],
        [group([5], [5])],
        [group([5, 5], [5, 5]), group([0, 0], [9, 9]), group([1, 0], [1, 0])],
    ):
        assert known_shares(nothing) == Selection(None, selective=False)


def test_small_groups_have_the_moments_of_all_ways_to_know_so_many():
    """Of actions that are not offered in all groups."""
    tables = [
        ((0, 1, 2), (3, 0, 1), (4, 2, 3)),
        ((2, 1), (1, 3), (2, 5)),
        ((0, 2), (0, 3), (4, 3)),
        ((1,), (2,), (3,)),
    ]
    excess, total = np.zeros(3), np.zeros((3, 3))
    tables *= 4
    groups = []
    for actions, known, cases in tables:
        mean, covariance = known_moments(cases, sum(known))
        excess[list(actions)] += known - mean
        total[np.ix_(actions, actions)] += covariance
        groups.append(AlikeDecisions(actions, np.array(known), np.array(cases)))
    excess = np.sign(excess) * np.maximum(np.abs(excess) - 1, 0)
    expected = chi2.sf(excess @ np.linalg.pinv(total, rcond=1e-9) @ excess, 2)

    selection = known_shares(groups)
    assert selection.p_value == pytest.approx(expected)


def drawn_groups(rng, groups, size, actions, share):
    """Groups in which the truth is known with the probabilities `share`, a function of group and
    action.
    """
    cases = rng.multinomial(size, np.full(actions, 1 / actions), size=groups)
    g, a = np.indices(cases.shape)
    return [
        group(*of_group)
        for of_group in zip(rng.binomial(cases, share(g, a)), cases, strict=True)
    ]


@pytest.mark.parametrize(
    ("groups", "size", "actions", "known", "streams"),
    [
        (300, 6, 2, 0.5, 60),
        (300, 6, 3, 0.5, 60),
        (100, 20, 2, 0.1, 100),
        (10, 200, 4, 0.05, 300),
        (1, 300, 10, 0.1, 500),
        (1, 300, 3, 0.99, 500),
        (40, 30, 2, 0.01, 200),
    ],
)
def test_no_selection_is_found_in_one_of_a_hundred_even_worlds(
    groups, size, actions, known, streams
):
    rng = np.random.default_rng(1)
    worlds = (
        drawn_groups(rng, groups, size, actions, lambda g, _a: np.full(g.shape, known))
        for _ in range(streams)
    )

    selective = np.mean([known_shares(world).selective for world in worlds])
    assert selective <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / streams)


@pytest.mark.parametrize("groups", [1, 10, 300])
def test_selection_is_detected_in_groups_of_any_size_and_what_cancels_out_in_large_ones(
    groups,
):
    rng = np.random.default_rng(2)
    for size, share in (
        (groups, lambda _g, a: 0.4 + 0.2 * a),
        (groups // 10 + 2, lambda g, a: 0.3 + 0.4 * ((a + g) % 2)),
    ):
        worlds = [drawn_groups(rng, size, 1_800 // size, 2, share) for _ in range(20)]
        assert all(known_shares(world).selective for world in worlds)


def test_bounds_are_of_all_classes_also_of_those_the_model_excludes():
    low, high = payoff_range(np.array([[1.0, -2.0, -99.0], [3.0, 4.0, 3.5]]))

    assert low.tolist() == [-99, 3]
    assert high.tolist() == [1, 4]


def test_the_distance_of_distributions_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(2)
    before, after = rng.normal(size=3000), rng.normal(0.1, size=2000)
    numbers = np.unique(np.concatenate((before, after)))
    change = histogram_change(
        *(np.isin(numbers, side).astype(int) for side in (before, after))
    )
    twin = ks_2samp(before, after, method="asymp")

    assert change.ks == pytest.approx(twin.statistic)
    assert change.p_value == pytest.approx(twin.pvalue, rel=0.1)


def test_psi_by_deciles_and_by_categories():
    even = np.full(100, 50)
    assert histogram_change(even, even).psi == pytest.approx(0, abs=1e-12)
    moved = histogram_change(even, np.repeat([90, 10], 50))
    p, q = (np.repeat([0.1], 10), np.repeat([0.18, 0.02], 5))
    assert moved.psi == pytest.approx(((q - p) * np.log(q / p)).sum(), rel=0.02)
    words = category_change(np.array([500, 500]), np.array([800, 200]))
    assert words.psi == pytest.approx(
        0.3 * np.log(0.8 / 0.5) - 0.3 * np.log(0.2 / 0.5), rel=0.02
    )
    assert words.ks is None
    assert drifted(words, words.p_value)
    assert not drifted(words, 0.06)


def test_holm_adjusts_in_order():
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx(
        [0.03, 0.06, 0.06]
    )
    assert holm(np.array([])).tolist() == []
    p = np.random.default_rng(3).random(20)
    assert (holm(p) >= false_discovery_control(p) - 1e-12).all()


def test_means_of_skewed_differences_hold():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(600):
        sums = MeanSums()
        sums.add(rng.exponential(size=80))
        mean = sums.mean()
        held += mean.low <= 1 <= mean.high

    assert 0.93 - 0.03 <= held / 600 <= 0.975
    few = MeanSums()
    few.add(np.array([0.0] * 100 + [5.0] * 29))
    assert few.mean().low is None
    assert MeanSums().mean().mean is None


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e100])
def test_equal_differences_have_no_skewness_of_rounding(value):
    sums = MeanSums()
    sums.add(np.full(31, value))
    assert (
        sums.mean().low == sums.mean().high == sums.mean().mean == pytest.approx(value)
    )


@pytest.mark.parametrize("sizes", [(100, 5_000), (2_000, 2_000)])
def test_many_rare_categories_are_no_change(sizes):
    rng = np.random.default_rng(2)
    shares = 1 / np.arange(1, 2_001)
    shares /= shares.sum()
    p_values = [
        category_change(*(rng.multinomial(n, shares) for n in sizes)).p_value
        for _ in range(200)
    ]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.07


def test_new_categories_are_a_change_even_if_each_is_rare():
    before, after = np.zeros((2, 1_002), dtype=int)
    before[:2], after[0], after[2:] = 500, 500, 1
    change = category_change(before, after)
    assert change.p_value < 1e-9
    assert drifted(change, change.p_value)


def test_two_categories_are_compared_exactly_however_rare():
    assert category_change(np.array([5_000, 0]), np.array([96, 4])).p_value < 1e-5
    assert category_change(np.array([100, 0]), np.array([4_990, 10])).p_value == 1


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.0, 0.0, 9.0, np.inf), 0.05),
        ((-1.0, -9.0, 0.0, 3), 0.05),
        ((2.0, 1.0, 3.0, np.inf), 8.857e-5),
        ((2.0, 1.0, 3.0, 1), 0.02502),
        ((0.0, -1.0, 1.0, 4), 1.0),
        ((1.0, 1.0, 1.0, 2), 0.0),
        ((0.0, 0.0, 0.0, 2), 1.0),
    ],
)
def test_the_p_value_of_an_interval(interval, expected):
    assert Mean(*interval).p_value == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("shares", "rows", "n"),
    [
        ([0.9, 0.1], 150, 2_000),
        ([0.5, 0.5], 300, 300),
        ([0.02, 0.98], 1_000, 10_000),
        ([0.7, 0.2, 0.1], 60, 40),
        ([0.9, 0.07, 0.02, 0.01], 150, 2_000),
    ],
)
def test_a_small_sample_to_train_on_is_no_change(shares, rows, n):
    rng = np.random.default_rng(1)
    p_values = [
        category_change(
            rng.multinomial(n, shares), rng.multinomial(rows, shares)
        ).p_value
        for _ in range(400)
    ]
    assert np.mean(np.array(p_values) < 0.05) < 0.065


def test_a_change_of_shares_is_found_and_measured():
    counts, trained = np.array([180, 1_820]), np.array([400, 1_600])
    assert category_change(counts, trained).p_value < 1e-6
    assert odds_change(counts, trained) == pytest.approx(
        400 / 1_600 * 1_820 / 180, rel=0.01
    )
    assert odds_change(np.array([500, 500]), np.array([50, 50])) == 1


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
def test_the_interval_of_a_share_holds_where_all_cases_are_equal_too(share):
    for n in (30, 100, 1000):
        counts = np.arange(n + 1)
        low, high = wilson(counts / n, n)
        assert (
            binom.pmf(counts, n, share)[(low <= share) & (share <= high)].sum() > 0.92
        )
