"""Slow, obvious twins of payoff.decisions: exact arithmetic, enumeration and loops, straight from the
definitions; and of decisions under limits HiGHS with a variable for each row and action.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, eye, kron, vstack

SLACK = 1e-9  # of a resource


def written_out(matrix, cases):
    """The matrix of each case, a dictionary by column: its cells are numbers, or plus + times * value."""

    def cell(sent, case):
        return (
            sent.get("plus", 0) + sent.get("times", 1) * case[sent["column"]]
            if isinstance(sent, dict)
            else sent
        )

    if isinstance(matrix, dict):
        return [
            {
                k: {a: cell(sent, case) for a, sent in row.items()}
                for k, row in matrix.items()
            }
            for case in cases
        ]
    return [[[cell(sent, case) for sent in row] for row in matrix] for case in cases]


def expected_benefits(
    p: Sequence[Fraction], B: Sequence[Sequence[Fraction]]
) -> list[Fraction]:
    """`sum_i p_i b[i][a]` for every action, without rounding."""
    return [
        sum((p[i] * B[i][a] for i in range(len(B))), Fraction(0))
        for a in range(len(B[0]))
    ]


def best_action(p: Sequence[float | Fraction], B: Sequence[Sequence[float]]) -> int:
    """The first action with the largest expected benefit, numbers taken for exactly what they are."""
    benefits = expected_benefits(
        [Fraction(x) for x in p], [[Fraction(b) for b in row] for row in B]
    )
    return benefits.index(max(benefits))


def upper_bound(priors: Sequence[float], B: Sequence[Sequence[float]]) -> float:
    return float(
        sum(
            Fraction(pi) * max(map(Fraction, row))
            for pi, row in zip(priors, B, strict=True)
        )
    )


def best_decisions(
    scores: Sequence[float],
    y: Sequence[int],
    B: np.ndarray,
    priors: Sequence[float] | None,
) -> tuple[Fraction, list[int]]:
    """What the best of all cuts earns and decides, in exact arithmetic: of equal ones the one with most actions 0."""
    above = int(B[1, 1] - B[1, 0] + B[0, 0] - B[0, 1] >= 0)
    shares = [
        Fraction(y.count(k), len(y)) if priors is None else Fraction(priors[k])
        for k in (0, 1)
    ]
    distinct = sorted(set(scores))
    found = []
    for j in range(len(distinct) + 1):
        before = set(distinct[:j])
        decisions = [1 - above if score in before else above for score in scores]
        each = zip(y, decisions, strict=True)
        earned = sum(
            (shares[k] / y.count(k) * Fraction(B[k, action]) for k, action in each),
            Fraction(0),
        )
        found.append((earned, -sum(decisions), decisions))
    earned, _, decisions = max(found)
    return earned, decisions


def expected_costs(
    P: np.ndarray, majority: int, C_DD: np.ndarray, C_HD: np.ndarray, C_DH: np.ndarray
) -> np.ndarray:
    """The paper's loss of calling every class, by enumerating truth and call; costs (n,), answer (n, classes)."""
    n, K = P.shape
    cost = np.zeros((n, K))
    for call in range(K):
        for truth in range(K):
            if truth == call:
                continue
            price = C_HD if truth == majority else C_DH if call == majority else C_DD
            cost[:, call] += P[:, truth] * price
    return cost


def printed_beta_delta(
    P: np.ndarray, majority: int, C_DD: float, C_HD: float, C_DH: float
) -> np.ndarray:
    """The rule as printed: the largest of `P(D_1)…P(D_K), beta P(H) - delta`."""
    beta = (C_DH + C_HD - C_DD) / C_DD
    delta = (C_DH - C_DD) / C_DD
    scores = P.copy()
    scores[:, majority] = beta * P[:, majority] - delta
    return scores.argmax(axis=1)


