"""The backward pass over experience in plain loops."""

from typing import Any

import numpy as np


def line(points):
    """Least squares with the slope shrunk by one part in a hundred, kept in [0, 1]; and the range of x."""
    x, y = np.array(points, dtype=float).T
    spread = np.mean((x - x.mean()) ** 2)
    slope = 0.0 if spread <= 1e-12 * np.mean(x * x) else np.mean((x - x.mean()) * (y - y.mean())) / spread / 1.01
    slope = min(max(slope, 0.0), 1.0)
    return y.mean() - slope * x.mean(), slope, x.min(), x.max()


def gain(fitted, stake):
    """The estimate at one stake: never negative, within the fitted range, and at most the stake."""
    offset, slope, low, high = fitted
    return min(max(offset + slope * min(max(stake, low), high), 0.0), stake)


def lines(seen, m, spare):
    """The line of each feature: its own with ten points, else that of all; `spare` where all are fewer than ten."""
    everything = [point for points in seen for point in points]
    if len(everything) < 10:
        stake, total = (sum(column) for column in zip(*everything, strict=True)) if everything else (0, 0)
        return spare or [(0.0, min(max(total / stake, 0), 1) if stake else 0, 0.0, np.inf)] * m
    pooled = line(everything)
    return [line(points) if len(points) >= 10 else pooled for points in seen[:m]]


def twin(known, B, prices, budget):
    """Offset, slope, lowest and highest stake for each feature."""
    free = passes(known, B, prices, np.inf, None)
    return np.array(passes(known, B, prices, budget, free) if np.isfinite(budget) else free).T


def passes(known, B, prices, budget, spare):
    m = known.n_features
    seen: list[list[tuple[float, float]]] = [[] for _ in range(m)]
    P = known.P.astype(float)
    paths: list[list[Any]] = []
    for i in range(len(known)):
        opened: set[int] = set()
        spent = 0.0
        path: list[Any] = []
        for s in range(known.length[i]):
            j = int(known.asked[i, s])
            group = int(prices.group[j])
            price = float(prices.discounted[j] if group in opened else prices.cost[j])
            paid = 0.0 if known.missing[i, s] else price
            if spent + price > budget:
                path.append(None)
                continue
            if group >= 0 and not known.missing[i, s]:
                opened.add(group)
            spent += paid
            path.append((j, price, paid))
        paths.append(path)
    now, stake = np.zeros(P.shape[:2]), np.zeros(P.shape[:2])
    for i in range(len(known)):
        for s in range(P.shape[1]):
            expected = P[i, s] @ B
            now[i, s] = B[known.y[i], expected.argmax()]
            stake[i, s] = P[i, s] @ B.max(axis=1) - expected.max()
    ahead = np.zeros(len(known))
    for s in range(known.asked.shape[1] - 1, -1, -1):
        on = [i for i, path in enumerate(paths) if len(path) > s and path[s] is not None]
        gained = {i: now[i, s + 1] + ahead[i] - now[i, s] for i in on}
        for i in on:
            seen[paths[i][s][0]].append((stake[i, s], gained[i]))
        for i in on:
            j, price, paid = paths[i][s]
            fitted = lines(seen, m, spare)[j]
            expected = gain(fitted, stake[i, s]) if stake[i, s] > 1e-12 * np.ptp(B) else 0.0
            ahead[i] = 0.0 if price > 0 and expected <= price else gained[i] - paid
    return lines(seen, m, spare)
