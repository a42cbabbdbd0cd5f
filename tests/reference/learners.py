"""Slow, obvious twins of the learners, of calibration and of the metrics: loops and textbook formulas."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize


def bin_edges(
    column: Iterable[float], weights: Iterable[float], bins: int
) -> list[float]:
    """Midpoints of few values, else the smallest values below which at least i/bins of the weight lies."""
    pairs = sorted(
        (x, w) for x, w in zip(column, weights, strict=True) if not math.isnan(x)
    )
    values = sorted({x for x, _ in pairs})
    if len(values) <= bins:
        return [(low + high) / 2 for low, high in pairwise(values)]
    total, edges = sum(w for _, w in pairs), set()
    for i in range(1, bins):
        reached = 0.0
        for x, w in pairs:
            reached += w
            if reached >= i / bins * total * (1 - 1e-12):
                edges.add(x)
                break
    return sorted(edges - {values[-1]})


def naive_bayes(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    new: np.ndarray,
    categorical: Sequence[int],
    alpha: float,
    bins: int,
) -> np.ndarray:
    """Posteriors (len(new), K), value by value."""
    K, m = int(codes.max()) + 1, X.shape[1]
    edges = {
        j: bin_edges(X[:, j], weights, bins) for j in range(m) if j not in categorical
    }

    def value(x: float, j: int) -> int | None:
        if math.isnan(x):
            return None
        return int(x) if j in categorical else sum(x > edge for edge in edges[j])

    result = []
    for row in new:
        logs = [math.log(weights[codes == k].sum() / weights.sum()) for k in range(K)]
        for j in range(m):
            column = [value(x, j) for x in X[:, j]]
            kinds = {v for v in column if v is not None}
            wanted = value(row[j], j)
            if wanted not in kinds:
                continue
            for k in range(K):
                known = sum(
                    w
                    for v, c, w in zip(column, codes, weights, strict=True)
                    if v is not None and c == k
                )
                same = sum(
                    w
                    for v, c, w in zip(column, codes, weights, strict=True)
                    if v == wanted and c == k
                )
                logs[k] += math.log((same + alpha) / (known + alpha * len(kinds)))
        odds = [math.exp(value - max(logs)) for value in logs]
        result.append([value / sum(odds) for value in odds])
    return np.array(result)


def rest_weights(
    B: Sequence[Sequence[float]], shares: Sequence[float], *, normalised: bool
) -> list[float]:
    """The weight of the rest against every class, term by term."""
    K, etas = len(shares), []
    for k in range(K):
        b00 = b01 = b10 = 0.0
        for i in range(K):
            if i != k:
                share = shares[i] / (1 - shares[k]) if normalised else shares[i]
                b00 += share * B[i][i]
                b01 += share * B[i][k]
                b10 += share * B[k][i]
        etas.append((b00 - b01) / (B[k][k] - b10))
    return etas


def weighted_logistic(
    X: np.ndarray, is_class: np.ndarray, eta: float, C: float
) -> np.ndarray:
    """Coefficients and intercept (m + 1,) that minimise the benefit objective with an L2 penalty of strength C."""
    y = is_class.astype(float)

    def objective(theta: np.ndarray) -> float:
        z = X @ theta[:-1] + theta[-1]
        log_p, log_not_p = -np.logaddexp(0, -z), -np.logaddexp(0, z)
        loss = -(y * log_p + eta * (1 - y) * log_not_p).sum()
        return float(C * loss + theta[:-1] @ theta[:-1] / 2)

    found: np.ndarray = minimize(
        objective, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-8}
    ).x
    return found


def calibration_error(
    said: Sequence[float], happened: Sequence[bool], bins: int = 15
) -> float:
    """Mean distance between probability and frequency in bins of equal width."""
    total = 0.0
    for b in range(bins):
        inside = [
            i
            for i, p in enumerate(said)
            if b / bins <= p < (b + 1) / bins or (b == bins - 1 and p == 1)
        ]
        if inside:
            gap = sum(said[i] for i in inside) / len(inside) - sum(
                happened[i] for i in inside
            ) / len(inside)
            total += abs(gap) * len(inside)
    return total / len(said)


def lenders(
    rows: np.ndarray,
    complete: Sequence[bool],
    categorical: Sequence[int],
    x: Sequence[float],
    gaps: Sequence[bool],
) -> list[int]:
    """The numbers of the background `rows` (B, m), in order, that lend their values to a row x (m,) with gaps."""
    B, m = rows.shape

    def place(value: float, j: int) -> float:
        if math.isnan(value):
            return -1.0
        if j in categorical:
            return value
        known = [v for v in rows[:, j] if not math.isnan(v)]
        below = sum(v < value for v in known) + sum(v <= value for v in known)
        return below / (2 * len(known))

    def distance(row: np.ndarray) -> float:
        total = 0.0
        for j in range(m):
            if not gaps[j]:
                difference = 6 * (place(x[j], j) - place(row[j], j)) ** 2
                limited = j in categorical or not complete[j]
                total += min(difference, 1.0) if limited else difference
        return total

    distances = [distance(row) for row in rows]
    known = m - sum(gaps)
    count = min(B, max(20, int(B ** (4 / (4 + known)))))
    limit = sorted(distances)[count - 1]
    near = [b for b in range(B) if distances[b] <= limit + 1e-9]
    excess = [distances[b] - min(distances) for b in near]
    unit = sum(excess) / count or 1.0
    weights = [math.exp(-e / unit) for e in excess]
    drawn = []
    for step in range(10):
        reached = 0.0
        for b, weight in zip(near, weights, strict=True):
            reached += weight
            if reached >= (step + 0.5) / 10 * sum(weights) * (1 - 1e-9):
                drawn.append(b)
                break
    return drawn


def logistic_with_slopes(columns, y, weights, C, rows):
    """Coefficients and intercept of L2-penalised logistic regression with `rows @ coef >= 0`, by SLSQP."""
    signs = np.where(y, 1.0, -1.0)

    def loss(point):
        margins = signs * (columns @ point[:-1] + point[-1])
        return C * weights @ np.logaddexp(0, -margins) + point[:-1] @ point[:-1] / 2

    limits = {"type": "ineq", "fun": lambda point: rows @ point[:-1]}
    start = np.zeros(columns.shape[1] + 1)
    options = {"maxiter": 1000, "ftol": 1e-14}
    found = minimize(loss, start, constraints=limits, method="SLSQP", options=options)
    return found.x[:-1], found.x[-1]
