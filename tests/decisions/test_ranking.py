"""When a lead may be called more than noise, and what is warned about beside it."""

import numpy as np
import pytest

from app.decisions.ranking import Judged, contest, doubts, rank
from tests.reference.bootstrap import percentile_intervals

B = np.array([[0.0, -1.0], [-10.0, 5.0]])
CLASSES = ["healthy", "ill"]


def judged(healthy, ill, **changes):
    y = np.repeat([0, 1], [healthy, ill])
    return Judged(y, changes.pop("B", B), **({"shares": np.array([0.9, 0.1])} | changes))


def two_ways(rows):
    """One calls all healthy; the other also calls every second healthy row ill, and so loses there."""
    never = np.zeros(len(rows.y), dtype=int)
    often = (np.arange(len(rows.y)) % 2) * (rows.y == 0)
    return np.column_stack((never, often))


@pytest.mark.parametrize(
    ("ill", "known", "significant"),
    [(0, False, False), *((ill, known, ill == 30) for ill in (1, 2, 29, 30) for known in (False, True))],
)
def test_every_class_where_they_can_differ_needs_rows(ill, known, significant):
    """No ill row shows what the two cost each other there; 30 of them are enough, as everywhere."""
    rows = judged(200, ill, known=known)
    ranking = contest(two_ways(rows), rows)

    assert ranking.standings[1].behind > 0
    assert ranking.differing == 100
    assert ranking.significant is significant


def test_a_class_where_they_earn_alike_or_that_never_comes_needs_none():
    """What both actions earn in it is the same, or its share is 0."""
    alike = judged(200, 1, B=np.array([[0.0, -1.0], [5.0, 5.0]]))
    never = judged(200, 1, shares=np.array([1.0, 0.0]), known=True)

    assert contest(two_ways(alike), alike).significant
    assert contest(two_ways(never), never).significant


def test_only_actions_on_which_they_differ_count():
    """A third action that both take on the same rows makes no class uncertain."""
    C = np.array([[0.0, -1.0, 3.0], [5.0, 5.0, -20.0]])
    rows = judged(200, 3, B=C)
    choices = two_ways(rows)
    choices[rows.y == 1] = 2

    assert contest(choices, rows).significant


def test_few_rows_of_a_heavy_class_make_no_wrong_claims():
    """Two ways that are equally good: most draws show none of the rare rows that make them so, which fools the
    bootstrap alone.
    """
    rng = np.random.default_rng(0)
    C, shares = np.array([[0.0, -1.0], [-10.0, 0.0]]), np.array([10 / 11, 1 / 11])
    y = np.repeat([0, 1], [500, 5])
    rows = Judged(y, C, shares, known=True)
    fooled = claimed = 0
    for _ in range(50):
        acted = (rng.random(505) < 0.1).astype(int)  # of either class: that costs 10/11 * .1, and saves 1/11 * .1 * 10
        choices = np.column_stack((np.zeros(505, dtype=int), acted))
        values = np.column_stack([C[y, choice] for choice in choices.T])
        fooled += rank(values, rows.weights, y, resamples=400).significant
        claimed += contest(choices, rows).significant

    assert fooled > 10
    assert claimed == 0


@pytest.mark.parametrize("known", [False, True])
def test_a_loss_that_did_not_occur_is_in_the_interval(known):
    """No ill row among 60 was missed; if one in 60 is, that costs 15 each."""
    rows = judged(540, 60, known=known)
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
        assert always.interval == pytest.approx((-0.4, -0.4))  # one action for all: nothing is uncertain


@pytest.mark.parametrize(("n", "share", "ratio"), [(100, 0.1, 100), (400, 0.5, 100), (400, 0.1, 100)])
@pytest.mark.parametrize("priors", [False, True])
def test_intervals_cover_the_true_benefit(n, share, ratio, priors):
    """Where losses are rare and large; the percentile bootstrap covers less than 0.85."""
    benefit, behind, before = [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        missed, alarms = rng.uniform(0.1, 3) / (n * share), rng.uniform(0.1, 0.4)
        y = np.repeat([0, 1], [n - round(n * share), round(n * share)])
        C = np.array([[0.0, -1.0], [-float(ratio), 0.0]])
        rows = Judged(y, C, np.array([1 - share, share]), known=priors)
        draws = rng.random((n, 4))
        choices = np.where(y[:, None] == 1, draws >= missed, draws < alarms).astype(int)
        truth = -(1 - share) * alarms - share * ratio * missed
        standings = contest(choices, rows).standings
        benefit += [one.interval[0] <= truth <= one.interval[1] for one in standings]
        behind += [one.behind_interval[0] <= 0 <= one.behind_interval[1] for one in standings]
        values = np.column_stack([C[y, choice] for choice in choices.T])
        old, _ = percentile_intervals(values, rows.weights, y if priors else None)
        before += [low <= truth <= high for low, high in old]

    assert np.mean(benefit) >= 0.93
    assert np.mean(behind) >= 0.93
    assert np.mean(before) < 0.85


def test_doubts_name_the_classes():
    rows = judged(200, 1)
    turned = Judged(rows.y, -B, rows.shares)

    [warning] = doubts(rows, CLASSES, 1.0)
    assert "'ill' has 1 row" in warning
    [warning] = doubts(judged(200, 0), CLASSES, 1.0, "hold-out row")
    assert "'ill' has no hold-out row" in warning
    assert "0.1" in warning
    assert "BELOW the threshold" in doubts(turned, CLASSES, 1.0)[1]
    assert "bound" in doubts(judged(200, 30), CLASSES, 0.0)[0]
    assert doubts(judged(200, 30), CLASSES, 1.0) == []
    assert doubts(judged(200, 1, B=np.array([[0.0, -1.0], [1.0, 1.0]])), CLASSES, 1.0)[0].startswith("action 'healthy'")


def test_many_rare_classes_are_counted_not_listed():
    y = np.repeat(np.arange(50), 2)
    found = doubts(Judged(y, np.eye(50), np.full(50, 0.02)), range(50), 1.0)

    assert len(found) == 21
    assert found[-1].startswith("30 more classes")
