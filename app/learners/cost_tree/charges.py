"""The cost of a set of columns: features, surcharges of groups, and evaluation of weak learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.acquisition.prices import Prices

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Charges:
    """S prices, each paid once on a path where any of its columns has weight.

    `members` (S, T) sparse 0/1: which of the T columns call for the charge; `price` (S,) > 0.
    """

    members: sparse.csr_matrix
    price: np.ndarray

    @classmethod
    def of(cls, prices: Prices, uses: np.ndarray, evaluation: np.ndarray) -> Charges:
        """From the prices of m features, `uses` (m, T) bool (the paper's F), and `evaluation` (T,) (its e_t).

        A feature in a group charges its discounted price, and the group what its first member costs more: the
        largest difference among them.
        """
        from scipy import sparse  # noqa: PLC0415 - 20 MB that predictions can spare

        surcharge = np.zeros(len(prices.groups))
        grouped = np.flatnonzero(prices.group >= 0)
        np.maximum.at(surcharge, prices.group[grouped], (prices.cost - prices.discounted)[grouped])
        opens = prices.group[None, :] == np.arange(len(prices.groups))[:, None]
        by_group = (opens.astype(np.float64) @ uses.astype(np.float64)) > 0
        price = np.concatenate((prices.discounted, surcharge, evaluation))
        paid = price > 0
        members = sparse.vstack(
            (sparse.csr_matrix(uses), sparse.csr_matrix(by_group), sparse.identity(uses.shape[1])), format="csr"
        )
        return cls(members[paid].astype(np.float64), price[paid])

    def mix(self, squares: np.ndarray) -> np.ndarray:
        """The members' squared weights (T,), summed by charge (S,)."""
        summed: np.ndarray = self.members @ squares
        return summed

    def spread(self, by_charge: np.ndarray) -> np.ndarray:
        """A number for each charge (S,), summed by column (T,)."""
        summed: np.ndarray = self.members.T @ by_charge
        return summed
