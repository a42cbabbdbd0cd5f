"""Judging policies by a log of rewards: estimates, intervals, gates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.evidence.policies import (
    UNSEEN_ACTION,
    LoggedRewards,
    best_single,
    careful_mean,
    effective_cases,
    gain_over,
    judge,
)
from tests.reference import rewards as twin


def log_of(n, seed, chances=(0.5, 0.3, 0.2), gain=0.0, tail=0.0):
    """A log of these chances; the second action earns `gain` more, rewards have a heavy `tail`."""
    random = np.random.default_rng(seed)
    P = np.tile(chances, (n, 1))
    actions = random.choice(len(chances), n, p=chances)
    rewards = random.normal(size=n) + gain * (actions == 1)
    rewards += tail * random.lognormal(0, 2, n)
    return LoggedRewards(actions, rewards, P, random.normal(size=P.shape) * 0.3)


@given(n=st.integers(31, 80), seed=st.integers(0, 2**31), tail=st.sampled_from([0, 9]))
def test_as_defined(n, seed, tail):
    log = log_of(n, seed, tail=tail)
    chosen = np.random.default_rng(seed).integers(3, size=n)
    judged = judge(log, chosen)
    assert judged.value.mean == pytest.approx(twin.value(log, chosen))
    assert judged.logged == pytest.approx(np.mean(log.rewards))
    assert judged.gain.mean == pytest.approx(judged.value.mean - judged.logged)
    assert effective_cases(log, chosen) == pytest.approx(twin.effective(log, chosen))
    gains = (log.values(chosen) - log.rewards).tolist()
    if judged.gain.low is not None:
        ends = judged.gain.low, judged.gain.high
        assert ends == pytest.approx(twin.careful(gains), rel=1e-6, abs=1e-9)
        assert judged.gain.low <= judged.gain.mean <= judged.gain.high


@given(seed=st.integers(0, 2**31))
def test_order_of_cases_does_not_matter(seed):
    log = log_of(60, seed)
    chosen = np.random.default_rng(seed).integers(3, size=60)
    order = np.random.default_rng(seed + 1).permutation(60)
    shuffled = LoggedRewards(*(column[order] for column in log[:4]))
    one, other = judge(log, chosen).gain, judge(shuffled, chosen[order]).gain
    assert (one.mean, one.low, one.high) == pytest.approx(
        (other.mean, other.low, other.high)
    )


def test_verdicts():
    second = np.ones(2000, dtype=int)
    assert judge(log_of(2000, 0, gain=1.0), second).verdict == "better"
    assert judge(log_of(2000, 0, gain=-1.0), second).verdict == "worse"
    assert judge(log_of(2000, 0), second).verdict == "undecided"


def test_worse_needs_more_cases_than_better():
    # About 75 effective cases.
    second = np.ones(250, dtype=int)
    assert judge(log_of(250, 0, gain=4.0), second).verdict == "better"
    assert judge(log_of(250, 0, gain=-4.0), second).verdict == "undecided"


def test_what_the_log_never_did_cannot_be_judged():
    log = log_of(400, 0, chances=(0.5, 0.5, 0.0))
    judged = judge(log, np.full(400, 2))
    assert (judged.verdict, judged.reason) == ("cannot_be_judged", UNSEEN_ACTION)


@pytest.mark.parametrize("chances", [(0.96, 0.02, 0.02), (0.05, 0.9, 0.05)])
def test_few_cases_cannot_be_judged(chances):
    log = log_of(400, 0, chances=chances)
    judged = judge(log, np.full(400, 2))
    assert judged.verdict == "cannot_be_judged"
    assert min(judged.effective, judged.expected_effective) < 30
    assert "effective" in judged.reason
    assert gain_over(log, np.zeros(400, dtype=int), 2).low is None


def test_lucky_agreement_does_not_count():
    """A log that nearly always did what is chosen: many effective cases, few promised."""
    n = 400
    log = log_of(n, 0)
    chances = np.full((n, 3), [0.99, 0.005, 0.005])
    chances[:100] = [0.001, 0.4, 0.599]
    lucky = log._replace(actions=np.zeros(n, dtype=int), chances=chances)
    lucky.actions[:100] = 1
    judged = judge(lucky, np.zeros(n, dtype=int))
    assert judged.effective > 100
    assert judged.expected_effective < 30
    assert judged.verdict == "cannot_be_judged"


def test_best_single_action():
    log = log_of(3000, 1, gain=2.0)
    assert best_single(log) == 1
    always = np.ones(3000, dtype=int)
    gain = gain_over(log, always, 1)
    assert (gain.mean, gain.low, gain.high) == (0.0, None, None)
    assert gain_over(log, always, 0).low > 0


def test_interval_reaches_for_rare_large_rewards():
    values = np.r_[np.ones(60), 2.0, 90.0]
    careful = careful_mean(values)
    assert careful.high > 2 * twin.johnson(values.tolist())[1] - careful.mean


def test_intervals_contain_the_truth():
    """Fixed policies, 200 worlds of skewed rewards: at least 93 % of the intervals."""
    inside = judged = 0
    for seed in range(200):
        log = log_of(600, seed, gain=0.5, tail=0.1)
        judgement = judge(log, np.ones(600, dtype=int))
        judged += 1
        inside += judgement.gain.low <= 0.5 * (1 - 0.3) <= judgement.gain.high
    assert inside >= 0.93 * judged


@given(
    n=st.integers(31, 60),
    groups=st.sampled_from([0, 31, 50]),
    seed=st.integers(0, 2**31),
)
def test_weights_and_groups_as_defined(n, groups, seed):
    random = np.random.default_rng(seed)
    codes = np.arange(n)
    if groups:
        codes = np.unique(random.integers(groups, size=n), return_inverse=True)[1]
    weights = random.uniform(0.2, 5, n)
    log = log_of(n, seed)._replace(
        row_weights=weights, groups=codes if groups else None
    )
    chosen = random.integers(3, size=n)
    judged = judge(log, chosen)
    gains = log.values(chosen) - log.rewards
    parts = twin.parts_of_groups(gains, weights, codes)
    assert judged.gain.mean == pytest.approx(np.average(gains, weights=weights))
    assert judged.gain.mean == pytest.approx(np.mean(parts))
    assert judged.logged == pytest.approx(np.average(log.rewards, weights=weights))
    assert effective_cases(log, chosen) == pytest.approx(
        twin.effective(log, chosen, weights, codes)
    )
    if judged.gain.low is not None:
        ends = judged.gain.low, judged.gain.high
        assert ends == pytest.approx(twin.careful(parts), rel=1e-6, abs=1e-9)


def test_a_weight_of_two_is_a_mean_over_two_such_cases():
    log = log_of(300, 5, gain=1.0)
    weights = np.where(np.arange(300) % 3, 1.0, 2.0)
    twice = np.repeat(np.arange(300), weights.astype(int))
    copies = LoggedRewards(*(part[twice] for part in log[:4]), groups=twice)
    chosen = np.ones(300, dtype=int)
    weighted = judge(log._replace(row_weights=weights), chosen)
    copied = judge(copies, chosen[twice])
    assert weighted.value.mean == pytest.approx(copied.value.mean)
    assert weighted.gain.low == pytest.approx(copied.gain.low)
    assert weighted.effective == pytest.approx(copied.effective)
    assert best_single(log._replace(row_weights=weights)) == best_single(copies)


def test_beside_a_rival_policy_both_need_cases():
    log = log_of(900, 2, chances=(0.5, 0.49, 0.01), gain=1.0)
    first, second, rare = (np.full(900, action) for action in range(3))
    judged = judge(log, second, first)
    assert judged.verdict == "better"
    assert judged.gain.mean == pytest.approx(
        np.mean(log.values(second) - log.values(first))
    )
    assert judge(log, first, second).verdict == "worse"
    assert judge(log, second, second).verdict == "undecided"
    for pair in ((second, rare), (rare, second)):
        judged = judge(log, *pair)
        assert judged.verdict == "cannot_be_judged"
        assert "effective" in judged.reason


def test_groups_of_one_case_are_cases():
    log = log_of(60, 3, gain=1.0)
    chosen = np.ones(60, dtype=int)
    alone = judge(log._replace(groups=np.arange(60)[::-1]), chosen)
    plain = judge(log, chosen)
    assert alone.gain.low == pytest.approx(plain.gain.low)
    assert alone.gain.high == pytest.approx(plain.gain.high)
    assert alone.effective == pytest.approx(plain.effective)
    assert alone.expected_effective == pytest.approx(plain.expected_effective)
    assert alone.verdict == plain.verdict


def test_a_case_that_is_there_ten_times_says_as_much_as_once():
    log = log_of(60, 3, gain=1.0)
    rows = np.repeat(np.arange(60), 10)
    copies = LoggedRewards(*(part[rows] for part in log[:4]), groups=rows)
    chosen = np.ones(60, dtype=int)
    once, ten_times = judge(log, chosen), judge(copies, chosen[rows])
    assert ten_times.gain.mean == pytest.approx(once.gain.mean)
    assert ten_times.gain.low == pytest.approx(once.gain.low)
    assert ten_times.gain.high == pytest.approx(once.gain.high)
    assert ten_times.effective == pytest.approx(once.effective)
    assert ten_times.expected_effective == pytest.approx(once.expected_effective)
    assert judge(copies._replace(groups=None), chosen[rows]).gain.low > once.gain.low


def test_days_that_differ_make_the_value_less_certain_and_hardly_the_gain():
    """What a day is worth is in all of its rewards; as independent cases 39 % were covered."""
    inside = []
    widths = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        days = random.integers(0, 20, 1_000)
        actions = random.integers(0, 2, 1_000)
        luck = 0.5 * random.normal(size=20)[days]
        rewards = 0.3 * actions + luck + random.normal(size=1_000)
        expected = np.tile([0.0, 0.3], (1_000, 1))
        log = LoggedRewards(actions, rewards, np.full((1_000, 2), 0.5), expected)
        chosen = np.ones(1_000, dtype=np.intp)
        alone, by_day = judge(log, chosen), judge(log._replace(days=days), chosen)
        assert by_day.value.mean == pytest.approx(alone.value.mean)
        inside.append(by_day.value.low <= 0.3 <= by_day.value.high)
        inside.append(by_day.gain.low <= 0.15 <= by_day.gain.high)
        widths.append(
            (by_day.gain.high - by_day.gain.low) / (alone.gain.high - alone.gain.low)
        )
    assert np.mean(inside) >= 0.94
    assert np.mean(widths) < 1.15
    one_day = judge(log._replace(days=np.full(1_000, 7)), chosen)
    assert one_day == judge(log, chosen)
