"""Streams of decisions about money in worlds whose true mean difference is known."""

from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri

from payoff.evidence.intervals import PromiseSums, promise_interval, risk
from payoff.evidence.sequence import Sequence

FRAUD = np.array([[0.0, -5.0], [-100.0, -5.0]])
GRADES = np.array([[1.0, -1.0, 0.0], [-2.0, 5.0, 0.0], [-50.0, -3.0, 8.0]])
COIN = np.eye(2)
LOAN = np.array([[1.0, 0.0], [-1.0, 0.0]])


def binary(a, b, scale=1.0):
    def make(rng, n):
        share = rng.beta(a, b, n) * scale
        return np.column_stack((1 - share, share))

    return make


def grades(rng, n):
    P = np.exp(1.5 * rng.normal(size=(n, 3)) + [0, -1, -3])
    return P / P.sum(axis=1, keepdims=True)


def odds(P, factors):
    """Probabilities whose odds are multiplied."""
    shifted = P * factors
    return shifted / shifted.sum(axis=1, keepdims=True)


def moved(P, moves, spread):
    """Probabilities (n, 2) of days that move by `moves` (n,) on the probit scale, and have the mean
    P over all days.
    """
    share = ndtr(
        ndtri(np.clip(P[:, 1], 1e-12, 1 - 1e-12)) * np.sqrt(1 + spread**2) + moves
    )
    return np.column_stack((1 - share, share))


RARE = binary(0.6, 12)
EVEN = binary(2, 2)
UNLIKELY = binary(2, 2, 0.5)
# For each world: the probabilities, the matrix, the log-normal spread of the amounts at stake, how
# the truth differs from the promise, and how much days differ, on the probit scale.
WORLDS = {
    "rare losses": (RARE, FRAUD, 0.0, None, 0.0),
    "very rare losses": (binary(0.6, 12, 0.1), FRAUD, 0.0, None, 0.0),
    "rare losses of any size": (RARE, FRAUD, 1.0, None, 0.0),
    "losses twice as frequent": (RARE, FRAUD, 0.0, (1.0, 2.0), 0.0),
    "losses half as frequent": (RARE, FRAUD, 0.0, (1.0, 0.5), 0.0),
    "three classes": (grades, GRADES, 0.0, None, 0.0),
    "the worst class twice as frequent": (grades, GRADES, 0.0, (1.0, 1.0, 2.0), 0.0),
    "coins": (EVEN, COIN, 0.0, None, 0.0),
    "coins that are less sure": (EVEN, COIN, 0.0, 0.6, 0.0),
    "rare losses, days move by .15": (RARE, FRAUD, 0.0, None, 0.15),
    "rare losses, days move by .25": (RARE, FRAUD, 0.0, None, 0.25),
    "loans, days move by .15": (UNLIKELY, LOAN, 0.0, None, 0.15),
    "loans, days move by .25": (UNLIKELY, LOAN, 0.0, None, 0.25),
    "losses twice as frequent, days move by .25": (RARE, FRAUD, 0.0, (1.0, 2.0), 0.25),
    "a quarter more bad loans, days move by .25": (
        UNLIKELY,
        LOAN,
        0.0,
        (1.0, 1.25),
        0.25,
    ),
}


def draw(world, rng, n, days=1):
    """Differences (n,), probabilities and payoffs (n, K) of the decisions, and their true mean
    difference; each day has an equal part of the decisions.
    """
    make, matrix, spread, truth, day_effect = WORLDS[world]
    P, M = make(rng, n), np.repeat(matrix[None], n, axis=0)
    rows = np.arange(n)
    if spread:
        M *= np.exp(spread * rng.normal(size=n))[:, None, None]
        M[:, :, 1] = -5.0  # checking costs the same for any amount
    real = P
    if day_effect:
        moves = day_effect * rng.normal(size=days)
        real = moved(P, moves[rows * days // n], day_effect)
    if isinstance(truth, tuple):
        real = odds(real, truth)
    elif truth is not None:
        real = truth * real + (1 - truth) / P.shape[1]
    choice = np.einsum("nk,nka->na", P, M).argmax(axis=1)
    payoffs = M[rows, :, choice]
    y = (
        (rng.random(n)[:, None] > real.cumsum(axis=1))
        .sum(axis=1)
        .clip(max=P.shape[1] - 1)
    )
    expected = (P * payoffs).sum(axis=1)
    mean = float(((real * payoffs).sum(axis=1) - expected).mean())
    return payoffs[rows, y] - expected, P, payoffs, mean


def promise_of(world, rng, n, days=1):
    """The interval of n decisions of a world."""
    differences, P, payoffs, _ = draw(world, rng, n, days)
    sums, risks = PromiseSums(), risk(P, payoffs)
    for day, rows in enumerate(np.array_split(np.arange(n), days)):
        sums.compare(differences[rows], risks[:, rows], day)
    return promise_interval(sums)


@cache
def mean_difference(world):
    """The mean difference of the population."""
    return draw(world, np.random.default_rng(99), 300_000, 30_000)[3]


def coverage(world, n, streams, days=1, seed=0):
    """The number of streams that have an interval, of intervals that contain the true mean
    difference, and of intervals that exclude 0.
    """
    real = mean_difference(world)
    rng = np.random.default_rng([seed, n])
    intervals = held = alarms = 0
    for _ in range(streams):
        interval = promise_of(world, rng, n, days)
        if interval.low is not None:
            intervals += 1
            held += interval.low <= real <= interval.high
            alarms += not interval.low <= 0 <= interval.high
    return intervals, held, alarms


DAYS, A_DAY = 200, 25
# For each stream: the values, their shares, and the log-normal spread of the amounts that multiply
# them.
NULLS = {
    "even": ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1), 0.0),
    "rare losses": ((1.0, 0.0, -100.0), (0.1, 0.899, 0.001), 0.0),
    "rare gains": ((-1.0, 0.0, 200.0), (0.1, 0.8995, 0.0005), 0.0),
    "few that differ": ((-1.0, 0.0, 1.0), (0.005, 0.99, 0.005), 0.0),
    "an amount for each case": ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1), 1.0),
    "rare losses of any amount": ((1.0, 0.0, -20.0), (0.1, 0.895, 0.005), 1.0),
}


def wrong_sequences(values, shares, spread, streams, seed=0):
    """The share of null streams whose sequence excludes 0 on any of 200 days."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(streams):
        sequence = Sequence()
        failed = False
        for day in range(DAYS):
            amounts = np.exp(spread * rng.normal(size=A_DAY))
            gains = amounts * rng.choice(values, A_DAY, p=shares)
            sequence.add(gains, amounts * min(values), amounts * max(values), day)
            interval = sequence.interval()
            failed |= not interval.low <= 0 <= interval.high
        wrong += failed
    return wrong / streams
