"""The paired Bayesian bootstrap against loops and theory, and when a lead may be called more than
noise.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from payoff.decisions.ranking import Possible, bootstrap_means, rank
from payoff.decisions.rule_ranking import LabelledRows, contest, doubts
from payoff.errors import Invalid
from tests.reference import decisions as slow

B = np.array([[0.0, -1.0], [-10.0, 5.0]])
CLASSES = ["healthy", "ill"]


def filled(values, weights=None, strata=None):
    """Values, weights and strata; by default all rows have one weight and one stratum."""
    ones = np.ones(len(values))
    return (
        values,
        ones if weights is None else weights,
        np.zeros_like(ones, dtype=int) if strata is None else strata,
    )


def means(*rows, counts=None, **options):
    values, weights, strata = filled(*rows)
    return bootstrap_means(
        values,
        weights,
        strata,
        np.ones(len(values)) if counts is None else counts,
        **options,
    )


def ranked(*rows, **options):
    return rank(*filled(*rows), **options)


def few_outcomes(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    values = np.array([[2.0, 1.0], [-1.0, 0.0], [5.0, -4.0]])[y] * rng.integers(
        0, 2, (n, 2)
    )
    return values, y


def moments(rows, weights, more):
    """Mean and covariance of weighted means, each weight times a gamma variable of 1, or 1/2 for
    each of `more`.

    By the delta method; the rows of `more` have the largest weight.
    """
    shape = np.append(np.ones(len(rows)), np.full(len(more), 0.5))
    w, points = (
        np.append(weights, np.full(len(more), weights.max())),
        np.vstack((rows, *more)),
    )
    mean = np.average(points, axis=0, weights=shape * w)
    pulls = (np.sqrt(shape) * w)[:, None] * (points - mean) / (shape @ w)
    return mean, pulls.T @ pulls


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_means_have_the_moments_of_gamma_weights(weighted, stratified, counted):
    """In each stratum; for the limits with half a row at the possible extreme and at the other end.
    Equal rows may be counted.
    """
    values, y = few_outcomes()
    kinds = np.unique(
        np.column_stack((y, values)), axis=0, return_index=True, return_counts=True
    )
    rows, counts = (
        kinds[1:] if counted else (np.arange(len(y)), np.ones(len(y), dtype=int))
    )
    weights = np.array([1.0, 0.5, 3.0])[y] if weighted else np.ones(len(y))
    strata = y if stratified else 0 * y
    low = np.array([[-300.0, -40.0]]).repeat(3, axis=0)
    high = np.array([[5.0, 200.0]]).repeat(3, axis=0)
    sums = np.bincount(strata, weights)
    kind = values[rows], weights[rows], strata[rows]
    possible = Possible(low, high, sums if stratified else None)
    resampled = means(*kind, counts=counts, possible=possible, resamples=6000)

    extremes = (
        lambda _: [],
        lambda v: [low[0], v.max(axis=0)],
        lambda v: [high[0], v.min(axis=0)],
    )
    for drawn, more in zip(resampled, extremes, strict=True):
        mean, cover = np.zeros(2), np.zeros((2, 2))
        for code, share in enumerate(sums / sums.sum()):
            part = values[strata == code]
            of_stratum, covers = moments(part, weights[strata == code], more(part))
            mean, cover = mean + share * of_stratum, cover + share**2 * covers
        sd = np.sqrt(np.diag(cover)).max()
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=8 * sd / 6000**0.5)
        np.testing.assert_allclose(np.cov(drawn.T), cover, atol=0.1 * sd**2)


@pytest.mark.parametrize("lost", [0, 1, 3, 20, 40])
def test_the_interval_of_a_proportion_is_that_of_jeffreys(lost):
    """Also where no row or every row is a loss, where resamples of the rows have no variation."""
    values = -(np.arange(40) < lost).astype(float)[:, None]
    possible = Possible(np.array([[-1.0]]), np.array([[0.0]]))
    low, high = (
        ranked(values, possible=possible, resamples=20_000).standings[0].interval
    )

    want = -beta.ppf([0.975, 0.025], lost + 0.5, 40 - lost + 0.5)
    assert low == pytest.approx(-1 if lost == 40 else want[0], abs=0.01)
    assert high == pytest.approx(0 if lost == 0 else want[1], abs=0.01)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_intervals_contain_the_observed_mean_and_lie_in_the_possible_range(known, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2], [40, 8, 1]))
    values = rng.integers(-3, 4, (49, 3)).astype(float)
    shares = np.array([0.5, 0.3, 0.2])
    possible = Possible(
        np.full((3, 3), -3.0), np.full((3, 3), 3.0), shares if known else None
    )
    rows = (values, shares[y] / np.bincount(y)[y], y) if known else (values,)

    for standing in ranked(*rows, possible=possible).standings:
        assert -3 <= standing.interval[0] <= standing.mean <= standing.interval[1] <= 3
        assert (
            standing.behind_interval[0]
            <= standing.behind
            <= standing.behind_interval[1]
        )


def test_a_class_without_rows_varies_over_all_its_possible_values():
    possible = Possible(
        np.array([[0.0], [-10.0]]), np.array([[1.0], [5.0]]), np.array([0.9, 0.1])
    )
    low, high = (
        ranked(np.ones((50, 1)), None, np.zeros(50, dtype=int), possible=possible)
        .standings[0]
        .interval
    )

    assert 0.8 - 1 < low < 0.9 - 1
    assert high == pytest.approx(0.9 + 0.5)


def test_the_lead_of_a_contender_that_was_chosen_among_equals_is_corrected():
    """With 8 equal contenders the lower limit of the lead of the best over the first is at most 0
    in 95 % of draws; plain percentiles fail several times as often.
    """
    failed = plain = 0
    for seed in range(200):
        values = np.random.default_rng(seed).integers(0, 2, (300, 8)).astype(float)
        ranking = ranked(values, resamples=400)
        behind = [standing.behind_interval[0] for standing in ranking.standings]
        lead = means(values, resamples=400).means
        plain += np.quantile(lead[:, ranking.best] - lead[:, 0], 0.025) > 0
        failed += behind[0] > 0

    assert failed <= 10
    assert plain >= 2 * failed
    assert plain > 10


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[1, 1, 0], [2, 2, 2], [0, 0, 1], [3, 3, 0]], (0, [1], 2, 3)),
        (np.ones((5, 3)), (0, [1, 2], None, 0)),
        ([[0, 1], [1, 0]], (0, [], 1, 2)),
    ],
)
def test_who_leads_who_earns_the_same_and_who_is_next(values, expected):
    """Who earned the same on every row is no runner-up; of equal means the first leads."""
    ranking = ranked(np.array(values, dtype=float))

    assert (
        ranking.best,
        ranking.same,
        ranking.runner_up,
        ranking.differing,
    ) == expected
    assert not ranking.significant
    assert all(ranking.standings[j].behind_interval == (0, 0) for j in ranking.same)


def test_a_lead_on_few_rows_is_not_called_more_than_noise():
    """Saving a little on 29 rows says nothing about the large loss that one row in twenty may hide;
    30 are enough.
    """
    values = np.zeros((1000, 2))
    values[:29, 1] = 1.0
    few = ranked(values)
    values[29, 1] = 1.0
    enough = ranked(values)

    assert few.standings[0].behind_interval[0] > 0
    assert (few.differing, few.significant) == (29, False)
    assert (enough.differing, enough.significant) == (30, True)


def test_resamples_in_several_goes_are_as_many_and_as_varied():
    """Where every row is of its own kind, not all counts fit in one go."""
    values = np.random.default_rng(0).normal(size=(3000, 1))
    drawn = means(values, resamples=1500).means

    assert drawn.shape == (1500, 1)
    assert len(np.unique(drawn)) == 1500
    assert drawn.std() == pytest.approx(values.std() / 3000**0.5, rel=0.1)


def test_rows_without_weight_are_none():
    """They make no contenders different, and have no part in resamples."""
    values = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0], [5.0, 9.0, 7.0]])
    y = np.array([0, 0, 1])
    without = ranked(values[:2], np.ones(2), y[:2])

    assert ranked(values, np.array([1.0, 1.0, 0.0]), y) == without
    assert ranked(np.array([[2.0, 1.0]])).standings[0].interval == (2, 2)
    with pytest.raises(Invalid):
        ranked(values, np.zeros(3), y)


def labelled(healthy, ill, **changes):
    y = np.repeat([0, 1], [healthy, ill])
    return LabelledRows(
        y, changes.pop("B", B), **({"shares": np.array([0.9, 0.1])} | changes)
    )


def two_ways(rows):
    """One calls all healthy; the other also calls every second healthy row ill, and so loses
    there.
    """
    never = np.zeros(len(rows.y), dtype=int)
    often = (np.arange(len(rows.y)) % 2) * (rows.y == 0)
    return np.column_stack((never, often))


@pytest.mark.parametrize(
    ("ill", "known", "significant"),
    [
        (0, False, False),
        *((ill, known, ill == 30) for ill in (1, 2, 29, 30) for known in (False, True)),
    ],
)
def test_every_class_where_they_can_differ_needs_rows(ill, known, significant):
    """No ill row shows what the two cost each other there; 30 of them are enough, as everywhere."""
    rows = labelled(200, ill, known=known)
    ranking = contest(two_ways(rows), rows)

    assert ranking.standings[1].behind > 0
    assert ranking.differing == 100
    assert ranking.significant is significant


def test_a_class_where_they_cannot_differ_needs_none():
    """What both actions earn in it is the same, its share is 0, or both take the same third action
    on its rows.
    """
    alike = labelled(200, 1, B=np.array([[0.0, -1.0], [5.0, 5.0]]))
    never = labelled(200, 1, shares=np.array([1.0, 0.0]), known=True)
    third = labelled(200, 3, B=np.array([[0.0, -1.0, 3.0], [5.0, 5.0, -20.0]]))
    choices = two_ways(third)
    choices[third.y == 1] = 2

    assert contest(two_ways(alike), alike).significant
    assert contest(two_ways(never), never).significant
    assert contest(choices, third).significant


@pytest.mark.parametrize("known", [False, True])
def test_a_loss_that_did_not_occur_is_in_the_interval(known):
    """No ill row among 60 was missed; if one in 60 is, that costs 15 each."""
    rows = labelled(540, 60, known=known)
    choices = np.column_stack((rows.y, rows.y, np.ones(600, dtype=int)))
    perfect, twin, always = contest(choices, rows, fixed=[2]).standings

    assert perfect.mean == pytest.approx(0.5)
    assert perfect.interval[0] < 0.5 - 0.1 * 15 / 60
    assert twin.behind == 0
    assert twin.behind_interval[0] < -0.1 * 15 / 60
    assert twin.behind_interval[1] > 0.1 * 15 / 60
    assert perfect.behind_interval == (0, 0)
    if known:
        assert perfect.interval[1] == pytest.approx(0.5)
        # One action for all rows: nothing is uncertain.
        assert always.interval == pytest.approx((-0.4, -0.4))


@pytest.mark.parametrize(
    ("n", "share", "ratio"), [(100, 0.1, 100), (400, 0.5, 100), (400, 0.1, 100)]
)
@pytest.mark.parametrize("priors", [False, True])
def test_intervals_cover_the_true_benefit(n, share, ratio, priors):
    """Where losses are rare and large."""
    benefit, behind = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        missed, alarms = rng.uniform(0.1, 3) / (n * share), rng.uniform(0.1, 0.4)
        y = np.repeat([0, 1], [n - round(n * share), round(n * share)])
        C = np.array([[0.0, -1.0], [-float(ratio), 0.0]])
        rows = LabelledRows(y, C, np.array([1 - share, share]), known=priors)
        draws = rng.random((n, 4))
        choices = np.where(y[:, None] == 1, draws >= missed, draws < alarms).astype(int)
        truth = -(1 - share) * alarms - share * ratio * missed
        standings = contest(choices, rows).standings
        for standing in standings:
            benefit.append(standing.interval[0] <= truth <= standing.interval[1])
            behind.append(
                standing.behind_interval[0] <= 0 <= standing.behind_interval[1]
            )

    assert np.mean(benefit) >= 0.93
    assert np.mean(behind) >= 0.93


def test_doubts_name_the_classes():
    rows = labelled(200, 1)
    turned = LabelledRows(rows.y, -B, rows.shares)

    for ill, named in ((1, "'ill' has 1 row"), (0, "'ill' has no row")):
        [warning] = doubts(labelled(200, ill), CLASSES, 1.0)
        assert named in warning
    assert "BELOW the threshold" in doubts(turned, CLASSES, 1.0)[1]
    assert "bound" in doubts(labelled(200, 30), CLASSES, 0.0)[0]
    assert doubts(labelled(200, 30), CLASSES, 1.0) == []
    dominated = labelled(200, 1, B=np.array([[0.0, -1.0], [1.0, 1.0]]))
    assert doubts(dominated, CLASSES, 1.0)[0].startswith("action 'healthy'")
    many = doubts(
        LabelledRows(np.repeat(np.arange(50), 2), np.eye(50), np.full(50, 0.02)),
        range(50),
        1.0,
    )
    assert len(many) == 21
    assert many[-1].startswith("30 more classes")


@pytest.mark.parametrize("stratified", [False, True])
def test_a_group_has_one_weight_for_all_of_its_rows(stratified):
    values, y = few_outcomes(60)
    rng = np.random.default_rng(1)
    weights = rng.random(60) + 0.1
    groups = rng.integers(0, 7, 60)
    strata = y if stratified else np.zeros(60, dtype=int)

    resampled = means(values, weights, strata, groups=groups, resamples=50, seed=3)

    draws = np.random.default_rng((3, 1)).standard_gamma(1.0, (50, groups.max() + 1))
    expected = slow.grouped_means(
        values, weights, strata, groups, np.bincount(strata, weights), draws
    )
    assert resampled.means == pytest.approx(expected)


def test_repeated_rows_are_no_evidence_once_they_are_groups():
    """Ten copies of each of 60 rows have the intervals of the 60, but for the t of so many
    groups.
    """
    values, y = few_outcomes(60)
    copies = np.repeat(np.arange(60), 10)
    possible = Possible(values[y == 0].min(0)[None] - 5, values.max(0)[None] + 5)

    once = ranked(values, possible=possible)
    repeated = ranked(values[copies], possible=possible)
    grouped = ranked(values[copies], possible=possible, groups=copies)

    for alone, ten, group in zip(
        once.standings, repeated.standings, grouped.standings, strict=True
    ):
        width = np.diff(alone.interval)[0]
        assert np.diff(ten.interval)[0] < 0.45 * width
        assert 0.98 * width < np.diff(group.interval)[0] < 1.15 * width


def test_intervals_of_few_groups_are_within_what_is_possible():
    choices = np.tile([1, 0], (40, 1))
    y = np.arange(40) % 2
    rows = LabelledRows(y, B, np.array([0.5, 0.5]), groups=np.zeros(40, dtype=int))

    first, second = contest(choices, rows).standings

    assert (first.interval, second.interval) == ((-10, 5), (-10, 5))
    assert not contest(choices, rows).significant


def test_significance_asks_for_groups_that_differ():
    """300 rows of ten groups are not 30 cases; of 60 groups they are."""
    values = np.column_stack((np.ones(300), np.zeros(300)))

    assert not ranked(values, groups=np.arange(300) % 10).significant
    assert ranked(values, groups=np.arange(300) % 60).significant


@pytest.mark.parametrize(
    ("n", "groups", "wider"),
    [(60, None, 1.1), (600, None, 1.05), (600, 40, 1.1), (1_800, 600, 1.05)],
)
def test_intervals_of_few_cross_validated_rows_are_wider(n, groups, wider):
    """With groups, of few groups: they are what folds have more or fewer of."""
    y = np.arange(n) % 2
    choices = np.column_stack((y ^ (np.arange(n) < n // 5), np.zeros_like(y)))
    codes = None if groups is None else np.arange(n) % groups
    rows = LabelledRows(y, B, np.array([0.5, 0.5]), groups=codes)
    held = contest(choices, rows, fixed=[1])
    crossed = contest(choices, replace(rows, cross_validated=True), fixed=[1])

    for one, other in zip(held.standings, crossed.standings, strict=True):
        assert other.mean == one.mean
        np.testing.assert_allclose(
            np.array(other.interval) - one.mean,
            wider * (np.array(one.interval) - one.mean),
        )
        assert other.behind_interval[0] <= one.behind_interval[0]


def test_classes_are_doubted_by_their_groups():
    y = np.repeat([0, 1], [400, 60])
    rows = LabelledRows(y, B, np.array([0.9, 0.1]), groups=np.arange(460) // 10)

    (doubt,) = doubts(rows, CLASSES, 1.0)
    assert doubt == (
        "class 'ill' has 6 groups: too few for a reliable interval; add groups of it,"
        " with weights that keep its share, until 30 are evaluated"
    )
    rows = replace(rows, y=y[:420], groups=None)
    (doubt,) = doubts(rows, CLASSES, 1.0, "hold-out row")
    assert doubt == (
        "class 'ill' has 20 hold-out rows: too few for a reliable interval; add rows of it,"
        " with weights that keep its share, or hold out more, until 30 are evaluated"
    )


def test_grouped_intervals_hold_where_rows_of_a_group_are_alike():
    """40 groups of ten rows that share an effect: over 150 worlds the mean lies in the intervals
    of 95 %.
    """
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    inside = []
    for _ in range(150):
        values = rng.normal(size=40)[groups] + rng.normal(size=400)
        low, high = (
            ranked(values[:, None], groups=groups, resamples=500).standings[0].interval
        )
        inside.append(low <= 0 <= high)

    assert 0.9 <= np.mean(inside) <= 0.99
