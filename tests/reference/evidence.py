"""Slow twins of `payoff.evidence`: definitions word for word."""

from itertools import combinations
from typing import Any

import numpy as np


def known_moments(cases, known):
    """Mean and covariance of the known cases after each action, over all equally likely ways to know so many of all."""
    actions = np.repeat(np.arange(len(cases)), cases)
    ways = [
        np.bincount(actions[list(some)], minlength=len(cases))
        for some in combinations(range(len(actions)), known)
    ]
    return np.mean(ways, axis=0), np.cov(np.transpose(ways), bias=True)


def ledger(days):
    """Sums of a report, case by case: `days` are `Cases`."""
    sums: dict[str, Any] = {
        "decisions": 0,
        "known": 0,
        "expected": 0.0,
        "received": 0.0,
        "promised": 0.0,
        "decided": 0.0,
    }
    sums |= {
        "perfect": 0.0,
        "most_probable": 0.0,
        "low": 0.0,
        "high": 0.0,
        "overrides": 0.0,
        "overridden": 0,
    }
    sums |= {"single": {}, "known_after": {}}
    for cases in days:
        for i in range(len(cases)):
            terms = cases.terms[cases.term[i]]
            P = [p for p in cases.probabilities[i] if p == p]  # noqa: PLR0124 - NaN
            choice, truth, action, told = (
                cases.choice[i],
                cases.truth[i],
                cases.action[i],
                cases.benefit[i],
            )
            sums["decisions"] += 1
            sums["known"] += truth >= 0
            after = sums["known_after"].setdefault(terms.actions[choice], [0, 0])
            after[0] += truth >= 0
            after[1] += 1
            B = terms.benefits
            if B is None:
                continue
            sums["expected"] += cases.expected[i]
            if truth < 0:
                possible = [B[k][choice] for k in range(len(P))]
                sums["low"] += min(possible)
                sums["high"] += max(possible)
                continue
            taken = choice if action < 0 else action
            received = B[truth][taken] if told != told else told  # noqa: PLR0124 - NaN
            sums["received"] += received
            sums["promised"] += cases.expected[i]
            sums["decided"] += B[truth][choice]
            sums["perfect"] += max(B[truth])
            likely = P.index(max(P))
            sums["most_probable"] += B[truth][B[likely].index(max(B[likely]))]
            if taken != choice:
                sums["overrides"] += B[truth][action] - B[truth][choice]
                sums["overridden"] += 1
            for label, benefit in zip(terms.actions, B[truth], strict=True):
                sums["single"][label] = sums["single"].get(label, 0.0) + benefit
    return sums


def sum_distribution(P, payoffs, grid):
    """Probabilities of the sum of independent payoffs that are integers, on 0..grid-1 above the least sum."""
    total = np.zeros(grid)
    total[0] = 1.0
    for p, values in zip(P, payoffs, strict=True):
        least = values.min()
        new = np.zeros(grid)
        for share, value in zip(p, values, strict=True):
            step = int(value - least)
            new[step:] += share * total[: grid - step]
        total = new
    return total


def calibration_bins(P, y, weights, groups, bins):
    """Of each bin: its rows, and by loops the mean probability, the share and the effective number of rows.

    A row belongs to the bin of the number of `edges` (those rows, in order of probability, at which a new bin begins)
    whose probability is not above its own.
    """
    n = len(P)
    classes = [1 if len(p) == 2 else max(range(len(p)), key=p.__getitem__) for p in P]
    stated = [p[k] for p, k in zip(P, classes, strict=True)]
    edges = [sorted(stated)[n * part // bins] for part in range(1, bins)]
    lines = []
    for number in range(bins):
        rows = [i for i in range(n) if sum(e <= stated[i] for e in edges) == number]
        if not rows:
            continue
        size = sum(weights[i] for i in rows)
        of_group: dict[int, float] = {}
        for i in rows:
            of_group[groups[i]] = of_group.get(groups[i], 0.0) + weights[i]
        lines.append(
            {
                "rows": len(rows),
                "stated": sum(weights[i] * stated[i] for i in rows) / size,
                "occurred": sum(weights[i] for i in rows if y[i] == classes[i]) / size,
                "effective": size**2 / sum(w**2 for w in of_group.values()),
            }
        )
    return lines
