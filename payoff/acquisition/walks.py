"""Walks of trees with cases that are known in part: the votes, whether they are settled, and the
next feature.

The status of a feature is 0 (unknown), -1 (unavailable) or r >= 1 (acquired as the r-th, and paid
for). NaN takes a node's branch for missing values, whatever its status.
"""

from typing import Any

import numpy as np

from payoff.acquisition.nodes import Nodes, PriceArrays, child, tested
from payoff.arrays import F32, F64, I32, I64, Bools, Ints
from payoff.compiled import copy, kernel


@kernel
def _advance(nodes: Nodes, x: F32, status: Ints, node: int) -> tuple[int, bool]:
    """The leaf or node of an unknown feature below `node`; and whether a missing value was met."""
    j, missed = tested(nodes, node), False
    while j >= 0 and status[j] != 0:
        missed |= np.isnan(x[j])
        node = child(nodes, node, x[j])
        j = tested(nodes, node)
    return node, missed


@kernel
def _walk(
    nodes: Nodes, x: F32, status: Ints, at: I64, waiting: Ints
) -> tuple[int, int]:
    """Advance every tree from its node `at` (T,), and count the trees that wait in `waiting` (m,).

    Returns how many trees have reached a leaf, and how many met a missing value on the way.
    """
    waiting[:] = 0
    resolved = missed = 0
    for t in range(at.shape[0]):
        at[t], has_missed = _advance(nodes, x, status, at[t])
        missed += has_missed
        f = tested(nodes, at[t])
        if f >= 0:
            waiting[f] += 1
        else:
            resolved += 1
    return resolved, missed


@kernel
def largest(values: Any) -> int:
    """The place of the largest number, the first of equal ones."""
    best = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[best]:
            best = k
    return best


@kernel
def _settled(nodes: Nodes, at: I64, sure: I64, possible: I64) -> int:
    """The class that wins the full vote whatever the unknown values are, or -1.

    A tree's vote is sure if all leaves below its node `at` vote alike; else it is possible for each
    class that a leaf below votes for. `possible` (K,) includes the sure votes. With more than 64
    classes every class counts as possible.
    """
    K = sure.shape[0]
    sure[:] = 0
    possible[:] = 0
    for t in range(at.shape[0]):
        if nodes.right[at[t]] < 0:
            sure[nodes.label[nodes.share[at[t]]]] += 1
            possible[nodes.label[nodes.share[at[t]]]] += 1
            continue
        reach = nodes.reach[at[t]]
        candidate, n_candidates = 0, 0
        for k in range(K):
            if (reach >> np.uint64(k & 63)) & np.uint64(1):
                possible[k] += 1
                candidate = k
                n_candidates += 1
        if n_candidates == 1:
            sure[candidate] += 1
    leader = largest(sure)
    for k in range(K):
        ahead = possible[k] > sure[leader] or (
            possible[k] == sure[leader] and k < leader
        )
        if k != leader and ahead:
            return -1
    return leader


@kernel
def _conclude(nodes: Nodes, at: I64, leader: int, votes: I64, P: F64) -> int:
    """Write mean distribution P (K,) and `votes` (K,) of the trees' nodes; return the class."""
    votes[:] = 0
    P[:] = 0.0
    for t in range(at.shape[0]):
        for k in range(P.shape[0]):
            P[k] += nodes.value[nodes.share[at[t]], k]
        votes[nodes.label[nodes.share[at[t]]]] += 1
    if at.shape[0] == 0:
        copy(nodes.prior, P)
        return largest(P)
    total = 0.0
    for k in range(P.shape[0]):
        total += P[k]
    for k in range(P.shape[0]):
        P[k] /= total
    return largest(votes) if leader < 0 else leader


@kernel
def price_of(j: int, opened: Bools, prices: PriceArrays) -> float:
    """The present price of feature j, where `opened` marks the groups with an acquired feature."""
    price, discounted, group = prices
    return discounted[j] if group[j] >= 0 and opened[group[j]] else price[j]


@kernel
def _sooner(trees: int, price: float, other_trees: int, other_price: float) -> bool:
    """Whether a feature that so many trees wait for is requested before another one.

    Free ones come first, then more trees per price, then the lower price, then more trees.
    """
    ratio = trees / price if price > 0.0 else np.inf
    other_ratio = other_trees / other_price if other_price > 0.0 else np.inf
    if ratio != other_ratio:
        return ratio > other_ratio
    return price < other_price if price != other_price else trees > other_trees


