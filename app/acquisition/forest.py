"""A forest as flat arrays, independent of the learner that grew it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from app.acquisition import _kernels
from app.acquisition._kernels import evaluate, leaves, prefixes, trace
from app.acquisition.categories import Orders
from app.acquisition.nodes import Nodes, Tree, flatten
from app.acquisition.prices import Prices
from app.acquisition.session import States, Trajectories, checked, slack_of
from app.arrays import F64, I32, I64, Bools, Ints
from app.decisions.contributions import Contributions
from app.decisions.tree_contributions import Trees, tree_contributions


@dataclass(frozen=True, eq=False)
class FlatForest:
    """Trees that vote, over m columns and K classes; `orders` ranks categories, `columns` are the features it uses."""

    can_settle: ClassVar[bool] = True
    nodes: Nodes
    n_features: int
    orders: Orders = field(default_factory=Orders)

    @classmethod
    def join(
        cls, trees: Iterable[Tree], n_features: int, prior: np.ndarray, orders: Orders | None = None
    ) -> FlatForest:
        """One forest of trees whose `counts` are anything proportional to the class distributions.

        Trees are taken one by one, so that a generator's need not be in memory together. O(nodes K).
        """
        return cls(flatten(trees, prior), n_features, orders or Orders())

    @property
    def n_trees(self) -> int:
        return len(self.nodes.roots)

    @property
    def n_classes(self) -> int:
        return len(self.nodes.prior)

    @property
    def columns(self) -> np.ndarray:
        """The features that some node tests, ascending."""
        used = np.unique(self.nodes.feature)
        return used[used >= 0]

    def first(self, trees: int) -> FlatForest:
        """The forest of its first trees."""
        roots = self.nodes.roots
        end = int(roots[trees]) if trees < len(roots) else len(self.nodes.feature)
        cut = {name: getattr(self.nodes, name)[:end] for name in Nodes._fields[:7]}
        cut["cover"] = self.nodes.cover[:end]
        return FlatForest(self.nodes._replace(**cut, roots=roots[:trees]), self.n_features, self.orders)

    def posterior(self, X: F64) -> F64:
        """Averaged leaf distributions (n, K) of rows X (n, m), NaN where missing; checks nothing. O(n T depth)."""
        return self._evaluate(X)[0]

    def contributions(self, X: F64, chosen: I64) -> Contributions | None:
        """To the mean probability of the second of two classes, of more the chosen one (n,); None without trees.

        Values are as in `tree_contributions`, and with their base add up to `posterior`.
        """
        N = self.nodes
        if not self.n_trees:
            return None
        ranks, chosen = self.orders.apply(X), chosen if self.n_classes > 2 else np.ones(len(X), dtype=np.intp)

        def goes(some: slice) -> I32:
            x = ranks[some][:, np.maximum(N.feature, 0)]
            return np.where(np.isnan(x), N.missing, np.where(x <= N.threshold, N.left, N.right)).astype(np.int32)

        trees = Trees(N.roots, N.feature, N.left, N.right, N.cover)
        value = N.value.astype(np.float64)
        values, base = tree_contributions(trees, goes, value, N.share, chosen, X.shape[1])
        total = value.sum(axis=1)[N.share[self.leaves(X)]].sum(axis=1)  # nearly T: probabilities of 32 bits
        return Contributions(values / total[:, None], base / total, chosen, "probability")

    def votes(self, X: F64) -> I64:
        """How many trees vote for each class (n, K), for rows as in `posterior`."""
        return self._evaluate(X)[1]

    def predict(self, X: F64) -> np.ndarray:
        """The class (n,) with most votes, ties to the first; without trees the most frequent one."""
        chosen: np.ndarray = self.votes(X).argmax(axis=1)
        return chosen if self.n_trees else np.full(len(X), self.nodes.prior.argmax())

    def leaves(self, X: F64) -> I32:
        """The node (n, T) at which each row ends in each tree, for rows as in `posterior`."""
        found = np.empty((len(X), self.n_trees), dtype=np.int32)
        leaves(self.nodes, self.orders.apply(X), found)
        return found

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None, *, stop_when_settled: bool = True
    ) -> States:
        """The states of n cases (`StepwiseModel.step`).

        Unavailable features and NaN take each node's branch for missing values. Every tree is walked until an unknown
        feature stops it. The next feature is the affordable one with the most waiting trees per price; free ones come
        first; equal ratios go to the lower price, then to more trees, then to the earlier column. The vote is settled
        when the leader's sure votes are more than any rival can still get from trees that have a leaf for it (ties as
        in the full vote, to the first class): then the class is that of the complete row.
        O(n T depth); about 10 microseconds a case.
        """
        X, status, limit = checked(self.n_features, X, status, prices, budget)
        X = self.orders.apply(X)
        (n, m), K = X.shape, len(self.nodes.prior)
        waiting, order = np.zeros((n, m), dtype=np.int32), np.empty((n, m), dtype=np.int32)
        price, spent = np.empty((n, m)), np.empty(n)
        P, counts, outcome = np.empty((n, K)), np.zeros((n, 3), dtype=np.int32), np.empty((n, 3), dtype=np.int32)
        _kernels.states(
            self.nodes, X, status, prices.arrays, limit, slack_of(limit), len(prices.groups),
            waiting, price, order, spent, P, counts, outcome,
        )  # fmt: skip
        resolved, missed, wanted = counts.T
        leader, prediction, following = outcome.T
        return States(
            waiting, price, order, wanted, spent, P, resolved, missed, leader, prediction, following,
            np.full(n, np.nan), len(self.nodes.roots), limit, stop_when_settled,
        )  # fmt: skip

    def travel(self, X: F64, prices: Prices, budget: float | None = None, missing: Bools | None = None) -> Trajectories:
        """Trajectories of n rows (`StepwiseModel.travel`). O(n questions (T K + m)); memory n S (K + 4)."""
        free = np.isnan(X) if missing is None else missing
        X, _, limit = checked(self.n_features, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget)
        X = self.orders.apply(X)
        n, S, K = len(X), len(self.columns), self.n_classes
        asked, price = np.full((n, S), -1, dtype=np.int32), np.zeros((n, S))
        P, vote = np.zeros((n, S + 1, K)), np.zeros((n, S + 1), dtype=np.int32)
        length, settled = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        resolved = np.zeros(n, dtype=np.bool_)
        trace(
            self.nodes, X, free, prices.arrays, limit, slack_of(limit), len(prices.groups),
            asked, price, P, vote, length, settled, resolved,
        )  # fmt: skip
        return Trajectories.cut(asked, price, free, P, vote, length, settled, resolved, np.zeros(vote.shape))

    def fees(self, X: F64) -> F64:
        """Zeros (n,): trees that vote cost nothing to evaluate."""
        return np.zeros(len(X))

    def _evaluate(self, X: F64) -> tuple[F64, I64]:
        P, votes = np.zeros((len(X), self.n_classes)), np.zeros((len(X), self.n_classes), dtype=np.int64)
        if not self.n_trees:
            return P + self.nodes.prior, votes
        evaluate(self.nodes, self.orders.apply(X), P, votes)
        P /= P.sum(axis=1, keepdims=True)
        return P, votes


class PathCosts:
    """Mean cost and error of a growing forest on n rows: X (n, m) with ranked categories, class codes, weights."""

    def __init__(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, prices: Prices, n_classes: int) -> None:
        self._rows = (np.ascontiguousarray(X), codes, weights)
        self._prices = prices.arrays
        self._used = np.zeros(X.shape, dtype=np.bool_)
        self._discount = np.zeros((len(X), len(prices.groups)))
        self._votes = np.zeros((len(X), n_classes), dtype=np.int32)
        self._spent = 0.0

    def add(self, forest: FlatForest) -> Iterator[tuple[float, float]]:
        """Add the trees of `forest` one by one; mean cost and error per row after each. O(n depth) a tree.

        A feature is paid for once per row over all trees, and not where it is missing; of a group the member with the
        largest discount counts as the first, so no order of asking costs more.
        """
        cost, error = np.full(forest.n_trees, self._spent), np.zeros(forest.n_trees)
        prefixes(forest.nodes, *self._rows, self._prices, self._used, self._discount, self._votes, cost, error)
        self._spent = float(cost[-1]) if len(cost) else self._spent
        total = self._rows[2].sum()
        return zip((cost / total).tolist(), (error / total).tolist(), strict=True)


def converted(tree: Any) -> Tree:
    """One fitted tree of scikit-learn's forest (its `tree_`), which decides each row exactly as it does."""
    left, right = tree.children_left, tree.children_right
    leaf = left < 0
    feature = np.where(leaf, -1, tree.feature).astype(np.int32)
    missing = np.where(tree.missing_go_to_left.astype(bool), left, right)
    threshold = _last_left(np.where(leaf, 0.0, tree.threshold))
    return Tree(feature, threshold, left, right, missing, tree.value[:, 0, :], tree.weighted_n_node_samples)


def _last_left(threshold: np.ndarray) -> np.ndarray:
    """The largest float64 that, rounded to float32, is not above `threshold`."""
    below = threshold.astype(np.float32)
    below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2
    return np.where(middle.astype(np.float32) <= below, middle, np.nextafter(middle, -np.inf))
