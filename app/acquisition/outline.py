"""A tree of classifiers for readers: what each node asks for, and what a case has paid there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app.acquisition.prices import Prices

if TYPE_CHECKING:  # with its compiler it takes 60 MB of memory that a service which acquires nothing can spare
    from app.acquisition.tree_of_classifiers import TreeOfClassifiers


@dataclass(frozen=True)
class Stop:
    """A node: the columns that it `asks` for and no node above has, cheapest first, and the price of all so far.

    A case whose score is above `threshold` goes to node `upper`, another to `lower`; -1: it ends here.
    """

    asks: tuple[int, ...]
    cost: float
    threshold: float
    upper: int
    lower: int


def outline(tree: TreeOfClassifiers, prices: Prices) -> tuple[Stop, ...]:
    """The nodes in the tree's numbering, the root first. O(nodes m^2)."""
    stops: dict[int, Stop] = {}
    waiting: list[tuple[int, tuple[int, ...], float]] = [(0, (), 0.0)]
    while waiting:
        node, path, paid = waiting.pop()
        asks = _in_order(np.flatnonzero(tree.needs[node]).tolist(), path, prices)
        fees = paid + float(tree.evaluation[node])
        known, cost = (*path, *asks), sum(prices.paid([*path, *asks])) + fees
        upper, lower = int(tree.upper[node]), int(tree.lower[node])
        stops[node] = Stop(asks, cost, float(tree.thresholds[node]), upper, lower)
        waiting += [(child, known, fees) for child in (upper, lower) if child >= 0]
    return tuple(stops[node] for node in range(tree.n_nodes))


def listed(stops: Sequence[Stop], names: Sequence[str]) -> list[dict[str, Any]]:
    """The same with features by name and None for -1, ready for JSON."""
    return [
        {
            "asks": [names[j] for j in stop.asks],
            "cost": stop.cost,
            "threshold": stop.threshold,
            "upper": None if stop.upper < 0 else stop.upper,
            "lower": None if stop.lower < 0 else stop.lower,
        }
        for stop in stops
    ]


def _in_order(needed: list[int], path: tuple[int, ...], prices: Prices) -> tuple[int, ...]:
    """The columns that are new, as a case is asked for them: the cheapest first, ties to the earlier column."""
    new = [j for j in needed if j not in path]
    asked: list[int] = []
    while new:
        asked.append(min(new, key=lambda j: (prices.paid([*path, *asked, j])[-1], j)))
        new.remove(asked[-1])
    return tuple(asked)
