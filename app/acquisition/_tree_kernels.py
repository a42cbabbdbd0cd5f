"""Compiled: cases in a tree of classifiers, with the cost of features.

`nodes` is (upper, lower, needs, evaluation): children or -1, needs (N, m), and the cost of evaluating each node.
`up` (n, N): whether a case goes to `upper`; it is valid only if all features that the node needs are known.
"""

from __future__ import annotations

import numpy as np

from app.acquisition._kernels import _price, _spent
from app.acquisition.nodes import PriceArrays
from app.arrays import F64, I32, Bools
from app.compiled import copy, kernel

Nodes = tuple[I32, I32, Bools, F64]


@kernel
def cheapest(needs: Bools, done: Bools, opened: Bools, prices: PriceArrays) -> tuple[int, float]:
    """The cheapest column of `needs` (m,) that is not done, and its price; ties to the first, -1 for none."""
    best, lowest = -1, np.inf
    for j in range(needs.shape[0]):
        if needs[j] and not done[j]:
            price = _price(j, opened, prices)
            if price < lowest:
                best, lowest = j, price
    return best, lowest


@kernel
def bill(needs: Bools, done: Bools, opened: Bools, prices: PriceArrays, order: I32,
         price: F64) -> tuple[int, float]:  # fmt: skip
    """Write the columns of `needs` that are not done, cheapest first, and their prices; return count and sum."""
    known, begun, group = np.empty(done.shape[0], np.bool_), np.empty(opened.shape[0], np.bool_), prices[2]
    copy(done, known)
    copy(opened, begun)
    count, total = 0, 0.0
    while True:
        j, lowest = cheapest(needs, known, begun, prices)
        if j < 0:
            return count, total
        order[count], price[count] = j, lowest
        count += 1
        total += lowest
        known[j] = True
        if group[j] >= 0:
            begun[group[j]] = True


@kernel
def trace(nodes: Nodes, up: Bools, missing: Bools, prices: PriceArrays, limit: float, n_groups: int,
          asked: I32, price: F64, stood: I32, fee: F64, length: I32,
          resolved: Bools) -> None:  # fmt: skip
    """Acquire the features of complete rows one by one; fills the last six arguments.

    In state s: the feature requested and its price, the deepest node evaluated (-1: none) and the cost of evaluating
    nodes so far; the last state, and whether the row leaves the tree there. No feature is requested for a node that
    the budget does not pay for. A missing value costs nothing and changes the prices of the rest of its group.
    """
    upper, lower, needs, evaluation = nodes
    n, m = missing.shape
    order, offered = np.empty(m, dtype=np.int32), np.empty(m)
    for i in range(n):
        done, opened = np.zeros(m, dtype=np.bool_), np.zeros(n_groups, dtype=np.bool_)
        node, spent, s = 0, 0.0, 0
        while node >= 0:
            count, total = bill(needs[node], done, opened, prices, order, offered)
            if spent + total + evaluation[node] > limit:
                break
            surprised = False
            for c in range(count):
                j = order[c]
                done[j] = True
                asked[i, s], price[i, s] = j, offered[c]
                s += 1
                stood[i, s], fee[i, s] = stood[i, s - 1], fee[i, s - 1]
                if missing[i, j]:
                    surprised = True
                    break
                spent += offered[c]
                if prices[2][j] >= 0:
                    opened[prices[2][j]] = True
            if not surprised:
                spent += evaluation[node]
                fee[i, s] += evaluation[node]
                stood[i, s] = node
                node = upper[node] if up[i, node] else lower[node]
        length[i], resolved[i] = s, node < 0


@kernel
def walk(nodes: Nodes, up: Bools, status: I32, prices: PriceArrays, limit: float, n_groups: int,
         spent: F64, reached: I32, resolved: Bools, missed: Bools, wanted: I32,
         total: F64, order: I32, price: F64) -> None:  # fmt: skip
    """The states of cases with status (n, m): 0 unknown, -1 unavailable, r >= 1 acquired as the r-th.

    Fills the cost so far, the deepest node evaluated (-1: none), whether the case has left the tree, whether a feature
    on its path is unavailable, and the columns and prices to request (`wanted` of them; `total` includes the evaluation
    of the waiting node). A node whose features are known also waits if the budget does not pay for its evaluation.
    """
    upper, lower, needs, evaluation = nodes
    n, m = status.shape
    opened, first = np.zeros(n_groups, dtype=np.bool_), np.zeros(n_groups, dtype=np.int64)
    done = np.empty(m, dtype=np.bool_)
    for i in range(n):
        for j in range(m):
            done[j] = status[i, j] != 0
        spent[i] = _spent(status[i], prices, opened, first)
        node, reached[i] = 0, -1
        while node >= 0:
            count, sum_ = bill(needs[node], done, opened, prices, order[i], price[i])
            if count:
                wanted[i], total[i] = count, sum_ + evaluation[node]
                break
            if evaluation[node] > 0 and spent[i] + evaluation[node] > limit:
                break
            for j in range(m):
                missed[i] |= needs[node, j] and status[i, j] < 0
            spent[i] += evaluation[node]
            reached[i] = node
            node = upper[node] if up[i, node] else lower[node]
        resolved[i] = node < 0
