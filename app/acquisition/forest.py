"""A forest as flat arrays, whoever has grown it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from app.acquisition._complete import evaluate, prefixes
from app.acquisition.categories import Orders
from app.acquisition.prices import Prices
from app.acquisition.tree import Tree


class Nodes(NamedTuple):
    """The nodes of all trees, N of them, and where the T trees begin.

    `feature` int32, -1 for a leaf; `threshold` float64: `x <= threshold` goes to `left`, else to `right`, NaN to
    `missing` (int32 positions in these arrays). `share` int32: the node's row in `value` (V, K) float32, each tree's
    different class distributions (of all nodes, not only leaves), and in `label` (V,) int32, their most frequent
    class, ties to the first. `reach` uint64: bit k is set where a leaf below votes for class k (all bits with more than
    64 classes).
    `roots` (T,) int32. `prior` (K,): the answer of no trees.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing: np.ndarray
    share: np.ndarray
    reach: np.ndarray
    value: np.ndarray
    label: np.ndarray
    roots: np.ndarray
    prior: np.ndarray


_DTYPES: dict[str, type] = {"threshold": np.float64, "reach": np.uint64}


@dataclass(frozen=True, eq=False)
class FlatForest:
    """Trees that vote, over m columns and K classes; `orders` ranks categories, `columns` are the features it uses."""

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

    @classmethod
    def from_sklearn(cls, model: Any, orders: Orders | None = None) -> FlatForest:
        """scikit-learn's fitted RandomForestClassifier (one output), deciding each row exactly as it does.

        Its trees compare values rounded to float32; here the thresholds are moved instead, to the last float64 that
        rounds to the left side.
        """
        prior = np.mean([tree.tree_.value[0, 0] for tree in model.estimators_], axis=0)
        trees = (converted(tree.tree_) for tree in model.estimators_)
        return cls.join(trees, model.n_features_in_, prior / prior.sum(), orders)

    @property
    def n_trees(self) -> int:
        return len(self.nodes.roots)

    @property
    def n_classes(self) -> int:
        return len(self.nodes.prior)

    @property
    def columns(self) -> np.ndarray:
        """The features that some tree may ask for, ascending."""
        used = np.unique(self.nodes.feature)
        return used[used >= 0]

    def first(self, trees: int) -> FlatForest:
        """The forest of its first trees."""
        roots = self.nodes.roots
        end = int(roots[trees]) if trees < len(roots) else len(self.nodes.feature)
        cut = {name: getattr(self.nodes, name)[:end] for name in Nodes._fields[:7]}
        return FlatForest(self.nodes._replace(**cut, roots=roots[:trees]), self.n_features, self.orders)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Averaged leaf distributions (n, K) of rows X (n, m), NaN where missing; checks nothing. O(n T depth)."""
        return self._evaluate(X)[0]

    def votes(self, X: np.ndarray) -> np.ndarray:
        """How many trees vote for each class (n, K), for rows as in `posterior`."""
        return self._evaluate(X)[1]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class (n,) with most votes, ties to the first; without trees the most frequent one."""
        chosen: np.ndarray = self.votes(X).argmax(axis=1)
        return chosen if self.n_trees else np.full(len(X), self.nodes.prior.argmax())

    def _evaluate(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        self._prices = (prices.cost, prices.discounted, prices.group)
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


def beside(parts: Sequence[Nodes], prior: np.ndarray) -> Nodes:
    """The trees of all parts, in this order. O(nodes)."""
    sizes = np.cumsum([0, *(len(part.feature) for part in parts)])
    known = np.cumsum([0, *(len(part.value) for part in parts)])

    def joined(name: str, offsets: np.ndarray) -> np.ndarray:
        columns = (getattr(part, name) for part in parts)
        moved = (np.where(column < 0, -1, column + by) for column, by in zip(columns, offsets, strict=False))
        return np.concatenate([np.empty(0, dtype=np.int32), *moved], dtype=np.int32)

    empty = flatten((), prior)
    return Nodes(
        **{name: np.concatenate([getattr(part, name) for part in (empty, *parts)])
           for name in ("feature", "threshold", "reach", "label", "value")},
        **{name: joined(name, sizes) for name in ("left", "right", "missing", "roots")},
        share=joined("share", known), prior=empty.prior,
    )  # fmt: skip


def flatten(trees: Iterable[Tree], prior: np.ndarray) -> Nodes:
    """The nodes of trees whose `counts` are anything proportional to the class distributions. O(nodes K)."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in Nodes._fields[:7]}
    values: list[np.ndarray] = [np.empty((0, len(prior)), dtype=np.float32)]
    roots, size, known = [], 0, 0
    for tree in trees:
        roots.append(size)
        inner = tree.feature >= 0
        parts["feature"].append(tree.feature.astype(np.int32, copy=False))
        parts["threshold"].append(tree.threshold.astype(np.float64, copy=False))
        for name in ("left", "right", "missing"):
            parts[name].append(np.where(inner, getattr(tree, name) + size, -1).astype(np.int32))
        distributions = np.ascontiguousarray(tree.counts / tree.counts.sum(axis=1, keepdims=True), dtype=np.float32)
        different, which = _different(distributions)
        values.append(different)
        parts["share"].append((which + known).astype(np.int32))
        parts["reach"].append(_reach(tree, distributions.argmax(axis=1)))
        size, known = size + len(inner), known + len(different)
    value = np.concatenate(values)
    # A field at a time, whose parts are gone before the next: never two copies of the forest.
    joined = {
        name: np.concatenate([np.empty(0, dtype=_DTYPES.get(name, np.int32)), *parts.pop(name)])
        for name in Nodes._fields[:7]
    }
    return Nodes(
        **joined, value=value, label=value.argmax(axis=1).astype(np.int32) if size else np.empty(0, dtype=np.int32),
        roots=np.array(roots, dtype=np.int32), prior=np.asarray(prior, dtype=np.float64),
    )  # fmt: skip


def _different(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that differ, and which of them each row is: most nodes of a tree share their distribution."""
    width = f"V{rows.shape[1] * rows.itemsize}"
    different, which = np.unique(rows.view(width).ravel(), return_inverse=True)
    return different.view(rows.dtype).reshape(-1, rows.shape[1]), which


def _reach(tree: Tree, label: np.ndarray) -> np.ndarray:
    """Bit k of a node: some leaf below it votes for class k. Level by level from the deepest: O(nodes)."""
    if tree.counts.shape[1] > 64:
        return np.full(len(tree.feature), np.iinfo(np.uint64).max, dtype=np.uint64)
    reach = np.where(tree.feature < 0, np.uint64(1) << label.astype(np.uint64), np.uint64(0))
    levels = [np.zeros(1, dtype=np.int64)]
    while len(inner := levels[-1][tree.feature[levels[-1]] >= 0]):
        levels.append(np.concatenate((tree.left[inner], tree.right[inner])))
    for level in reversed(levels):
        inner = level[tree.feature[level] >= 0]
        reach[inner] = reach[tree.left[inner]] | reach[tree.right[inner]]
    return reach


def converted(tree: Any) -> Tree:
    """One fitted tree of scikit-learn's forest (its `tree_`), which decides each row exactly as it does."""
    left, right = tree.children_left, tree.children_right
    leaf = left < 0
    feature = np.where(leaf, -1, tree.feature).astype(np.int32)
    missing = np.where(tree.missing_go_to_left.astype(bool), left, right)
    return Tree(feature, _last_left(np.where(leaf, 0.0, tree.threshold)), left, right, missing, tree.value[:, 0, :])


def _last_left(threshold: np.ndarray) -> np.ndarray:
    """The largest float64 that, rounded to float32, is not above `threshold`."""
    below = threshold.astype(np.float32)
    below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2
    return np.where(middle.astype(np.float32) <= below, middle, np.nextafter(middle, -np.inf))
