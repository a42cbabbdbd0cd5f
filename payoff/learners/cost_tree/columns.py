"""From raw rows to scores: columns that are the features, or the trees of a boosted ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from payoff.learners.design import Design
from payoff.learners.linear import Linear
from payoff.stored import Stored


@dataclass(frozen=True, eq=False)
class Plain(Stored):
    """The prepared features; `uses` (m, T) bool, the paper's F: the features a column reads."""

    design: Design
    uses: np.ndarray

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        categorical: Sequence[int],
        *,
        standardise: bool,
    ) -> Self:
        """From rows (n, m) with positive weights.

        Without `standardise` numbers are centred, not scaled.
        """
        design = Design.fit(X, weights, categorical)
        if not standardise:
            design = replace(design, scales=np.ones_like(design.scales))
        sizes = [len(seen) for seen in design.values]
        features = np.concatenate(
            (
                design.numeric,
                design.numeric[design.marked],
                np.repeat(design.categorical, sizes),
            )
        )
        return cls(design, np.arange(X.shape[1])[:, None] == features[None, :])

    def columns(self, X: np.ndarray) -> np.ndarray:
        """The columns (n, T), dense, for rows (n, m)."""
        return self.design.dense(X)

    def scorer(self, coef: np.ndarray, intercept: np.ndarray) -> Linear:
        """The scores of raw rows by linear models of the columns.

        `coef` (T, scores), `intercept` (scores,).
        """
        return self.design.fold(coef.T, intercept)


@dataclass(frozen=True, eq=False)
class Boosted(Stored):
    """The outputs of a boosted ensemble's trees, centred and scaled to variance 1 (section 3).

    `trees` are scikit-learn's fitted `tree_`; `uses` as of `Plain`.
    """

    plain: Plain
    trees: Sequence[Any]
    means: np.ndarray
    scales: np.ndarray
    uses: np.ndarray

    def columns(self, X: np.ndarray) -> np.ndarray:
        """The columns (n, T) for rows (n, m)."""
        columns = outputs(self.trees, self.plain.columns(X))
        columns -= self.means
        columns /= self.scales
        return columns

    def scorer(self, coef: np.ndarray, intercept: np.ndarray) -> BoostedScorer:
        """The scores of raw rows; see `Plain.scorer`."""
        used = np.flatnonzero(coef.any(axis=1))
        scaled = coef[used] / self.scales[used, None]
        trees = [self.trees[t] for t in used.tolist()]
        return BoostedScorer(
            self.plain, trees, scaled, intercept - self.means[used] @ scaled
        )


@dataclass(frozen=True, eq=False)
class BoostedScorer(Stored):
    """Scores from those trees that have weight."""

    plain: Plain
    trees: Sequence[Any]
    coef: np.ndarray
    intercept: np.ndarray

    def scores(self, X: np.ndarray) -> np.ndarray:
        scores: np.ndarray = outputs(self.trees, self.plain.columns(X)) @ self.coef
        scores += self.intercept
        return scores


def outputs(trees: Sequence[Any], columns: np.ndarray) -> np.ndarray:
    """The predictions (n, T) of scikit-learn's regression trees for prepared rows (n, width)."""
    X = columns.astype(np.float32)
    predictions = np.empty((len(columns), len(trees)))
    for t, tree in enumerate(trees):
        predictions[:, t] = tree.predict(X)[:, 0]
    return predictions
