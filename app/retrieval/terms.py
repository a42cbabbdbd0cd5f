"""The order of the items of a set, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.errors import Invalid
from app.retrieval.losses import Loss


def descending(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of probabilities (n,), largest first, equal ones in their order; and p in this order."""
    order = np.argsort(-p)  # not stable, and several times faster for it
    ranked = p[order]
    tied = ranked[1:] == ranked[:-1]
    if tied.any():
        rank = np.concatenate(([0], np.cumsum(~tied)))
        order = np.sort(rank * len(p) + order) % len(p)
    return order, p[order]


AUC_WARNING = (
    "the AUC loss of an empty or a whole set is 0, so k is kept within 1 … n - 1; set k_min and k_max to allow both"
)


@dataclass(frozen=True)
class Terms:
    """The loss, bounds on the size k and on the expected rates, and whether the whole curve is wanted.

    Invalid at `/k_min` where it is above `k_max`.
    """

    loss: Loss
    empty: int = 0
    k_min: int = 0
    k_max: int | None = None
    curve: bool = False
    min_recall: float | None = None
    min_precision: float | None = None

    def __post_init__(self) -> None:
        if self.k_max is not None and self.k_min > self.k_max:
            raise Invalid.at("/k_min", f"'k_min' is {self.k_min}; it must be at most 'k_max', {self.k_max}")

    def sizes(self, n: int) -> tuple[int, int]:
        """The smallest and largest k allowed for n items; a k_max above n is no bound, a k_min above n is Invalid."""
        if self.k_min > n:
            raise Invalid.at("/k_min", f"'k_min' is {self.k_min}; it must be at most the number of items, {n}")
        high = n if self.k_max is None else min(self.k_max, n)
        low = self.k_min
        if self.loss.name != "auc":
            return low, high
        if low == 0:
            low = min(1, high)
        if not self._bounds(n):
            high = max(low, n - 1)
        return low, high

    def warnings(self, n: int) -> tuple[str, ...]:
        """Warnings about every set of at most n items that is chosen on these terms."""
        narrowed = self.loss.name == "auc" and (self.k_min == 0 or not self._bounds(n))
        return (AUC_WARNING,) if narrowed else ()

    def _bounds(self, n: int) -> bool:
        """Whether k_max is a bound for n items."""
        return self.k_max is not None and self.k_max <= n
