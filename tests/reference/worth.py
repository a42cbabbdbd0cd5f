"""The backward passes over experience in plain loops: of forests a line for each feature, of chains a curve."""

from collections import defaultdict

import numpy as np


def paths(known, prices, budget, *, stops):
    """Of each row, state by state: what it is asked, for how much, and what it pays; None where that is too dear.

    What is too dear is left out, or ends the path if `stops`.
    """
    found = []
    for i in range(len(known.asked)):
        path, opened, spent, going = [], set(), 0.0, True
        for s, j in enumerate(known.asked[i].tolist()):
            group, missing = int(prices.group[j]), known.missing[i, s]
            price = float(prices.discounted[j] if group in opened else prices.cost[j])
            affordable = (
                going
                and j >= 0
                and spent + price <= budget + 1e-9 * (0 if np.isinf(budget) else budget)
            )
            path.append((j, price, 0.0 if missing else price) if affordable else None)
            going = affordable or not stops
            if affordable and not missing:
                spent += price
                opened |= {group} - {-1}
        found.append(path)
    return found


def passes(known, B, prices, budget, estimate, *, stops=False):
    """Points (stake, gain) of each feature; `estimate` makes of those met so far a function of feature and stake."""
    n, S = known.asked.shape
    P, seen = known.P.astype(float), defaultdict(list)
    each, expected = paths(known, prices, budget, stops=stops), P @ B
    now = B[known.y[:, None], expected.argmax(axis=2)]
    stake = P @ B.max(axis=1) - expected.max(axis=2)
    ahead = np.zeros(n)
    for s in range(S - 1, -1, -1):
        on = [i for i in range(n) if each[i][s] is not None]
        gained = {i: now[i, s + 1] + ahead[i] - now[i, s] for i in on}
        for i in on:
            seen[each[i][s][0]].append((stake[i, s], gained[i]))
        of = estimate(seen)
        for i in on:
            j, price, paid = each[i][s]
            ahead[i] = (
                gained[i] - paid if price == 0 or of(j, stake[i, s]) > price else 0.0
            )
    return seen


def line(points):
    """Least squares with the slope shrunk by one part in a hundred, kept in [0, 1]; and the range of x."""
    x, y = np.array(points, dtype=float).T
    spread = np.mean((x - x.mean()) ** 2)
    slope = (
        0.0
        if spread <= 1e-12 * np.mean(x * x)
        else np.mean((x - x.mean()) * (y - y.mean())) / spread / 1.01
    )
    slope = min(max(slope, 0.0), 1.0)
    return y.mean() - slope * x.mean(), slope, x.min(), x.max()


def lines(seen, m, spare):
    """The line of each feature: its own with ten points, else that of all; `spare` where all are fewer than ten."""
    everything = [point for points in seen.values() for point in points]
    if len(everything) < 10:
        stake, total = (
            (sum(column) for column in zip(*everything, strict=True))
            if everything
            else (0, 0)
        )
        return (
            spare
            or [(0.0, min(max(total / stake, 0), 1) if stake else 0, 0.0, np.inf)] * m
        )
    pooled = line(everything)
    return [line(seen[j]) if len(seen[j]) >= 10 else pooled for j in range(m)]


def gain(fitted, stake):
    """The estimate at one stake: never negative, within the fitted range, and at most the stake."""
    offset, slope, low, high = fitted
    return min(max(offset + slope * min(max(stake, low), high), 0.0), stake)


def lines_of_forests(known, B, prices, budget):
    """Offset, slope, lowest and highest stake for each feature; what is known without a budget is spare."""
    spare, nothing = None, 1e-12 * np.ptp(B)
    for limit in sorted({np.inf, budget}, reverse=True):

        def estimate(seen, spare=spare):
            fitted = lines(seen, known.n_features, spare)
            return lambda j, stake: gain(fitted[j], stake) if stake > nothing else 0.0

        spare = lines(
            passes(known, B, prices, limit, estimate), known.n_features, spare
        )
    return np.array(spare)


def curve(points):
    """The gain by powers 0 to 2 of a stake within those seen; of fewer than ten rows, or equal stakes, the mean."""
    z, gains = np.array(points).T
    c = np.array([gains.mean(), 0.0, 0.0])
    if len(z) >= 10 and np.ptp(z) > 1e-9 * z.max():
        c = np.linalg.lstsq(np.column_stack((np.ones(len(z)), z, z * z)), gains)[0]
    return lambda stake: min(
        max(c @ np.clip(stake, z.min(), z.max()) ** np.arange(3), 0.0), stake
    )


def curves(seen):
    fitted = {j: curve(points) for j, points in seen.items()}
    return lambda j, stake: fitted[j](stake)


def curves_of_chains(known, B, prices, budget):
    """The estimated gain at a stake, for each column that rows get to."""
    return {
        j: curve(points)
        for j, points in passes(known, B, prices, budget, curves, stops=True).items()
    }
