"""Compiled: every state that complete rows pass through when their features are acquired one by one."""

from __future__ import annotations

import numpy as np

from app.acquisition._kernels import _begin, _choose, _conclude, _price, _reveal, _settled
from app.acquisition.nodes import Nodes, PriceArrays
from app.arrays import F64, I32, Bools
from app.compiled import kernel


@kernel
def trace(
    nodes: Nodes, X: F64, free: Bools, prices: PriceArrays, budget: float, slack: float, n_groups: int,
    asked: I32, price: F64, P: F64, vote: I32, length: I32, settled: I32,
    resolved: Bools,
) -> None:  # fmt: skip
    """Acquire the features of complete rows X (n, m) one by one and record every state; fills the last arguments.

    `free` (n, m) marks features that are unavailable and cost nothing.
    `asked`, `price` (n, S): the feature requested in state s, and its price there; `P` (n, S + 1, K) and `vote`
    (n, S + 1): the answer in state s; `length` (n,): the number of requests until no affordable feature is left;
    `settled` (n,): the number until the vote is settled, or -1; `resolved` (n,): whether all trees reach a leaf.
    """
    T, K, m = nodes.roots.shape[0], P.shape[2], X.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, votes = np.zeros(K, np.int64), np.zeros(K, np.int64), np.zeros(K, np.int64)
    status, waiting, opened = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(n_groups, np.bool_)
    for i in range(X.shape[0]):
        status[:] = 0
        opened[:] = False
        _begin(nodes, at, waiting)
        spent, s = 0.0, 0
        settled[i] = -1
        while True:
            leader = _settled(nodes, at, sure, possible)
            if leader >= 0 and settled[i] < 0:
                settled[i] = s
            vote[i, s] = _conclude(nodes, at, leader, votes, P[i, s])
            j = _choose(waiting, opened, prices, budget - spent + slack)
            if j < 0:
                break
            asked[i, s] = j
            price[i, s] = _price(j, opened, prices)
            if not free[i, j]:
                spent += price[i, s]
                if prices[2][j] >= 0:
                    opened[prices[2][j]] = True
            s += 1
            status[j] = s
            _reveal(nodes, X[i], j, status, at, waiting)
        length[i] = s
        resolved[i] = True
        for f in range(m):
            resolved[i] &= waiting[f] == 0
