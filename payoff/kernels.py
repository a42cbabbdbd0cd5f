"""`python -m payoff.kernels`: compile all kernels ahead, as `make install` and the image do.

A kernel that is not on disk is compiled by its first call, which takes seconds.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np

from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import FlatForest
from payoff.acquisition.growth import bin_columns, grow_tree
from payoff.acquisition.nodes import flatten
from payoff.acquisition.prices import Prices
from payoff.acquisition.tree_grower import PathCosts
from payoff.acquisition.tree_of_classifiers import TreeOfClassifiers
from payoff.decisions.assignment import assign
from payoff.decisions.tree_contributions import Trees, tree_contributions
from payoff.learners.quantile_forest import QuantileForest
from payoff.retrieval.losses import LOSSES, Loss, SetTerms
from payoff.retrieval.sampled import select_sampled
from payoff.retrieval.selection import DP_LIMIT, select
from payoff.retrieval.windows import MEANS

_X, _Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])


def _sets() -> None:
    p = np.linspace(0.9, 0.1, DP_LIMIT + 8)
    for name in LOSSES:
        select(p, SetTerms(Loss(name, c=(0, -2, 1, 1), d=(0, 0, 1, 1))))
    select(
        np.linspace(0.0, 1.0, 5000), SetTerms(Loss("f_beta"))
    )  # enough items for a radix sort
    select(p[:DP_LIMIT], SetTerms(Loss("f_beta")))
    select_sampled(
        [(np.eye(2, dtype=np.uint8), np.ones(2))],
        np.full((1, 2), 0.5),
        SetTerms(Loss("jaccard")),
    )


def _means() -> None:
    for name in MEANS:
        # The variance is large enough for Gauss rules on both sides.
        select(np.full(5200, 0.5), SetTerms(Loss(name)))


def _forests() -> None:
    prices = Prices.unit(2)
    bag = np.array(
        [0, 0, 1, 1]
    )  # a row out of the bag shares its leaf with a row in the bag
    tree = grow_tree(bin_columns(_X), _Y, bag, 2, prices.cost)
    forest = FlatForest(flatten([tree], np.ones(2) / 2), 2)
    forest.posterior(_X)
    forest.leaves(_X)
    forest.step(_X, np.zeros(_X.shape, dtype=np.int32), prices)
    forest.travel(_X, prices)
    QuantileForest.of(
        forest, bag[:, None] > 0, _X, _X[:, 0], np.ones(4), corrected=True
    ).distribution(_X)
    list(PathCosts(_X, _Y, np.ones(4), prices, 2).add(forest))


def _chains() -> None:
    both_first: Any = SimpleNamespace(scores=lambda X: np.repeat(X[:, :1], 2, axis=1))
    trees, _ = grow(
        np.ascontiguousarray(_X.T, dtype=np.float32), _Y, np.ones(4), 2, Rule(1), [0]
    )
    trees.shares(_X.astype(np.float32), np.ones(4, dtype=np.int32))
    out, zero, needs = (
        np.full(1, -1, dtype=np.int32),
        np.zeros(1),
        np.array([[True, False]]),
    )
    tree = TreeOfClassifiers(out, out, zero, needs, both_first, zero, 2)
    prices = Prices.unit(2)
    tree.step(_X, np.zeros(_X.shape, dtype=np.int32), prices)
    tree.travel(_X, prices)


def _decisions() -> None:
    assign(
        np.zeros((2, 3)),
        np.zeros(3, dtype=np.int64),
        np.array([0, 1]),
        np.array([3, 2]),
    )
    feature, left, right = np.array(
        [[0, -1, -1], [1, -1, -1], [2, -1, -1]], dtype=np.int32
    )
    trees = Trees(
        np.zeros(1, dtype=np.int32), feature, left, right, np.ones(3, dtype=np.float32)
    )
    share, column = np.arange(3, dtype=np.int32), np.zeros(1, dtype=np.intp)
    tree_contributions(trees, lambda _: left[None], np.ones((3, 1)), share, column, 1)


# The call that takes longest comes first.
CALLS: dict[str, Callable[[], None]] = {
    "forests": _forests,
    "sets": _sets,
    "means over sets": _means,
    "chains": _chains,
    "limits and explanations": _decisions,
}


def main() -> None:
    """Call every kernel once on few rows, in two processes, and print a line for each part."""
    began = monotonic()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = {pool.submit(call): name for name, call in CALLS.items()}
        for done, part in enumerate(as_completed(parts), 1):
            part.result()
            sys.stdout.write(
                f"compiled {done} of {len(parts)}: {parts[part]} ({monotonic() - began:.0f} s)\n"
            )


if __name__ == "__main__":
    main()
