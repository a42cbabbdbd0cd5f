"""Calibration of predicted rewards, and uplift curves with their area."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.evidence.policies import UNSEEN_ACTION, LoggedRewards, gain_over
from payoff.evidence.uplift import SHARES, calibration, uplift_curve
from tests.reference import rewards as twin

CHANCES = (0.5, 0.3, 0.2)


def log_of(n, seed, digits=1, slope=0.0):
    """Expected rewards that are rounded, so that cases are equal; a first treatment helps where
    more of it is expected, by the `slope`.
    """
    random = np.random.default_rng(seed)
    expected = random.normal(size=(n, 3)).round(digits)
    actions = random.choice(3, n, p=CHANCES)
    rewards = random.normal(size=n)
    uplift = expected[:, 1] - expected[:, 0]
    rewards += np.where(actions == 1, slope * uplift, 0.0)
    return LoggedRewards(actions, rewards, np.tile(CHANCES, (n, 1)), expected)


@given(
    n=st.integers(12, 60), seed=st.integers(0, 2**31), digits=st.sampled_from([0, 9])
)
def test_curves_are_as_defined(n, seed, digits):
    log = log_of(n, seed, digits)
    random = np.random.default_rng(seed)
    fold = random.integers(2, size=n)
    chosen = random.integers(1, 3, size=n)
    drawn = uplift_curve(log, chosen, 0, fold)
    listed = fold.tolist()
    expected = [
        twin.gain_of_treating(log, chosen, 0, listed, share) for share in SHARES
    ]
    assert [gain.mean for gain in drawn.gains] == pytest.approx(expected, abs=1e-9)
    assert drawn.area.mean == pytest.approx(twin.area(log, chosen, 0, listed), abs=1e-9)


@given(
    n=st.integers(40, 300), seed=st.integers(0, 2**31), digits=st.sampled_from([0, 9])
)
def test_calibration_is_as_defined(n, seed, digits):
    log = log_of(n, seed, digits)
    chosen = np.random.default_rng(seed).integers(3, size=n)
    effective, promised = twin.effective(log, chosen)
    bins = max(min(int(min(effective, promised) // 40), 10), 1)
    drawn = [
        (part.rows, part.acted, part.predicted, part.observed.mean)
        for part in calibration(log, chosen)
    ]
    expected = twin.calibration(log, chosen, bins)
    np.testing.assert_allclose(drawn, expected, atol=1e-9)


@given(seed=st.integers(0, 2**31))
def test_the_end_of_a_curve_is_the_gain_of_treating_all(seed):
    log = log_of(400, seed)
    all_treated = np.ones(400, dtype=int)
    drawn = uplift_curve(log, all_treated, 0, np.zeros(400, dtype=int))
    gain = gain_over(log, all_treated, 0)
    last = drawn.gains[-1]
    assert (last.mean, last.low, last.high) == (gain.mean, gain.low, gain.high)
    assert drawn.gains[0].mean == 0


@given(seed=st.integers(0, 2**31))
def test_order_of_cases_does_not_matter(seed):
    log = log_of(300, seed)
    order = np.random.default_rng(seed).permutation(300)
    chosen = np.ones(300, dtype=int)
    fold = np.arange(300) % 3
    one = uplift_curve(log, chosen, 0, fold).area
    other = uplift_curve(log.take(order), chosen, 0, fold[order]).area
    assert (one.mean, one.low, one.high) == pytest.approx(
        (other.mean, other.low, other.high)
    )


def test_equal_uplift_ranks_nothing():
    """Also where models of folds expect different uplift of all their cases."""
    log = log_of(600, 0)
    fold = np.arange(600) % 2
    same = log._replace(expected=np.column_stack((fold * 0.0, fold, fold)))
    drawn = uplift_curve(same, np.ones(600, dtype=int), 0, fold)
    assert drawn.area.mean == pytest.approx(0, abs=1e-12)
    shares = [gain.mean / drawn.gains[-1].mean for gain in drawn.gains]
    assert shares == pytest.approx(SHARES.tolist())


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_intervals_of_the_area_contain_the_truth(slope):
    """At least 93 % of 200 worlds; the truth is that of the ranks, whose effect is known."""
    inside = 0
    for seed in range(200):
        log = log_of(500, seed, digits=9, slope=slope)
        drawn = uplift_curve(log, np.ones(500, dtype=int), 0, np.zeros(500, dtype=int))
        # The mean of the effect times the place, for normal uplift of variance 2: 1/sqrt(pi) * sd/2
        truth = slope * np.sqrt(2) / (2 * np.sqrt(np.pi))
        inside += drawn.area.low <= truth <= drawn.area.high
    assert inside >= 0.93 * 200


@given(seed=st.integers(0, 2**31))
def test_a_case_that_is_there_ten_times_says_as_much_as_once(seed):
    log = log_of(400, seed)
    rows = np.repeat(np.arange(400), 10)
    copies = log.take(rows)._replace(groups=rows)
    chosen = np.ones(400, dtype=int)
    fold = np.zeros(400, dtype=int)
    alone = uplift_curve(log, chosen, 0, fold).area
    grouped = uplift_curve(copies, chosen[rows], 0, fold[rows]).area
    assert (grouped.low, grouped.high) == pytest.approx((alone.low, alone.high))
    plain = calibration(log, chosen)
    repeated = calibration(copies, chosen[rows])
    for one, other in zip(plain, repeated, strict=True):
        assert (one.rows * 10, one.acted * 10) == (other.rows, other.acted)
        assert one.observed.low == pytest.approx(other.observed.low)


def test_a_weight_of_two_is_two_such_cases():
    log = log_of(300, 1)
    weights = np.where(np.arange(300) % 3, 1.0, 2.0)
    rows = np.repeat(np.arange(300), weights.astype(int))
    weighted = log._replace(row_weights=weights)
    chosen = np.ones(300, dtype=int)
    fold = np.arange(300) % 2
    ours = uplift_curve(weighted, chosen, 0, fold)
    copies = uplift_curve(log.take(rows), chosen[rows], 0, fold[rows])
    assert ours.area.mean == pytest.approx(copies.area.mean)
    assert [gain.mean for gain in ours.gains] == pytest.approx(
        [gain.mean for gain in copies.gains]
    )
    [part] = calibration(weighted.take(np.arange(90)), chosen[:90])
    [other] = calibration(log.take(rows[rows < 90]), chosen[rows[rows < 90]])
    assert part.predicted == pytest.approx(other.predicted)
    assert part.observed.mean == pytest.approx(other.observed.mean)


def test_calibration_finds_what_is_promised_too_much():
    log = log_of(4000, 0)
    chosen = np.zeros(4000, dtype=int)
    rewards = log.expected[:, 0] + np.random.default_rng(1).normal(size=4000)
    right = log._replace(rewards=rewards)
    for part in calibration(right, chosen):
        assert part.observed.low <= part.predicted <= part.observed.high
    bins = calibration(right._replace(expected=log.expected * 2), chosen)
    assert len(bins) == 10
    assert bins[-1].observed.high < bins[-1].predicted
    assert bins[0].observed.low > bins[0].predicted


def test_what_the_log_never_did_has_no_intervals():
    log = log_of(400, 0)
    chances = np.tile((0.6, 0.4, 0.0), (400, 1))
    unseen = log._replace(chances=chances, actions=log.actions % 2)
    chosen = np.full(400, 2)
    drawn = uplift_curve(unseen, chosen, 0, np.zeros(400, dtype=int))
    assert drawn.reason == UNSEEN_ACTION
    assert drawn.area.low is None
    assert {gain.low for gain in drawn.gains[1:]} == {None}
    assert [part.observed.low for part in calibration(unseen, chosen)] == [None]
