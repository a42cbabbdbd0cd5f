"""Compiled: complete rows through whole forests."""

from __future__ import annotations

import numpy as np

from app.acquisition._kernels import _largest
from app.acquisition.nodes import Nodes, PriceArrays
from app.arrays import F64, I32, I64, Bools, Indices
from app.compiled import kernel


@kernel
def _leaf(nodes: Nodes, t: int, x: F64) -> int:
    """The leaf that a complete row x (m,) reaches in tree t."""
    node = nodes.roots[t]
    while nodes.feature[node] >= 0:
        value = x[nodes.feature[node]]
        if np.isnan(value):
            node = nodes.missing[node]
        else:
            node = nodes.left[node] if value <= nodes.threshold[node] else nodes.right[node]
    return int(node)


@kernel
def evaluate(nodes: Nodes, X: F64, P: F64, votes: I64) -> None:
    """Add the leaf distributions of complete rows X (n, m) to P (n, K), and the trees' votes to `votes` (n, K)."""
    for t in range(nodes.roots.shape[0]):
        for i in range(X.shape[0]):
            node = _leaf(nodes, t, X[i])
            for k in range(P.shape[1]):
                P[i, k] += nodes.value[nodes.share[node], k]
            votes[i, nodes.label[nodes.share[node]]] += 1


@kernel
def leaves(nodes: Nodes, X: F64, found: I32) -> None:
    """Write the leaf that each complete row of X (n, m) reaches in each tree to `found` (n, T)."""
    for t in range(nodes.roots.shape[0]):
        for i in range(X.shape[0]):
            found[i, t] = _leaf(nodes, t, X[i])


@kernel
def prefixes(
    nodes: Nodes, X: F64, y: Indices, weight: F64, prices: PriceArrays,
    used: Bools, discount: F64, votes: I32, cost: F64, error: F64,
) -> None:  # fmt: skip
    """Total cost and weighted errors of the forest after each of its trees, on top of the trees already counted.

    `used` (n, m), `discount` (n, groups) and `votes` (n, K) hold the rows' state between calls: features paid for,
    surcharges paid by group, votes. In a group the member with the largest discount counts as the first, the most
    expensive order.
    """
    price, discounted, group = prices
    total = 0.0
    for t in range(nodes.roots.shape[0]):
        wrong = 0.0
        for i in range(X.shape[0]):
            node = nodes.roots[t]
            while nodes.feature[node] >= 0:
                f = nodes.feature[node]
                x = X[i, f]
                if np.isnan(x):
                    node = nodes.missing[node]
                    continue
                if not used[i, f]:
                    used[i, f] = True
                    total += weight[i] * discounted[f]
                    g = group[f]
                    more = price[f] - discounted[f] - (discount[i, g] if g >= 0 else 0.0)
                    if more > 0.0:
                        total += weight[i] * more
                        discount[i, g] += more
                node = nodes.left[node] if x <= nodes.threshold[node] else nodes.right[node]
            votes[i, nodes.label[nodes.share[node]]] += 1
            if _largest(votes[i]) != y[i]:
                wrong += weight[i]
        cost[t] += total
        error[t] = wrong