def nearest_flip(
    p: np.ndarray, B: np.ndarray, choice: int
) -> tuple[float, np.ndarray | None]:
    """The distance to, and the point of, the simplex nearest to p (K,) where another action earns as much as `choice`.

    Every set of classes with positive probability is tried: nearest to p on `sum q = 1, g q = 0` within it.
    """
    K, best, point = len(p), np.inf, None
    for action in range(B.shape[1]):
        g = B[:, action] - B[:, choice]
        if g.max() <= 0:
            continue
        for bits in range(1, 2**K):
            support = [k for k in range(K) if bits >> k & 1]
            rows = np.vstack([np.ones(len(support)), g[support]])
            q = np.zeros(K)
            q[support] = p[support] - np.linalg.pinv(rows) @ (
                rows @ p[support] - [1.0, 0.0]
            )
            solves = (
                abs(q.sum() - 1) < 1e-9
                and abs(g @ q) < 1e-9 * np.abs(g).max()
                and q.min() > -1e-12
            )
            if solves and np.linalg.norm(q - p) < best:
                best, point = float(np.linalg.norm(q - p)), q
    return best, point


def allowed(counts: np.ndarray, lower, upper, uses, most) -> bool:
    """Whether counts (A,) are within limits."""
    within = (counts >= lower).all() and (counts <= upper).all()
    return bool(within and (uses @ counts <= most + SLACK).all())


def best_total(V: np.ndarray, lower, upper, uses, most) -> float:
    """The largest total benefit of decisions within limits by HiGHS, -inf where there are none; V of magnitude 1."""
    each, sums, resources = _rows(V, uses)
    constraints = [
        LinearConstraint(each, 1, 1),
        LinearConstraint(sums, lower, np.minimum(upper, len(V))),
    ]
    if len(most):
        constraints.append(LinearConstraint(resources, -np.inf, most))
    found = milp(
        -1e3 * V.ravel(),
        integrality=1,
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0},
    )
    return -np.inf if found.x is None else float(np.round(found.x) @ V.ravel())


def relaxed_total(V: np.ndarray, lower, upper, uses, most) -> float:
    """The largest total where a row may be divided between actions."""
    each, sums, resources = _rows(V, uses)
    b_ub = np.concatenate([-lower, np.minimum(upper, len(V)), most])
    result = linprog(
        -V.ravel(),
        vstack([-sums, sums, resources]),
        b_ub,
        each,
        np.ones(len(V)),
        bounds=(0, None),
    )
    return float(-result.fun)


def _rows(V: np.ndarray, uses) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
    n, A = V.shape
    sums = kron(np.ones((1, n)), eye(A)).tocsr()
    return kron(eye(n), np.ones((1, A))).tocsr(), sums, csr_matrix(uses) @ sums


Weighted = Sequence[tuple[float, int]]
"""Values with weights, in any order."""


def quantile(samples: Weighted, level: Fraction) -> float:
    """The smallest value whose weight, with that of all smaller ones, reaches the level."""
    total = sum(weight for _, weight in samples)
    return min(
        v
        for v, _ in samples
        if Fraction(sum(w for x, w in samples if x <= v), total) >= level
    )


def band_shares(samples: Weighted, cuts: Sequence[float]) -> list[float]:
    """The share of the weight below the first cut, from it to below the next, …, from the last on."""
    total, edges = sum(weight for _, weight in samples), [-np.inf, *cuts, np.inf]
    return [
        sum(w for x, w in samples if a <= x < b) / total for a, b in pairwise(edges)
    ]


def quantity_cost(
    samples: Weighted, quantity: float, over: float, under: float
) -> float:
    """The mean of what is too much times `over`, or too little times `under`."""
    lost = sum(
        w * (over * max(quantity - x, 0) + under * max(x - quantity, 0))
        for x, w in samples
    )
    return lost / sum(weight for _, weight in samples)


