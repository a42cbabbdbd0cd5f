"""The states that rows pass through when their features are acquired one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.acquisition.prices import Prices
from app.arrays import F64, I32, Bools


@dataclass(frozen=True, eq=False)
class Trajectories:
    """n rows in states 0 (nothing known) … S; row i ends in state `length[i]`, later states are undefined.

    `asked` (n, S): the column requested in a state (-1 after the end), `price` (n, S) its price there, and `missing`
    (n, S) whether its value is missing, which costs nothing. `P` (n, S + 1, K) and `vote` (n, S + 1): class
    distribution, and predicted class or number, in each state. `settled` (n,): the first state in which the vote can
    no longer change, or -1. `resolved` (n,): whether every tree reaches a leaf. `fee` (n, S + 1): the cost of
    evaluating the model so far, besides the features.
    """

    asked: I32
    price: F64
    missing: Bools
    P: F64
    vote: np.ndarray
    length: I32
    settled: I32
    resolved: Bools
    fee: F64

    def __len__(self) -> int:
        return len(self.length)

    @classmethod
    def cut(
        cls, asked: I32, price: F64, free: Bools, P: F64, vote: np.ndarray, length: I32, settled: I32, resolved: Bools,
        fee: F64,
    ) -> Self:  # fmt: skip
        """Trajectories without the states that no row reaches; `free` (n, m) marks unavailable features."""
        S = int(length.max(initial=0))
        asked = asked[:, :S]
        missing = (asked >= 0) & free[np.arange(len(asked))[:, None], asked]
        P, vote, fee = P[:, : S + 1], vote[:, : S + 1], fee[:, : S + 1]
        return cls(asked, price[:, :S], missing, P, vote, length, settled, resolved, fee)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, with room for the longest trajectory."""
        longest = max(part.asked.shape[1] for part in parts)
        rooms = {"asked": (longest, -1), "price": (longest, 0), "missing": (longest, 0)}
        rooms |= {"P": (longest + 1, 0), "vote": (longest + 1, 0), "fee": (longest + 1, 0)}
        joined = {}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name in rooms:
                columns = [_widened(column, *rooms[name]) for column in columns]
            joined[name] = np.concatenate(columns)
        return cls(**joined)

    @property
    def spent(self) -> np.ndarray:
        """The cost so far in each state, (n, S + 1)."""
        paid = np.cumsum(np.where(self.missing, 0.0, self.price), axis=1)
        return np.concatenate((np.zeros((len(paid), 1)), paid), axis=1) + self.fee


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


def _widened(column: np.ndarray, width: int, fill: float) -> np.ndarray:
    room = [(0, 0), (0, width - column.shape[1])] + [(0, 0)] * (column.ndim - 2)
    return np.pad(column, room, constant_values=fill)
