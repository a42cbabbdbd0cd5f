"""The states that rows pass through when they are asked for feature by feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.acquisition._tracing import trace
from app.acquisition.forest import FlatForest
from app.acquisition.prices import Prices
from app.acquisition.session import arrays, checked, slack_of


@dataclass(frozen=True, eq=False)
class Trajectories:
    """n rows in states 0 (nothing known) … S; row i ends in state `length[i]`, what lies behind it is undefined.

    `asked` (n, S) int32: the column asked for in a state (-1 behind the end), `price` (n, S) what it is offered for and
    `missing` (n, S) whether its value turns out to be missing, which costs nothing. `P` (n, S + 1, K) and `vote`
    (n, S + 1): class distributions and the class by vote in each state. `settled` (n,): the first state in which the
    vote can no longer change, or -1. `resolved` (n,): whether every tree has an answer at the end.
    """

    asked: np.ndarray
    price: np.ndarray
    missing: np.ndarray
    P: np.ndarray
    vote: np.ndarray
    length: np.ndarray
    settled: np.ndarray
    resolved: np.ndarray

    def __len__(self) -> int:
        return len(self.length)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, with room for the longest trajectory."""
        longest = max(part.asked.shape[1] for part in parts)
        rooms = {"asked": (longest, -1), "price": (longest, 0), "missing": (longest, 0)}
        rooms |= {"P": (longest + 1, 0), "vote": (longest + 1, 0)}
        joined = {}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name in rooms:
                columns = [_widened(column, *rooms[name]) for column in columns]
            joined[name] = np.concatenate(columns)
        return cls(**joined)

    @property
    def spent(self) -> np.ndarray:
        """What has been paid in each state, (n, S + 1)."""
        return paid_so_far(np.where(self.missing, 0.0, self.price))


def travel(
    forest: FlatForest, X: np.ndarray, prices: Prices, budget: float | None = None, missing: np.ndarray | None = None
) -> Trajectories:  # fmt: skip
    """Feed complete rows X (n, m), NaN where missing, until nothing affordable is left; a settled vote stops nothing.

    `missing` (n, m) marks what cannot be had and costs nothing; by default every NaN. Others were bought in vain.
    As `session.simulate`, which keeps only the end. Raises as it does. O(n questions (T K + m)); memory n S (K + 4).
    """
    free = np.isnan(X) if missing is None else missing
    X, _, limit = checked(forest.n_features, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget)
    X = forest.orders.apply(X)
    n, S, K = len(X), len(forest.columns), forest.n_classes
    asked, price = np.full((n, S), -1, dtype=np.int32), np.zeros((n, S))
    P, vote = np.zeros((n, S + 1, K)), np.zeros((n, S + 1), dtype=np.int32)
    length, settled = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    resolved = np.zeros(n, dtype=np.bool_)
    trace(
        forest.nodes, X, free, arrays(prices), limit, slack_of(limit), len(prices.groups),
        asked, price, P, vote, length, settled, resolved,
    )  # fmt: skip
    S = int(length.max(initial=0))
    asked = asked[:, :S]
    lost = (asked >= 0) & free[np.arange(n)[:, None], asked]
    return Trajectories(asked, price[:, :S], lost, P[:, : S + 1], vote[:, : S + 1], length, settled, resolved)


def purchases(
    asked: np.ndarray, missing: np.ndarray, prices: Prices, limit: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of features `asked` (n, S) in this order: what each is offered for, what is paid, and whether it is bought.

    What would bring a row's sum above `limit` is passed over. A `missing` value costs nothing, but is asked for only
    where its price could be paid. The first of a group that is had opens it. 0 and not bought for -1.
    """
    price, paid, bought = np.zeros(asked.shape), np.zeros(asked.shape), asked >= 0
    spent = np.zeros(len(asked))
    opened = np.zeros((len(asked), len(prices.groups) + 1), dtype=bool)  # the last column: no group
    everyone = np.arange(len(asked))
    for s in range(asked.shape[1]):
        j = asked[:, s]
        group = prices.group[j]
        price[:, s] = np.where(j < 0, 0.0, np.where(opened[everyone, group], prices.discounted[j], prices.cost[j]))
        bought[:, s] &= spent + price[:, s] <= limit
        had = bought[:, s] & ~missing[:, s]
        paid[:, s] = np.where(had, price[:, s], 0.0)
        spent += paid[:, s]
        opened[everyone, group] |= had & (group >= 0)
    return price, paid, bought


def paid_so_far(paid: np.ndarray) -> np.ndarray:
    """(n, S + 1) sums before each of the columns of `paid` (n, S), and of all."""
    return np.concatenate((np.zeros((len(paid), 1)), np.cumsum(paid, axis=1)), axis=1)


def _widened(column: np.ndarray, width: int, fill: float) -> np.ndarray:
    room = [(0, 0), (0, width - column.shape[1])] + [(0, 0)] * (column.ndim - 2)
    return np.pad(column, room, constant_values=fill)
