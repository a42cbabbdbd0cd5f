"""Compiled: every state that complete rows pass through on their way. Arguments as in `_kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from app.acquisition._kernels import _begin, _choose, _conclude, _price, _reveal, _settled

if TYPE_CHECKING:
    from app.acquisition.forest import Nodes

    PriceArrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(cache=True, nogil=True)
def trace(
    nodes: Nodes, X: np.ndarray, free: np.ndarray, prices: PriceArrays, budget: float, slack: float, n_groups: int,
    asked: np.ndarray, price: np.ndarray, P: np.ndarray, vote: np.ndarray, length: np.ndarray, settled: np.ndarray,
    resolved: np.ndarray,
) -> None:  # fmt: skip
    """Feed complete rows X (n, m) feature by feature as asked, and write down every state; fills the last arguments.

    What is `free` (n, m) cannot be had, and costs nothing when it is asked for.

    `asked`, `price` (n, S): the feature asked for in state s, and what it is offered for; `P` (n, S + 1, K) and `vote`
    (n, S + 1): the answer in state s; `length` (n,): the questions until nothing affordable is left; `settled` (n,):
    those until the vote can no longer change, or -1; `resolved` (n,): whether all trees have an answer at the end.
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
        resolved[i] = waiting.max() == 0
