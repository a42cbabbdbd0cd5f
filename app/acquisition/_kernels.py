"""Compiled: walks through forests of which some features are known.

A case's features have a status: 0 not known yet, -1 cannot be had, r >= 1 acquired as the r-th and paid for. A value
that is NaN goes the way of missing ones, whatever its status. `nodes` is a forest's `Nodes`, `prices` the arrays
(cost, discounted, group) of `Prices`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from app.acquisition.forest import Nodes

    PriceArrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(cache=True, nogil=True)
def _advance(nodes: Nodes, x: np.ndarray, status: np.ndarray, node: int) -> tuple[int, bool]:
    """Down from `node` to a leaf or to a feature that is not known, and whether a missing value was met."""
    missed = False
    while nodes.feature[node] >= 0 and status[nodes.feature[node]] != 0:
        value = x[nodes.feature[node]]
        if np.isnan(value):
            node = nodes.missing[node]
            missed = True
        else:
            node = nodes.left[node] if value <= nodes.threshold[node] else nodes.right[node]
    return node, missed


@njit(cache=True, nogil=True)
def _settled(nodes: Nodes, at: np.ndarray, sure: np.ndarray, possible: np.ndarray) -> int:
    """The class that wins the full vote whatever is still unknown, or -1.

    A tree surely votes for a class when all leaves below where it stands do; else it may vote for any class that a leaf
    below votes for; `possible` (K,) counts the sure votes, too. With more than 64
    classes, every class is taken to be possible.
    """
    K = sure.shape[0]
    sure[:] = 0
    possible[:] = 0
    for t in range(at.shape[0]):
        if nodes.feature[at[t]] < 0:
            sure[nodes.label[nodes.share[at[t]]]] += 1
            possible[nodes.label[nodes.share[at[t]]]] += 1
            continue
        reach = nodes.reach[at[t]]
        only, found = 0, 0
        for k in range(K):
            if (reach >> np.uint64(k & 63)) & np.uint64(1):
                possible[k] += 1
                only = k
                found += 1
        if found == 1:
            sure[only] += 1
    leader = sure.argmax()
    for k in range(K):
        if k != leader and (possible[k] > sure[leader] or (possible[k] == sure[leader] and k < leader)):
            return -1
    return int(leader)


@njit(cache=True, nogil=True)
def _conclude(nodes: Nodes, at: np.ndarray, leader: int, votes: np.ndarray, P: np.ndarray) -> int:
    """Distributions and votes of the nodes where the trees stand into P and `votes` (K,); the class they choose."""
    votes[:] = 0
    P[:] = 0.0
    for t in range(at.shape[0]):
        for k in range(P.shape[0]):
            P[k] += nodes.value[nodes.share[at[t]], k]
        votes[nodes.label[nodes.share[at[t]]]] += 1
    if at.shape[0] == 0:
        P[:] = nodes.prior
        return int(P.argmax())
    P /= P.sum()
    return int(votes.argmax()) if leader < 0 else leader


@njit(cache=True, nogil=True)
def _price(j: int, opened: np.ndarray, prices: PriceArrays) -> float:
    price, discounted, group = prices
    paid: float = discounted[j] if group[j] >= 0 and opened[group[j]] else price[j]
    return paid


@njit(cache=True, nogil=True)
def _choose(waiting: np.ndarray, opened: np.ndarray, prices: PriceArrays, limit: float) -> int:
    """The feature of price <= `limit` that most trees wait for per price, or -1.

    A free feature comes before any other; equal ratios go to the lower price, then to more trees, then to the earlier
    feature.
    """
    best, best_ratio, best_price = -1, -1.0, 0.0
    for j in range(waiting.shape[0]):
        if waiting[j] == 0:
            continue
        p = _price(j, opened, prices)
        if p > limit:
            continue
        ratio = waiting[j] / p if p > 0.0 else np.inf
        if ratio < best_ratio:
            continue
        tie = ratio == best_ratio
        if tie and (p > best_price or (p == best_price and waiting[j] <= waiting[best])):
            continue
        best, best_ratio, best_price = j, ratio, p
    return best


@njit(cache=True, nogil=True)
def _rank(waiting: np.ndarray, price: np.ndarray, order: np.ndarray) -> int:
    """The features waited for, in the order of `_choose`, into `order`; how many there are."""
    found = 0
    for j in range(waiting.shape[0]):
        if waiting[j] == 0:
            continue
        ratio = waiting[j] / price[j] if price[j] > 0.0 else np.inf
        place = found
        while place > 0:
            other = order[place - 1]
            other_ratio = waiting[other] / price[other] if price[other] > 0.0 else np.inf
            if ratio < other_ratio:
                break
            if ratio == other_ratio and (
                price[j] > price[other] or (price[j] == price[other] and waiting[j] <= waiting[other])
            ):
                break
            order[place] = other
            place -= 1
        order[place] = j
        found += 1
    return found


@njit(cache=True, nogil=True)
def _spent(status: np.ndarray, prices: PriceArrays, opened: np.ndarray, first: np.ndarray) -> float:
    """What the acquired features of a case cost in the order of their status; marks the groups that are open."""
    price, discounted, group = prices
    first[:] = -1
    for j in range(status.shape[0]):
        g = group[j]
        if g >= 0 and status[j] > 0 and (first[g] < 0 or status[j] < status[first[g]]):
            first[g] = j
    spent = 0.0
    for j in range(status.shape[0]):
        if status[j] > 0:
            spent += price[j] if group[j] < 0 or first[group[j]] == j else discounted[j]
    for g in range(first.shape[0]):
        opened[g] = first[g] >= 0
    return spent


@njit(cache=True, nogil=True)
def states(
    nodes: Nodes, X: np.ndarray, status: np.ndarray, prices: PriceArrays, budget: float, slack: float, n_groups: int,
    waiting: np.ndarray, price: np.ndarray, order: np.ndarray, spent: np.ndarray, votes: np.ndarray,
    P: np.ndarray, counts: np.ndarray, outcome: np.ndarray,
) -> None:  # fmt: skip
    """Where every case stands; fills the last eight arguments, one row per case.

    `waiting`, `price` (n, m); `order` (n, m) the features waited for, best first; `votes`, `P` (n, K); `counts` (n, 3)
    trees resolved, trees that met a missing value, features waited for; `outcome` (n, 3) the settled class or -1, the
    prediction, the feature to ask for or -1.
    """
    T, K = nodes.roots.shape[0], P.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, standing = np.zeros(K, np.int64), np.zeros(K, np.int64), np.zeros(K, np.int64)
    opened, first = np.zeros(n_groups, np.bool_), np.zeros(n_groups, np.int64)
    for i in range(X.shape[0]):
        spent[i] = _spent(status[i], prices, opened, first)
        for t in range(T):
            at[t], missed = _advance(nodes, X[i], status[i], nodes.roots[t])
            counts[i, 1] += missed
            f = nodes.feature[at[t]]
            if f >= 0:
                waiting[i, f] += 1
            else:
                counts[i, 0] += 1
                votes[i, nodes.label[nodes.share[at[t]]]] += 1
        leader = _settled(nodes, at, sure, possible)
        outcome[i, 0] = leader
        outcome[i, 1] = _conclude(nodes, at, leader, standing, P[i])
        for j in range(X.shape[1]):
            price[i, j] = _price(j, opened, prices)
        counts[i, 2] = _rank(waiting[i], price[i], order[i])
        outcome[i, 2] = _choose(waiting[i], opened, prices, budget - spent[i] + slack)


@njit(cache=True, nogil=True)
def _begin(nodes: Nodes, at: np.ndarray, waiting: np.ndarray) -> None:
    """Every tree at its root, waiting for the root's feature."""
    waiting[:] = 0
    for t in range(at.shape[0]):
        at[t] = nodes.roots[t]
        if nodes.feature[at[t]] >= 0:
            waiting[nodes.feature[at[t]]] += 1


