"""A tree of classifiers, word by word: the training objective, and cases that ask for one feature at a time."""

import math
from typing import Any

import numpy as np


def sigmoid(t):
    return 1 / (1 + math.exp(-t)) if t > -700 else 0.0


def loss(scores, y, kind):
    """Squared, logistic (classes 0 and 1) or softmax loss of one row's scores."""
    if kind == "squared":
        return (scores[0] - y) ** 2
    if kind == "logistic":
        return math.log1p(math.exp(-scores[0] if y == 1 else scores[0]))
    return math.log(sum(math.exp(s) for s in scores)) - scores[y]


def ways_out(alive, k=0, path=()):
    """Every path to an exit, as ((node, goes up), …); a node without children has one."""
    here = (*path, k)
    children = [c for c in (2 * k + 1, 2 * k + 2) if c in alive]
    if not children:
        return [(here, None)]
    found: list[tuple[Any, ...]] = []
    for child, side in ((2 * k + 1, True), (2 * k + 2, False)):
        found += ways_out(alive, child, here) if child in alive else [(here, side)]
    return found


def objective(
    columns, targets, shares, nodes, charges, *, lambda_, rho, kind, route, steepness
):
    """Loss of every node a row may visit, sizes of weights, and the price of every way out, times its probability.

    `nodes`: {number: (weights (T, C), offsets (L,), threshold)}; `charges`: [(price, columns that call for it)].
    """
    total = 0.0
    for weights, _, _ in nodes.values():
        total += rho * sum(abs(w) for w in np.asarray(weights).ravel().tolist())
    for phi, y, share in zip(columns, targets, shares, strict=True):
        scores = {k: [sum(phi[t] * W[t][c] for t in range(len(phi))) for c in range(len(W[0]))]
                  for k, (W, _, _) in nodes.items()}  # fmt: skip
        up = {k: sigmoid(steepness * (scores[k][route] - nodes[k][2])) for k in nodes}

        def reach(k, up=up):
            if k == 0:
                return 1.0
            parent = (k - 1) // 2
            return reach(parent) * (
                up[parent] if k == 2 * parent + 1 else 1 - up[parent]
            )

        for k, (_, offsets, _) in nodes.items():
            predicted = [scores[k][c] + offsets[c] for c in range(len(offsets))]
            total += share * reach(k) * loss(predicted, y, kind)
        for path, side in ways_out(set(nodes)):
            last = path[-1]
            p = reach(last) * (
                1 if side is None else up[last] if side else 1 - up[last]
            )
            for price, members in charges:
                squares = sum(
                    w * w for k in path for t in members for w in nodes[k][0][t]
                )
                total += share * lambda_ * p * price * math.sqrt(squares)
    return total


def stand(tree, prices, known, budget=math.inf):
    """Where one case stands: `known` {column: value} in the order of acquisition; None cannot be had, NaN is no use."""
    acquired = [j for j, x in known.items() if x is not None]
    spent = sum(prices.paid(acquired))
    row = np.full((1, tree.n_features), np.nan)
    for j, x in known.items():
        row[0, j] = math.nan if x is None else x
    Z = tree.scorer.scores(row)[0]
    node, reached, missed = 0, -1, False
    while node >= 0:
        needed = [j for j in range(tree.n_features) if tree.needs[node, j]]
        waiting = [j for j in needed if j not in known]
        if waiting:
            frontier, order = [], list(acquired)
            while waiting:
                best = min(waiting, key=lambda j: (prices.paid([*order, j])[-1], j))
                frontier.append((best, prices.paid([*order, best])[-1]))
                order.append(best)
                waiting.remove(best)
            due = sum(price for _, price in frontier)
            enough = (
                spent + due <= budget + 1e-9 * budget if math.isfinite(budget) else True
            )
            return {"spent": spent, "frontier": frontier, "missed": missed, "resolved": 0, "settled": False,
                    "next": frontier[0][0] if enough else None, "answer": answer(tree, Z, reached)}  # fmt: skip
        missed |= any(known[j] is None for j in needed)
        reached = node
        node = int(
            tree.upper[node] if Z[node] > tree.thresholds[node] else tree.lower[node]
        )
    return {"spent": spent, "frontier": [], "missed": missed, "resolved": 1, "settled": True, "next": None,
            "answer": answer(tree, Z, reached)}  # fmt: skip


def answer(tree, Z, reached):
    L = len(tree.prior)
    return (
        tree.prior
        if reached < 0
        else Z[tree.n_nodes + L * reached : tree.n_nodes + L * (reached + 1)]
    )


QUADRANTS = {
    "task": "regression", "depth": 3, "trade_off": 0.06, "zero_tolerance": 0.05, "rho": 0.0, "standardise": False,
    "feature_costs": [1.0, 1, 10, 10, 10, 10],
}  # fmt: skip
"""The parameters for `quadrants`: the tree has no error at the least possible cost of 12."""


def quadrants(n, seed):
    """The paper's synthetic example: two signs that say which of four dear features is the label."""
    random = np.random.default_rng(seed)
    signs = np.sign(random.uniform(-1, 1, (n, 2)))
    y = signs @ [20.0, 10.0] + random.normal(size=n)
    dear = random.normal(0, 20, (n, 4))
    dear[np.arange(n), (signs[:, 0] < 0) * 2 + (signs[:, 1] < 0)] = y
    return np.column_stack((signs, dear)), y