@kernel
def _choose(waiting: Ints, price: F64, limit: float) -> int:
    """The feature of price <= `limit` to request, of equal ones the earlier; -1 for none."""
    best = -1
    for j in range(waiting.shape[0]):
        allowed = waiting[j] > 0 and price[j] <= limit
        if allowed and (
            best < 0 or _sooner(waiting[j], price[j], waiting[best], price[best])
        ):
            best = j
    return best


@kernel
def _rank(waiting: Ints, price: F64, order: I32) -> int:
    """Write the features that trees wait for to `order`, the first to acquire first; count them."""
    count = 0
    for j in range(waiting.shape[0]):
        if waiting[j] > 0:
            place = count
            while place > 0:
                before = order[place - 1]
                if not _sooner(waiting[j], price[j], waiting[before], price[before]):
                    break
                order[place] = before
                place -= 1
            order[place] = j
            count += 1
    return count


@kernel
def spent_on(status: Ints, prices: PriceArrays, opened: Bools, first: I64) -> float:
    """The cost of the features acquired, in the order of their status; sets `opened` by group."""
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


@kernel
def spending(
    status: I32, prices: PriceArrays, n_groups: int, spent: F64, price: F64
) -> None:
    """Write the cost of each case so far to `spent` (n,), the present prices to `price` (n, m)."""
    opened, first = np.zeros(n_groups, np.bool_), np.zeros(n_groups, np.int64)
    for i in range(status.shape[0]):
        spent[i] = spent_on(status[i], prices, opened, first)
        for j in range(status.shape[1]):
            price[i, j] = price_of(j, opened, prices)


@kernel
def states(
    nodes: Nodes, X: F32, status: I32, price: F64, funds: F64,
    waiting: Ints, order: I32, P: F64, counts: I32, outcome: I32,
) -> None:  # fmt: skip
    """The state of every case, with `funds` (n,) to spend at the `price` (n, m) of each feature.

    Fills the last five arguments, one row per case.

    `waiting` (n, m); `order` (n, m) the features that trees wait for, best first; `P` (n, K);
    `counts` (n, 3) resolved trees, trees that met a missing value, features in `order`; `outcome`
    (n, 3) the settled class or -1, the prediction, the feature to acquire next or -1.
    """
    T, K = nodes.roots.shape[0], P.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, standing = (
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
    )
    for i in range(X.shape[0]):
        copy(nodes.roots, at)
        counts[i, 0], counts[i, 1] = _walk(nodes, X[i], status[i], at, waiting[i])
        leader = _settled(nodes, at, sure, possible)
        outcome[i, 0] = leader
        outcome[i, 1] = _conclude(nodes, at, leader, standing, P[i])
        counts[i, 2] = _rank(waiting[i], price[i], order[i])
        outcome[i, 2] = _choose(waiting[i], price[i], funds[i])


@kernel
def trace(
    nodes: Nodes, X: F32, free: Bools, prices: PriceArrays, limit: float,
    features: I32, price: F64, P: F64, vote: I32, length: I32, settled: I32,
    resolved: Bools,
) -> None:  # fmt: skip
    """Acquire the features of complete rows X (n, m) one by one and record every state.

    `free` (n, m) marks features that are unavailable and cost nothing. Fills the last arguments:
    `features`, `price` (n, S): the feature requested in state s, and its price there; `P`
    (n, S + 1, K) and `vote` (n, S + 1): the answer in state s; `length` (n,): the number of
    requests until no feature is affordable; `settled` (n,): the number until the vote is settled,
    or
    -1; `resolved` (n,): whether all trees reach a leaf.
    """
    T, K, m = nodes.roots.shape[0], P.shape[2], X.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, votes = (
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
    )
    status, waiting, offered = np.zeros(m, np.int64), np.zeros(m, np.int64), np.empty(m)
    full, discounted, group = prices
    for i in range(X.shape[0]):
        status[:] = 0
        copy(full, offered)
        copy(nodes.roots, at)
        spent, s = 0.0, 0
        settled[i] = -1
        while True:
            in_leaves, _ = _walk(nodes, X[i], status, at, waiting)
            leader = _settled(nodes, at, sure, possible)
            if leader >= 0 and settled[i] < 0:
                settled[i] = s
            vote[i, s] = _conclude(nodes, at, leader, votes, P[i, s])
            j = _choose(waiting, offered, limit - spent)
            if j < 0:
                break
            features[i, s], price[i, s] = j, offered[j]
            if not free[i, j]:
                spent += price[i, s]
                for f in range(m):
                    if group[j] >= 0 and group[f] == group[j]:
                        offered[f] = discounted[f]
            s += 1
            status[j] = s
        length[i], resolved[i] = s, in_leaves == T
