"""scikit-learn's random forest, as flat trees that predict fast and acquire features one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.categories import Orders, order_categories
from app.acquisition.forest import FlatForest, converted
from app.acquisition.nodes import Nodes, beside, flatten
from app.errors import Invalid
from app.learners.base import ALL, Dealt, stage_name
from app.learners.stepwise import Stepwise
from app.learners.stepwise_kinds import RANDOM_FOREST
from app.progress import report

_CELLS = 8_000_000  # of the table, times trees, in one piece of work: a third of a second or so
_MAX = 16  # trees between two reports of progress
_LARGEST = float(np.finfo(np.float32).max)


class RandomForest(Stepwise):
    """Random forest (Breiman 2001) as scikit-learn grows it, with calibrated probabilities.

    `n_estimators`, `max_features` (features looked at per split: a number, a fraction, `sqrt`, `log2`; None is all) and
    `min_samples_leaf` mean what they mean there; `n_jobs` threads do not change the result. Categories are put in the
    order of their class distributions and then split like numbers. The other parameters are `Learner`'s.
    `predict` takes the largest (calibrated) probability; `model_.predict` is the plain vote of the trees.
    Fitted: as `Stepwise`. Answering costs O(trees x depth) a row.
    """

    parameters = RANDOM_FOREST.parameters

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: float | str | None = "sqrt",
        min_samples_leaf: int = 1,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self) -> None:
        if isinstance(self.max_features, int | np.integer) and self.max_features > self.n_features_in_:
            raise Invalid.at("/max_features", f"max_features is {self.max_features} of {self.n_features_in_} features")

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def _again(self) -> RandomForest:
        again: RandomForest = clone(self).set_params(calibration="none")
        return again

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> FlatForest:
        ((_, forest),) = self._forests(Dealt(X, codes, weights, np.full(len(X), ALL, dtype=np.int8)), [ALL])
        return forest

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        P = np.empty((len(dealt.X), len(self.classes_)))
        for fold, forest in self._forests(dealt, [*range(folds), ALL]):
            if fold == ALL:
                self.model_ = forest
            else:
                P[dealt.fold == fold] = forest.posterior(np.ascontiguousarray(dealt.only(fold)))
        return P

    def _forests(self, dealt: Dealt, folds: list[int]) -> Iterator[tuple[int, FlatForest]]:
        """The forest without each of the folds; a piece of work is some trees of one of them."""
        if len(dealt.X) and np.nanmax(np.abs(dealt.X), initial=0.0) > _LARGEST:
            raise Invalid.at("", f"a random forest takes values up to {_LARGEST:.3g}")
        rows = dealt._replace(X=dealt.X.astype(np.float32))  # what scikit-learn's trees compare, at half the size
        batch = int(np.clip(_CELLS // max(rows.X.size, 1), 1, _MAX))
        starts = range(0, self.n_estimators, batch)
        models = {fold: self._model() for fold in folds}
        common = (len(self.classes_), self._categorical(), *rows)
        grown = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")(
            delayed(grow_some)(models[fold], *common, fold, start, min(batch, self.n_estimators - start))
            for fold in folds
            for start in starts
        )
        done = 0
        for number, fold in enumerate(folds):
            stage = stage_name(number, len(folds) - 1) if len(folds) > 1 else "growing trees"
            parts, roots, orders = [], [], Orders()
            for nodes, values, orders in islice(grown, len(starts)):  # noqa: B007 - all have the same orders
                parts.append(nodes)
                roots.append(values)
                done += len(values)
                report(done / (self.n_estimators * len(folds)), stage)
            prior = np.concatenate(roots).mean(axis=0)
            yield fold, FlatForest(beside(parts, prior / prior.sum()), dealt.X.shape[1], orders)

    def _model(self) -> RandomForestClassifier:
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(np.iinfo(np.int32).max))
        return RandomForestClassifier(
            max_features=self.max_features, min_samples_leaf=self.min_samples_leaf, random_state=seed, warm_start=True,
            n_jobs=1,
        )  # fmt: skip


def grow_some(
    model: RandomForestClassifier, n_classes: int, categorical: Sequence[int],
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, without: int, start: int, count: int,
) -> tuple[Nodes, np.ndarray, Orders]:  # fmt: skip
    """Trees `start`, `start` + 1, … of a forest of all rows but those in one fold, as they are in the whole forest.

    Returns them flat, the class distributions at their roots (count, K), and the order of the categories.
    """
    rows, truth, weight = Dealt(X, codes, weights, fold).without(without)
    orders = order_categories(rows, truth, weight, n_classes, categorical)
    # Equal weights are none: scikit-learn draws its rows in another way once there are weights.
    counted = None if (weight == weight[0]).all() else weight
    grown = clone(model).set_params(n_estimators=start + count)
    grown.estimators_ = [None] * start  # a warm start passes over those that are there, and over their seeds
    grown.fit(orders.apply(rows), truth, sample_weight=counted)
    trees = [converted(tree.tree_) for tree in grown.estimators_[start:]]
    roots = np.array([tree.counts[0] for tree in trees])
    return flatten(trees, roots[0]), roots, orders