@njit(cache=True, nogil=True)
def _reveal(nodes: Nodes, x: np.ndarray, j: int, status: np.ndarray, at: np.ndarray, waiting: np.ndarray) -> None:
    """Move the trees that wait for feature j, which is known now, as far as they get."""
    waiting[j] = 0
    for t in range(at.shape[0]):
        if nodes.feature[at[t]] == j:
            at[t], _ = _advance(nodes, x, status, at[t])
            if nodes.feature[at[t]] >= 0:
                waiting[nodes.feature[at[t]]] += 1


@njit(cache=True, nogil=True)
def simulate(
    nodes: Nodes, X: np.ndarray, prices: PriceArrays, budget: float, slack: float, n_groups: int, settle: bool,
    cost: np.ndarray, questions: np.ndarray, predicted: np.ndarray, P: np.ndarray, resolved: np.ndarray,
) -> None:  # fmt: skip
    """Feed complete rows X (n, m) feature by feature as asked, from nothing known; fills the last five arguments.

    `settle` stops where the vote cannot change any more. A value that is missing is asked for, and costs nothing.
    """
    T, K, m = nodes.roots.shape[0], P.shape[1], X.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, votes = np.zeros(K, np.int64), np.zeros(K, np.int64), np.zeros(K, np.int64)
    status, waiting, opened = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(n_groups, np.bool_)
    for i in range(X.shape[0]):
        status[:] = 0
        opened[:] = False
        _begin(nodes, at, waiting)
        while True:
            leader = _settled(nodes, at, sure, possible)
            if settle and leader >= 0:
                break
            j = _choose(waiting, opened, prices, budget - cost[i] + slack)
            if j < 0:
                break
            questions[i] += 1
            status[j] = questions[i]
            if not np.isnan(X[i, j]):
                cost[i] += _price(j, opened, prices)
                if prices[2][j] >= 0:
                    opened[prices[2][j]] = True
            _reveal(nodes, X[i], j, status, at, waiting)
        predicted[i] = _conclude(nodes, at, leader, votes, P[i])
        for t in range(T):
            resolved[i] += nodes.feature[at[t]] < 0
