"""Speed of decisions under limits: .venv/bin/python benchmarks/limits.py

Prints, as medians of three runs on one thread: seconds, the total without limits and within them, and the gap.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time

import numpy as np

import app.decisions.resources  # noqa: F401 - imported beforehand, so that its import is not measured
from app.decisions.benefit import decide
from app.decisions.limits import Limits, conflict, decide_within
from app.kernels import CALLS

RUNS = 3


def five(counts: np.ndarray, n_resources: int = 0) -> Limits:
    """Limits for five actions: three upper ones and two lower ones, all of which bind."""
    limits = Limits.none(5, n_resources)
    limits.upper[:3] = counts[:3] // 2
    limits.lower[3:] = counts[3:] + counts[:3].sum() // 8
    return limits


def one(counts: np.ndarray) -> Limits:
    limits = Limits.none(len(counts))
    limits.upper[1] = counts[1] // 4
    return limits


def three_and_resources(counts: np.ndarray) -> Limits:
    limits = Limits.none(5, 2)
    limits.upper[1:3] = counts[1:3] // 2
    limits.lower[3] = counts[3] // 2
    limits.uses[:] = [[0, 3, 1, 0, 2], [0, 0, 1, 2.5, 1]]
    limits.most[:] = limits.uses @ counts * [0.8, 0.75]
    return limits


def measure(what: str, n: int, n_actions: int, limits_of) -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(n_actions), n)
    B = 10 * np.eye(n_actions) + rng.normal(size=(n_actions, n_actions))
    decision = decide(P, B)
    limits = limits_of(np.bincount(decision.choice, minlength=n_actions))
    assert not conflict(n, limits, [("upper", 1)]), what
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        found = decide_within(P, B, decision.choice, limits)
        seconds.append(time.perf_counter() - start)
    V, rows = decision.expected_benefits, np.arange(n)
    totals = V[rows, decision.choice].sum(), V[rows, found.choice].sum()
    print(f"{what:38} {statistics.median(seconds):5.2f} s  {totals[0]:11.1f} -> {totals[1]:11.1f}  gap {found.gap:.1e}")


if __name__ == "__main__":
    for call in CALLS.values():
        call()
    measure("1e6 x 2, one limit", 10**6, 2, one)
    measure("1e5 x 5, five limits", 10**5, 5, five)
    measure("1e5 x 5, three limits, two resources", 10**5, 5, three_and_resources)
