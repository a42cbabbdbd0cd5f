"""The interval of realised less expected benefit, where money is skewed and losses are rare; looked
at daily, too.
"""

import numpy as np
import pytest

from payoff.evidence.intervals import Mean, PromiseSums, promise_interval, risk
from payoff.evidence.sequence import Sequence
from tests.effort import THOROUGH
from tests.payoff.evidence.worlds import (
    NULLS,
    WORLDS,
    coverage,
    draw,
    promise_of,
    wrong_sequences,
)
from tests.reference.evidence import sum_distribution

STREAMS, SIZES = (2000, (30, 100, 300, 1000)) if THOROUGH else (100, (100, 400))


@pytest.mark.parametrize("days", [1, 30])
@pytest.mark.parametrize("world", WORLDS)
def test_the_interval_holds_in_93_to_97_of_100_streams(world, days):
    if days == 1 and "days" in world:
        pytest.skip("one day does not show how days differ")
    for n in SIZES:
        intervals, held, _ = coverage(world, n, STREAMS, days)
        if not intervals:
            continue
        error = 3 * np.sqrt(0.95 * 0.05 / intervals)
        # 93 % within the step of a lattice.
        largest = 0.075 + 3 * np.sqrt(0.95 * 0.05 / STREAMS)
        assert (intervals - held) / STREAMS <= largest, n
        if intervals > STREAMS / 2:
            assert held / intervals <= 0.975 + error, n


def test_the_ends_reject_the_sum_at_2_5_percent_each_exactly():
    """Against the whole distribution of the sum, by convolution: a mid-p test."""
    P = np.tile([0.8, 0.2], (80, 1))
    payoffs = np.tile([0.0, -3.0], (80, 1))
    for lost in (8, 14, 20, 30):
        y = np.zeros(80, dtype=int)
        y[:lost] = 1
        differences = payoffs[np.arange(80), y] - (P * payoffs).sum(axis=1)
        sums = PromiseSums()
        sums.compare(differences, risk(P, payoffs), 0)
        interval = promise_interval(sums)
        for end, tail in ((interval.low, 1), (interval.high, -1)):
            shifted = _of_mean(P, payoffs, end * 80)
            distribution = sum_distribution(shifted, payoffs, 241)
            place = round(240 - 3 * lost)
            beyond = (
                distribution[place + 1 :].sum()
                if tail > 0
                else distribution[:place].sum()
            )
            assert beyond + distribution[place] / 2 == pytest.approx(0.025, abs=0.006)


def _of_mean(P, payoffs, total):
    """Probabilities with the log-odds that give the sum of differences this mean, by bisection."""
    expected = (P * payoffs).sum()
    low, high = -20.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        shifted = P * np.exp([0.0, middle])
        shifted /= shifted.sum(axis=1, keepdims=True)
        if (shifted * payoffs).sum() - expected > total:
            low = middle
        else:
            high = middle
    return shifted


@pytest.mark.parametrize(
    ("world", "n", "reason"),
    [
        (
            "very rare losses",
            30,
            "too few cases for outcomes as rare and as large as these",
        ),
        (
            "very rare losses",
            100,
            "too few cases for outcomes as rare and as large as these",
        ),
        ("coins", 29, "fewer than 30 cases with known truth"),
    ],
)
def test_too_few_cases_give_no_interval(world, n, reason):
    interval = promise_of(world, np.random.default_rng(3), n)

    assert (interval.low, interval.high, interval.reason) == (None, None, reason)
    assert interval.verdict(1e9) == "undecided"


def test_what_the_model_excludes_still_counts_when_it_occurs():
    P, payoffs = np.tile([1.0, 0.0], (400, 1)), np.tile([0.0, -100.0], (400, 1))
    differences = np.zeros(400)
    differences[:40] = -100
    sums = PromiseSums()
    sums.compare(differences, risk(P, payoffs), 0)

    interval = promise_interval(sums)
    assert interval.mean == -10
    assert interval.low is None or interval.high < 0


@pytest.mark.parametrize("days", [2, 4, 12, 40])
@pytest.mark.parametrize(
    "world", ["loans, days move by .15", "loans, days move by .25"]
)
def test_days_that_differ_are_no_false_alarm(world, days):
    """Without the variance of days, 9 to 14 of 100 streams were false alarms."""
    streams = 2000 if THOROUGH else 300
    _, _, alarms = coverage(world, 600, streams, days)

    assert alarms / streams <= 0.06 + 2 * np.sqrt(0.06 * 0.94 / streams)


def test_a_day_that_has_most_cases_shows_little():
    """Of twelve days one has nearly all cases: the interval is as wide as that of two days."""
    rng = np.random.default_rng(11)
    even, uneven = PromiseSums(), PromiseSums()
    for day in range(12):
        for sums, n in ((even, 200), (uneven, 2180 if day == 0 else 20)):
            sums.compare(
                (rng.random(n) < 0.5) - 0.5,
                risk(np.full((n, 2), 0.5), np.tile([0.0, 1.0], (n, 1))),
                day,
            )

    assert promise_interval(even).freedom == pytest.approx(11, rel=0.01)
    assert promise_interval(uneven).freedom < 2


