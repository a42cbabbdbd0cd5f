"""Streams of decisions about money in worlds whose true mean difference is known."""

from __future__ import annotations

from functools import cache

import numpy as np

from app.evidence.promise import PromiseSums, judge, risk

FRAUD = np.array([[0.0, -5.0], [-100.0, -5.0]])
GRADES = np.array([[1.0, -1.0, 0.0], [-2.0, 5.0, 0.0], [-50.0, -3.0, 8.0]])
COIN = np.eye(2)


def binary(rng, n, a, b, scale=1.0):
    share = rng.beta(a, b, n) * scale
    return np.column_stack((1 - share, share))


def grades(rng, n):
    P = np.exp(1.5 * rng.normal(size=(n, 3)) + [0, -1, -3])
    return P / P.sum(axis=1, keepdims=True)


def odds(P, factors):
    """Probabilities whose odds are multiplied."""
    shifted = P * factors
    return shifted / shifted.sum(axis=1, keepdims=True)


# probabilities, matrix, log-normal spread of the amounts at stake, and how the truth differs from what is promised
WORLDS = {
    "rare losses": (lambda rng, n: binary(rng, n, 0.6, 12), FRAUD, 0.0, None),
    "very rare losses": (lambda rng, n: binary(rng, n, 0.6, 12, 0.1), FRAUD, 0.0, None),
    "rare losses of any size": (lambda rng, n: binary(rng, n, 0.6, 12), FRAUD, 1.0, None),
    "losses twice as frequent": (lambda rng, n: binary(rng, n, 0.6, 12), FRAUD, 0.0, (1.0, 2.0)),
    "losses half as frequent": (lambda rng, n: binary(rng, n, 0.6, 12), FRAUD, 0.0, (1.0, 0.5)),
    "three classes": (grades, GRADES, 0.0, None),
    "the worst class twice as frequent": (grades, GRADES, 0.0, (1.0, 1.0, 2.0)),
    "coins": (lambda rng, n: binary(rng, n, 2, 2), COIN, 0.0, None),
    "coins that are less sure": (lambda rng, n: binary(rng, n, 2, 2), COIN, 0.0, 0.6),
}


def draw(world, rng, n):
    """Differences (n,), probabilities and payoffs (n, K) of the decisions, and the true mean difference of these."""
    make, matrix, spread, truth = WORLDS[world]
    P = make(rng, n)
    M = (
        matrix[None] * np.exp(spread * rng.normal(size=n))[:, None, None]
        if spread
        else np.broadcast_to(matrix, (n, *matrix.shape))
    )
    if spread:
        M = M.copy()
        M[:, :, 1] = -5.0  # checking costs the same for any amount
    real = P if truth is None else odds(P, truth) if isinstance(truth, tuple) else truth * P + (1 - truth) / P.shape[1]
    each = np.arange(n)
    choice = np.einsum("nk,nka->na", P, M).argmax(axis=1)
    payoffs = M[each, :, choice]
    y = (rng.random(n)[:, None] > real.cumsum(axis=1)).sum(axis=1).clip(max=P.shape[1] - 1)
    expected = (P * payoffs).sum(axis=1)
    return payoffs[each, y] - expected, P, payoffs, float(((real * payoffs).sum(axis=1) - expected).mean())


def judged(world, rng, n):
    differences, P, payoffs, _ = draw(world, rng, n)
    sums = PromiseSums()
    sums.add(differences, risk(P, payoffs), 0)
    return judge(sums)


@cache
def mean_difference(world):
    """Of the population."""
    return draw(world, np.random.default_rng(99), 300_000)[3]


def coverage(world, n, streams, seed=0):
    """Of so many streams: how many got an interval, and how many of these hold the true mean difference."""
    real, rng = mean_difference(world), np.random.default_rng([seed, n])
    given = held = 0
    for _ in range(streams):
        found = judged(world, rng, n)
        if found.low is not None:
            given += 1
            held += found.low <= real <= found.high
    return given, held
