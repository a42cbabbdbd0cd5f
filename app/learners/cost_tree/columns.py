"""Raw rows to scores: columns that are the features themselves, or the trees of a boosted ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from app.acquisition.tree_of_classifiers import Scorer
from app.learners.design import Design
from app.learners.linear import Linear

_BATCH = 2000


class Map(Protocol):
    """A fitted feature map phi: raw rows (n, m) to columns (n, T); `uses` (m, T) bool is the paper's F."""

    @property
    def uses(self) -> np.ndarray: ...

    def columns(self, X: np.ndarray) -> np.ndarray:
        """The columns (n, T), dense."""
        ...

    def scorer(self, coef: np.ndarray, intercept: np.ndarray) -> Scorer:
        """The scores of linear models on phi: coefficients (T, scores), intercepts (scores,)."""
        ...


@dataclass(frozen=True, eq=False)
class Plain:
    """The prepared features themselves."""

    design: Design
    uses: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weights: np.ndarray, categorical: Sequence[int], *, standardise: bool) -> Self:
        """From rows (n, m) with positive weights; without `standardise` numbers are centred, not scaled."""
        design = Design.fit(X, weights, categorical)
        if not standardise:
            design = replace(design, scales=np.ones_like(design.scales))
        sizes = [len(seen) for seen in design.values]
        features = np.concatenate((design.numeric, design.numeric[design.marked], np.repeat(design.categorical, sizes)))
        return cls(design, np.arange(X.shape[1])[:, None] == features[None, :])

    def columns(self, X: np.ndarray) -> np.ndarray:
        found = self.design.matrix(X)
        dense: np.ndarray = found if isinstance(found, np.ndarray) else found.toarray()
        return dense

    def scorer(self, coef: np.ndarray, intercept: np.ndarray) -> Linear:
        return self.design.fold(coef.T, intercept)


@dataclass(frozen=True, eq=False)
class WeakLearners:
    """T small regression trees as arrays (T, nodes): `x <= threshold` of column `feature` goes to `left`.

    A leaf's children are itself, so that `depth` steps lead every row to its leaf. Columns compare as float32.
    """

    depth: int
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, trees: Sequence[Any]) -> Self:
        """From fitted scikit-learn trees (their `tree_`)."""
        most = max(tree.node_count for tree in trees)
        arrays = [np.zeros((len(trees), most), dtype) for dtype in (np.intp, float, np.intp, np.intp, float)]
        for t, tree in enumerate(trees):
            size, own = tree.node_count, np.arange(tree.node_count)
            leaf = tree.children_left < 0
            arrays[0][t, :size] = np.where(leaf, 0, tree.feature)
            arrays[1][t, :size] = tree.threshold
            arrays[2][t, :size] = np.where(leaf, own, tree.children_left)
            arrays[3][t, :size] = np.where(leaf, own, tree.children_right)
            arrays[4][t, :size] = tree.value[:, 0, 0]
        return cls(max(tree.max_depth for tree in trees), *arrays)

    def outputs(self, columns: np.ndarray) -> np.ndarray:
        """What each tree says (n, T) of prepared rows (n, width). O(n T depth)."""
        X, trees = columns.astype(np.float32), np.arange(len(self.feature))
        found = np.empty((len(X), len(trees)))
        for start in range(0, len(X), _BATCH):
            rows = np.arange(start, min(start + _BATCH, len(X)))[:, None]
            node = np.zeros((len(rows), len(trees)), dtype=np.intp)
            for _ in range(self.depth):
                goes_left = X[rows, self.feature[trees, node]] <= self.threshold[trees, node]
                node = np.where(goes_left, self.left[trees, node], self.right[trees, node])
            found[rows[:, 0]] = self.value[trees, node]
        return found

    def take(self, trees: np.ndarray) -> WeakLearners:
        """Some of them."""
        arrays = (self.feature, self.threshold, self.left, self.right, self.value)
        return WeakLearners(self.depth, *(array[trees] for array in arrays))


@dataclass(frozen=True, eq=False)
class Boosted:
    """The outputs of a boosted ensemble's trees, centred and scaled to variance 1 (section 3)."""

    plain: Plain
    weak: WeakLearners
    means: np.ndarray
    scales: np.ndarray
    uses: np.ndarray

    def columns(self, X: np.ndarray) -> np.ndarray:
        found = self.weak.outputs(self.plain.columns(X))
        found -= self.means
        found /= self.scales
        return found

    def scorer(self, coef: np.ndarray, intercept: np.ndarray) -> BoostedScorer:
        used = np.flatnonzero(coef.any(axis=1))
        scaled = coef[used] / self.scales[used, None]
        return BoostedScorer(self.plain, self.weak.take(used), scaled, intercept - self.means[used] @ scaled)


@dataclass(frozen=True, eq=False)
class BoostedScorer:
    """Scores from those weak learners that have weight."""

    plain: Plain
    weak: WeakLearners
    coef: np.ndarray
    intercept: np.ndarray

    def scores(self, X: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.weak.outputs(self.plain.columns(X)) @ self.coef
        found += self.intercept
        return found