def test_the_order_and_the_parts_do_not_matter():
    differences, P, payoffs, _ = draw("three classes", np.random.default_rng(5), 600)
    ordered, parts = PromiseSums(), PromiseSums()
    for day in range(3):
        ordered.compare(differences[day::3], risk(P[day::3], payoffs[day::3]), day)
    for rows in np.random.default_rng(6).permutation(600).reshape(100, 6):
        for day in range(3):
            of_day = rows[rows % 3 == day]
            parts.compare(differences[of_day], risk(P[of_day], payoffs[of_day]), day)

    in_order, in_parts = promise_interval(ordered), promise_interval(parts)
    expected = in_order.low, in_order.high, in_order.day_inflation
    assert (in_parts.low, in_parts.high, in_parts.day_inflation) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("amount", [1.0, -2.5, 0.1 + 0.2, -30.0, 1e100, 1e-30])
def test_an_action_that_earns_the_same_in_every_class_cannot_break_its_promise(amount):
    """What its expected benefit differs by is rounding, whatever the sum of the probabilities."""
    P = np.random.default_rng(8).dirichlet(np.ones(3), 500)
    payoffs = np.tile(amount * np.array([1.0, 1 + 2e-16, 1 - 1e-16]), (500, 1))
    sums = PromiseSums()
    sums.compare(payoffs[:, 0] - (P * payoffs).sum(axis=1), risk(P, payoffs), 0)

    interval = promise_interval(sums)
    assert (interval.mean, interval.low, interval.high) == (0, 0, 0)
    assert interval.verdict(0.1 * abs(amount)) == "within_10_percent"


def test_rounding_of_cases_without_risk_hides_no_others():
    differences, P, payoffs, _ = draw("coins", np.random.default_rng(9), 200)
    plain, mixed = PromiseSums(), PromiseSums()
    for sums, difference in ((plain, 0.0), (mixed, 1e-16)):
        sums.compare(
            np.append(differences, np.full(50, difference)),
            risk(*with_certain(P, payoffs)),
            0,
        )

    assert promise_interval(mixed) == promise_interval(plain)


def with_certain(P, payoffs):
    return np.vstack((P, np.full((50, 2), 0.5))), np.vstack((payoffs, np.ones((50, 2))))


@pytest.mark.parametrize(
    "world", ["three classes", "coins that are less sure", "rare losses of any size"]
)
@pytest.mark.parametrize("power", [-110, 250, 320])
def test_the_unit_of_money_does_not_matter(world, power):
    """From 1e-33 to 1e97, near the largest benefit; also where amounts of other days are much
    smaller.
    """
    differences, P, payoffs, _ = draw(world, np.random.default_rng(10), 4200)
    unit = 2.0**power
    plain_sums, scaled_sums, mixed = PromiseSums(), PromiseSums(), PromiseSums()
    for day, rows in enumerate(np.array_split(np.arange(4200), 12)):
        plain_sums.compare(differences[rows], risk(P[rows], payoffs[rows]), day)
        scaled_sums.compare(
            differences[rows] * unit, risk(P[rows], payoffs[rows] * unit), day
        )
        mixed.compare(
            differences[rows] * unit ** (day % 2),
            risk(P[rows], payoffs[rows] * unit ** (day % 2)),
            day,
        )

    plain, scaled = promise_interval(plain_sums), promise_interval(scaled_sums)
    ends = np.array([plain.mean, plain.low, plain.high])
    assert [scaled.mean, scaled.low, scaled.high] == pytest.approx(
        ends * unit, rel=1e-9
    )
    assert (scaled.dispersion, scaled.day_inflation) == pytest.approx(
        (plain.dispersion, plain.day_inflation)
    )
    assert np.isfinite(promise_interval(mixed).mean)


DAILY = 2000 if THOROUGH else 60


@pytest.mark.parametrize("null", NULLS)
def test_at_most_one_null_stream_in_twenty_is_ever_wrong(null):
    wrong = wrong_sequences(*NULLS[null], DAILY)

    assert wrong <= 0.05 + (0 if THOROUGH else 3 * np.sqrt(0.05 * 0.95 / DAILY))


def test_a_real_difference_is_found():
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(50):
        sequence = Sequence()
        for day in range(60):
            sequence.add(
                rng.choice([-1.0, 0.0, 1.0], 100, p=[0.06, 0.8, 0.14]),
                np.full(100, -1.0),
                np.ones(100),
                day,
            )
        rejected += sequence.interval().low > 0

    assert rejected >= 45


def test_values_that_cannot_differ_say_nothing():
    sequence = Sequence()
    sequence.add(*np.zeros((3, 10)), 1)

    assert sequence.interval() == Mean(None)
    assert sequence.count == 10