def dealt_groups(
    y: Sequence[int], groups: Sequence[int], shares: Sequence[Fraction], seed: int
) -> list[int]:
    """The part of each row: groups, the largest first, go where the sum over parts and classes of
    share had^2 / share due becomes least.
    """
    counts = Counter(zip(groups, y, strict=True))
    rows_of_class = Counter(y)

    def size(group: int) -> Fraction:
        parts = [
            Fraction(n, rows_of_class[k]) for (g, k), n in counts.items() if g == group
        ]
        return sum(parts, Fraction(0))

    mixed = np.random.default_rng(seed).permutation(max(groups) + 1).tolist()
    part_of: dict[int, int] = {}

    def imbalance(part_of: dict[int, int]) -> Fraction:
        total = Fraction(0)
        for part, due in enumerate(shares):
            for k, rows in rows_of_class.items():
                had = sum(
                    n
                    for (g, code), n in counts.items()
                    if code == k and part_of.get(g) == part
                )
                total += Fraction(had, rows) ** 2 / due
        return total

    for group in sorted(mixed, key=lambda group: -size(group)):
        part_of[group] = min(
            range(len(shares)), key=lambda part: imbalance(part_of | {group: part})
        )
    return [part_of[group] for group in groups]


def with_every_class_outside(
    y: Sequence[int], fold: Sequence[int], blocks: Sequence[int]
) -> list[int]:
    """The folds, -1 for the first block of each class that is in one fold alone."""
    fold = list(fold)
    for k in sorted(set(y)):
        rows = [i for i, code in enumerate(y) if code == k]
        folds = {fold[i] for i in rows}
        if len(folds) == 1 and folds != {-1}:
            first = min(blocks[i] for i in rows)
            fold = [-1 if b == first else f for f, b in zip(fold, blocks, strict=True)]
    return fold


def block_folds(
    y: Sequence[int], blocks: Sequence[int], folds: int, seed: int, *, ordered: bool
) -> list[int]:
    """Folds of whole groups, or stretches of time, numbered without gaps."""
    if ordered:
        before = [sum(b < block for b in blocks) for block in blocks]
        size = Counter(blocks)
        middles = [
            start + Fraction(size[b], 2)
            for start, b in zip(before, blocks, strict=True)
        ]
        fold = [folds - 1 - int(middle * folds / len(y)) for middle in middles]
    else:
        fold = dealt_groups(y, blocks, [Fraction(1, folds)] * folds, seed)
    fold = with_every_class_outside(y, fold, blocks)
    number = {f: i for i, f in enumerate(sorted(set(fold) - {-1}))}
    return [number.get(f, -1) for f in fold]


def grouped_means(
    values: np.ndarray,
    weights: Sequence[float],
    strata: Sequence[int],
    groups: Sequence[int],
    mass: Sequence[float],
    draws: np.ndarray,
) -> np.ndarray:
    """Means in resamples: in each stratum the mean of its rows, each with its weight times the
    random weight of its group, `draws` (resamples, groups).
    """
    means = []
    for draw in draws:
        total = 0.0
        for stratum in sorted(set(strata)):
            rows = [i for i, code in enumerate(strata) if code == stratum]
            size = sum(weights[i] * draw[groups[i]] for i in rows)
            part = sum(weights[i] * draw[groups[i]] * values[i] for i in rows) / size
            total = total + mass[stratum] * part
        means.append(total / sum(mass))
    return np.array(means)


def most_regretted(p, B, action, step=1e-6):
    """The classes that carry most of what the best other action is expected to earn more; of two classes
    the one with whose log probability that grows, by a small step.
    """
    others = [a for a in range(B.shape[1]) if a != action]
    best = max(others, key=lambda a: p @ B[:, a])
    gains = B[:, best] - B[:, action]
    carried = [p[k] * gains[k] for k in range(len(p))]
    if len(p) == 2:
        grown = [p * np.exp(step * np.eye(2)[k]) for k in range(2)]
        carried = [q / q.sum() @ gains for q in grown]
    slack = 1e-9 * np.abs(B).max()
    return {k for k in range(len(p)) if carried[k] >= max(carried) - slack}
