"""Compiled: cases through a tree of classifiers, paying for features. `prices` is (cost, discounted, group).

`nodes` is (upper, lower, needs, evaluation): children or -1, needs (N, m), and what a node's own evaluation costs.
`up` (n, N) says which way each case would go at each node; it counts only where all that the node needs is known.
"""

from __future__ import annotations

import numpy as np
from numba import njit

Nodes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
PriceArrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(cache=True, nogil=True)
def cheapest(needs: np.ndarray, done: np.ndarray, opened: np.ndarray, prices: PriceArrays) -> tuple[int, float]:
    """Of what is needed (m,) and not done, the column with the lowest price now, ties to the first; -1 for none."""
    cost, discounted, group = prices
    best, lowest = -1, np.inf
    for j in range(needs.shape[0]):
        if needs[j] and not done[j]:
            price = discounted[j] if group[j] >= 0 and opened[group[j]] else cost[j]
            if price < lowest:
                best, lowest = j, price
    return best, lowest


@njit(cache=True, nogil=True)
def bill(needs: np.ndarray, done: np.ndarray, opened: np.ndarray, prices: PriceArrays, order: np.ndarray,
         price: np.ndarray) -> tuple[int, float]:  # fmt: skip
    """What is needed and not done, in the order of asking: columns, their prices; how many, and the sum."""
    done, opened = done.copy(), opened.copy()
    group = prices[2]
    count, total = 0, 0.0
    while True:
        j, lowest = cheapest(needs, done, opened, prices)
        if j < 0:
            return count, total
        order[count], price[count] = j, lowest
        count += 1
        total += lowest
        done[j] = True
        if group[j] >= 0:
            opened[group[j]] = True


@njit(cache=True, nogil=True)
def trace(nodes: Nodes, up: np.ndarray, missing: np.ndarray, prices: PriceArrays, limit: float, n_groups: int,
          asked: np.ndarray, price: np.ndarray, stood: np.ndarray, fee: np.ndarray, length: np.ndarray,
          resolved: np.ndarray) -> None:  # fmt: skip
    """Complete rows, fed as they ask: in state s what is asked for at which price, the deepest node answered (-1: none)
    and what evaluating nodes has cost; the last state, and whether the row is out of the tree there.

    Nothing is asked for at a node that could not be paid for; a missing value is found so, costs nothing, and changes
    what the rest of its group costs.
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


@njit(cache=True, nogil=True)
def paid(status: np.ndarray, opened: np.ndarray, prices: PriceArrays) -> float:
    """What the acquired features of a case have cost, by status (m,) as in `walk`; marks the groups they open."""
    cost, discounted, group = prices
    m = len(status)
    spent = 0.0
    for j in range(m):
        if status[j] >= 1:
            first = True
            for other in range(m):
                if (
                    group[j] >= 0
                    and group[other] == group[j]
                    and status[other] >= 1
                    and (status[other] < status[j] or (status[other] == status[j] and other < j))
                ):
                    first = False
            spent += cost[j] if first else discounted[j]
            if group[j] >= 0:
                opened[group[j]] = True
    return spent


@njit(cache=True, nogil=True)
def walk(nodes: Nodes, up: np.ndarray, status: np.ndarray, prices: PriceArrays, limit: float, n_groups: int,
         spent: np.ndarray, reached: np.ndarray, resolved: np.ndarray, missed: np.ndarray, wanted: np.ndarray,
         total: np.ndarray, order: np.ndarray, price: np.ndarray) -> None:  # fmt: skip
    """Where cases stand by what is known: status (n, m) 0 unknown, -1 cannot be had, r >= 1 acquired as the r-th.

    Fills what is spent, the deepest node answered (-1: none), whether the case is out of the tree, whether something
    could not be had on the way, and the columns and prices asked for (`wanted` of them, `total` with the evaluation of
    the node that waits). A node whose features are known waits, too, where its evaluation could not be paid for.
    """
    upper, lower, needs, evaluation = nodes
    n, m = status.shape
    for i in range(n):
        opened = np.zeros(n_groups, dtype=np.bool_)
        spent[i] = paid(status[i], opened, prices)
        node, reached[i] = 0, -1
        while node >= 0:
            count, sum_ = bill(needs[node], status[i] != 0, opened, prices, order[i], price[i])
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
