"""Slow, obvious twins of decisions under limits: enumeration, and HiGHS with a variable for each row and action."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp
from scipy.sparse import csr_matrix, eye, kron, vstack

SLACK = 1e-9  # of a resource


def allowed(counts: np.ndarray, lower, upper, uses, most) -> bool:
    """Whether counts (A,) are within limits."""
    within = (counts >= lower).all() and (counts <= upper).all()
    return bool(within and (uses @ counts <= most + SLACK).all())


def best_total(V: np.ndarray, lower, upper, uses, most) -> float:
    """The largest total benefit of all decisions within limits, -inf where there are none: V (n, A)."""
    n, A = V.shape
    best = -np.inf
    for counts in itertools.product(range(n + 1), repeat=A):
        if sum(counts) == n and allowed(np.array(counts), lower, upper, uses, most):
            best = max(best, _best_with(V, counts))
    return best


def _best_with(V: np.ndarray, counts: tuple[int, ...]) -> float:
    """The largest total with exactly these counts: by row, over the counts that are left."""
    totals = {counts: 0.0}
    for row in V:
        following: dict[tuple[int, ...], float] = {}
        for left, total in totals.items():
            for a, benefit in enumerate(row):
                if left[a]:
                    rest = (*left[:a], left[a] - 1, *left[a + 1 :])
                    following[rest] = max(following.get(rest, -np.inf), total + benefit)
        totals = following
    return max(totals.values())


def solved(V: np.ndarray, lower, upper, uses, most) -> OptimizeResult:
    """HiGHS on the whole integer program; benefits of magnitude 1."""
    each, sums, resources = _rows(V, uses)
    constraints = [LinearConstraint(each, 1, 1), LinearConstraint(sums, lower, np.minimum(upper, len(V)))]
    if len(most):
        constraints.append(LinearConstraint(resources, -np.inf, most))
    return milp(
        -1e3 * V.ravel(), integrality=1, bounds=Bounds(0, 1), constraints=constraints, options={"mip_rel_gap": 0}
    )


def relaxed_total(V: np.ndarray, lower, upper, uses, most) -> float:
    """The largest total where a row may be divided between actions."""
    each, sums, resources = _rows(V, uses)
    b_ub = np.concatenate([-lower, np.minimum(upper, len(V)), most])
    result = linprog(-V.ravel(), vstack([-sums, sums, resources]), b_ub, each, np.ones(len(V)), bounds=(0, None))
    return float(-result.fun)


def _rows(V: np.ndarray, uses) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
    n, A = V.shape
    sums = kron(np.ones((1, n)), eye(A)).tocsr()
    return kron(eye(n), np.ones((1, A))).tocsr(), sums, csr_matrix(uses) @ sums
