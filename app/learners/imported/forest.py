"""An imported random forest as flat trees on the data set's own features, so that it acquires them one at a time.

Preprocessing that makes each column out of one feature is folded into the thresholds. What a column of numbers becomes
must not fall; the threshold is then the largest number that goes left, found by bisection with the model's own
arithmetic. What becomes of categories is tabulated: a node is a chain of thresholds on the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from app.acquisition.forest import FlatForest, converted
from app.acquisition.tree import Tree
from app.features import Schema
from app.learners.imported.columns import Columns

_RISING = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
_LARGEST = 1e30  # of a number that is split: a float32 has it, and a float64 its square
_CODES = 4096  # of a feature: all are tabulated
_Lineage = list[int]


class NotFoldable(Exception):
    """Why a model cannot become flat trees."""


def folded(scorer: Any, schema: Schema, sample: np.ndarray) -> FlatForest:
    """The forest at the end of the model of a SklearnScorer; `sample` (1, m) is a row that it answers.

    NotFoldable with the reason.
    """
    *steps, forest = [step for _, step in scorer.model.steps] if isinstance(scorer.model, Pipeline) else [scorer.model]
    if not isinstance(forest, RandomForestClassifier):
        raise NotFoldable(
            f"{type(forest).__name__} cannot be asked feature by feature: only RandomForestClassifier can"
        )
    lineage: _Lineage = scorer.columns.order.tolist()
    for step in steps:
        lineage = _through(step, lineage, schema)
    words = {j for j in schema.categorical if j in lineage}
    if not steps and words:
        raise NotFoldable("the forest has no encoder for categories")
    order = np.arange(len(forest.classes_)) if scorer.order is None else scorer.order
    trees = [converted(one.tree_) for one in forest.estimators_]
    trees = [tree._replace(counts=np.ascontiguousarray(tree.counts[:, order])) for tree in trees]
    if steps:
        fold = _Fold(_transform(steps, scorer.columns), lineage, schema, sample)
        originals = [one.tree_ for one in forest.estimators_]
        trees = fold.trees(trees, [one.threshold for one in originals], [one.missing_go_to_left for one in originals])
    else:
        places = np.append(scorer.columns.order, -1).astype(np.int32)  # the last for leaves
        trees = [tree._replace(feature=places[tree.feature]) for tree in trees]
    prior = np.mean([tree.counts[0] / tree.counts[0].sum() for tree in trees], axis=0)
    flat = FlatForest.join(trees, len(schema.names), prior)
    if len(flat.nodes.feature) > sum(one.tree_.node_count for one in forest.estimators_):
        # some nodes have two parents, which contributions of features do not know
        return FlatForest(flat.nodes._replace(cover=np.empty(0, dtype=np.float32)), flat.n_features)
    return flat


def _through(step: Any, lineage: _Lineage, schema: Schema) -> _Lineage:
    """The feature that each column after a fitted step is made of, from those before. NotFoldable for other steps."""
    numeric = not any(j in schema.categorical for j in lineage)
    unchanged = step in ("passthrough", None) or (isinstance(step, FunctionTransformer) and step.func is None)
    if unchanged or isinstance(step, _RISING) or (isinstance(step, OrdinalEncoder) and not numeric):
        return lineage
    if isinstance(step, SimpleImputer) and not step.add_indicator:
        kept = [True] * len(lineage) if step.keep_empty_features else [value == value for value in step.statistics_]  # noqa: PLR0124 - NaN
        return [j for j, keep in zip(lineage, kept, strict=True) if keep]
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            lineage = _through(inner, lineage, schema)
        return lineage
    if isinstance(step, ColumnTransformer):
        parts = [(one, np.atleast_1d(columns)) for _, one, columns in step.transformers_ if not _is_drop(one)]
        return [j for one, columns in parts for j in _through(one, [lineage[int(c)] for c in columns], schema)]
    if isinstance(step, OneHotEncoder) and not numeric:
        counts = step._n_features_outs  # noqa: SLF001 - how many columns each feature becomes
        return [j for j, count in zip(lineage, counts, strict=True) for _ in range(count)]
    able = "scalers, imputers, and ordinal or one-hot encoders of categories"
    raise NotFoldable(f"{type(step).__name__} cannot be folded into the trees: only {able} of single columns can")


def _is_drop(step: Any) -> bool:
    return isinstance(step, str) and step == "drop"


def _transform(steps: Sequence[Any], columns: Columns) -> Callable[[np.ndarray], np.ndarray]:
    def transform(X: np.ndarray) -> np.ndarray:
        Z: Any = columns.of_rows(X)
        for step in steps:
            if step not in ("passthrough", None):
                Z = step.transform(Z)
        Z = Z.toarray() if hasattr(Z, "toarray") else Z
        return np.asarray(Z, dtype=np.float64).astype(np.float32)  # what trees compare

    return transform


@dataclass
class _Fold:
    """Rows through the preprocessing as float32, and the feature that each of its columns is made of."""

    transform: Callable[[np.ndarray], np.ndarray]
    lineage: _Lineage
    schema: Schema
    sample: np.ndarray

    def trees(self, trees: Sequence[Tree], thresholds: Sequence[np.ndarray], lefts: Sequence[np.ndarray]) -> list[Tree]:
        """The trees on the features; `thresholds` of the columns, `lefts`: whether missing ones go left."""
        chains = self._chains(np.concatenate([tree.feature for tree in trees]), np.concatenate(list(thresholds)))
        ends = np.cumsum([len(tree.feature) for tree in trees])
        return [
            _unfolded(tree, chains[end - len(tree.feature) : end], missing.astype(bool), self.lineage)
            for tree, end, missing in zip(trees, ends, lefts, strict=True)
        ]

    def _chains(self, columns: np.ndarray, thresholds: np.ndarray) -> list[_Chain | None]:
        """The chain of each node, None for leaves; equal splits are computed once."""
        found: list[_Chain | None] = [None] * len(columns)
        for column in np.unique(columns[columns >= 0]):
            nodes = np.flatnonzero(columns == column)
            values, which = np.unique(thresholds[nodes], return_inverse=True)
            made = list(self._split(int(column), values))
            for node, place in zip(nodes.tolist(), which.tolist(), strict=True):
                found[node] = made[place]
        return found

    def _split(self, column: int, thresholds: np.ndarray) -> Iterator[_Chain]:
        j = self.lineage[column]
        missing = self._missing(column, j, thresholds)
        if j not in self.schema.categorical:
            for bound, left in zip(self._bounds(column, j, thresholds), missing, strict=True):
                yield _Chain(np.array([bound]), np.array([True, False]), left)
            return
        codes = np.arange(len(self.schema.features[j].categories), dtype=np.float64)
        if not 0 < len(codes) <= _CODES:
            raise NotFoldable(f"{self.schema.names[j]!r} has {len(codes)} categories; at most {_CODES} can be folded")
        values = self._values(column, j, codes)
        for threshold, left in zip(thresholds, missing, strict=True):
            goes = values <= threshold
            ends = np.flatnonzero(goes[1:] != goes[:-1])  # the last code of each run but the last
            if len(ends):
                yield _Chain(codes[ends], goes[np.append(ends, len(codes) - 1)], left)
            else:  # all go one way
                yield _Chain(np.array([np.inf if goes[0] else -np.inf]), np.array([True, False]), left)

    def _values(self, column: int, j: int, x: np.ndarray) -> np.ndarray:
        rows = np.repeat(self.sample, len(x), axis=0)
        rows[:, j] = x
        with np.errstate(all="ignore"):
            values: np.ndarray = self.transform(rows)[:, column]
        return values

    def _missing(self, column: int, j: int, thresholds: np.ndarray) -> list[bool | None]:
        """Where a missing value goes; None: as the tree says of missing values."""
        try:
            value = self._values(column, j, np.array([np.nan]))[0]
        except Exception:  # noqa: BLE001 - the model refuses it, but a feature that is not known yet goes somewhere
            value = np.float32(np.nan)
        return [None if np.isnan(value) else bool(value <= threshold) for threshold in thresholds]

    def _bounds(self, column: int, j: int, thresholds: np.ndarray) -> np.ndarray:
        """The largest number that goes left of each threshold, infinite where all or none do."""
        low, high = (np.full(len(thresholds), _ordered(edge), dtype=np.int64) for edge in (-_LARGEST, _LARGEST))
        none = self._values(column, j, _number(low)) > thresholds
        every = self._values(column, j, _number(high)) <= thresholds
        while (high > low + 1).any():  # low goes left, high does not: 63 steps
            middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their sum may be too large for an integer
            left = self._values(column, j, _number(middle)) <= thresholds
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return np.where(none, -np.inf, np.where(every, np.inf, _number(low)))


@dataclass(frozen=True)
class _Chain:
    """A split of one feature: a value up to `bounds[i]`, and above those before, goes left where `sides[i]`.

    `sides` has one more for the values above all. `missing`: whether a missing value goes left, None as the tree says.
    """

    bounds: np.ndarray
    sides: np.ndarray
    missing: bool | None


def _unfolded(tree: Tree, chains: Sequence[_Chain | None], lefts: np.ndarray, lineage: _Lineage) -> Tree:
    """The tree with a node for each threshold of its chains."""
    sizes = np.array([1 if chain is None else len(chain.bounds) for chain in chains])
    starts = np.cumsum(sizes) - sizes
    old = np.repeat(np.arange(len(sizes)), sizes)
    feature = np.full(len(old), -1, dtype=np.int32)
    threshold = np.zeros(len(old))
    left, right, missing = (np.full(len(old), -1, dtype=np.int64) for _ in range(3))
    for node, chain in enumerate(chains):
        if chain is None:
            continue
        children = starts[tree.right[node]], starts[tree.left[node]]  # by whether it goes left
        places = starts[node] + np.arange(len(chain.bounds))
        feature[places], threshold[places] = lineage[tree.feature[node]], chain.bounds
        left[places] = [children[int(side)] for side in chain.sides[:-1]]
        right[places] = np.append(places[1:], children[int(chain.sides[-1])])
        missing[places] = children[int(lefts[node] if chain.missing is None else chain.missing)]
    assert tree.cover is not None
    return Tree(feature, threshold, left, right, missing, tree.counts[old], tree.cover[old])


def _ordered(x: float) -> int:
    """A float64 as an integer in the same order."""
    bits = int(np.float64(x).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def _number(ordered: np.ndarray) -> np.ndarray:
    """The inverse of `_ordered`."""
    magnitude = np.abs(ordered).view(np.float64)
    return np.asarray(np.where(ordered < 0, -magnitude, magnitude))
