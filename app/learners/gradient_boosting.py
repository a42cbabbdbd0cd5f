"""scikit-learn's histogram gradient boosting on raw rows, cost-blind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import ThreadpoolController

from app.decisions.calibration import fit_calibrator
from app.decisions.contributions import Contributions
from app.decisions.folds import UNJUDGED
from app.learners._unseen import log_losses
from app.learners.base import ALL, Dealt, Learner, stage_name
from app.learners.plain_kinds import GRADIENT_BOOSTING, LARGE_LEAVES, LEAVES
from app.progress import part, report

MAX_CATEGORIES = 255
"""What scikit-learn's bins hold; of a feature with more, the most common have codes of their own."""
# Rounds after which a fit may end, as parts of `max_iter`: finer steps gained nothing on the UCI tables.
_STAGES = np.array([0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0])
# Progress reports of a fit. Each bins the rows again: a few per cent of the time without weights, but with weights
# scikit-learn takes a quarter of a second per feature for it, so such a fit has one report.
_STEPS = 10
# Up to so many rows one thread serves a request. Every tree opens a parallel region: with busy cores 500 of them took
# 290 ms for one row on two threads, against 3 ms on one.
_ONE_THREAD = 1000
_openmp = ThreadpoolController().select(user_api="openmp")


@dataclass(frozen=True)
class Boosted:
    """Probabilities from raw rows; `pools` holds (column, new code by old code) of features with many categories."""

    model: HistGradientBoostingClassifier
    pools: tuple[tuple[int, np.ndarray], ...]

    def posterior(self, X: np.ndarray) -> np.ndarray:
        if not len(X):  # scikit-learn refuses no rows
            return np.empty((0, len(self.model.classes_)))
        rows = pooled(X, self.pools)
        if len(rows) > _ONE_THREAD:
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)
        with _openmp.limit(limits=1):
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        from app.learners._boosted_trees import contributions  # noqa: PLC0415 - its compiler takes 60 MB

        return contributions(self.model, pooled(X, self.pools), chosen)


class GradientBoosting(Learner):
    """Boosted trees on binned features, missing values and categories taken as they are, then calibrated.

    Up to `max_iter` trees per class (for two classes in all), each of `max_leaf_nodes` leaves at most (`auto`: by the
    number of rows; None: no limit) of `min_samples_leaf` rows at least, shrunk by `learning_rate`, their leaves by
    `l2_regularization`: scikit-learn's HistGradientBoostingClassifier. With `early_stopping` the rounds are those of
    the smallest calibrated log loss on the folds of the calibration, where there is one. So rows, parameters and seed
    decide the model. Of a categorical feature with more than 255 categories the 254 of the largest weight stay apart
    and the others count as one (scikit-learn would refuse it). The other parameters are `Learner`'s. Fitted, besides
    `Learner`'s: `n_iter_`. Raises Invalid for a parameter out of range.

    A fit takes five fits of `max_iter` rounds on four fifths of the rows, and one of `n_iter_`. A row takes
    scikit-learn 0.7 ms at 100 trees, 3 ms at 500, and 1 ms more with categories: its trees have no public form that a
    quicker walk could use.
    """

    # Boosting is overconfident: on six of the UCI tables, whole and cut to 150 rows (smallest class 4 to 247), the
    # sigmoid lowered held-out log loss every time, by 15 to 40 %, and beat isotonic nearly always.
    _fewest: ClassVar[int] = 4
    parameters = GRADIENT_BOOSTING.parameters
    model_: Boosted

    def __init__(
        self,
        *,
        max_iter: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | str | None = "auto",
        min_samples_leaf: int = 10,
        l2_regularization: float = 1.0,
        early_stopping: bool = True,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.early_stopping = early_stopping
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    @property
    def n_iter_(self) -> int:
        """The rounds that the last fit took."""
        return int(self.model_.model.n_iter_)

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:  # noqa: ARG002 - the rows count
        self.rounds_ = int(self.max_iter)
        self.max_leaf_nodes_ = self.max_leaf_nodes
        if self.max_leaf_nodes == "auto":
            self.max_leaf_nodes_ = next((leaves for rows, leaves in LEAVES if len(X) <= rows), LARGE_LEAVES)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Boosted:
        steps = _STEPS if bool((weights == 1.0).all()) else 1
        rounds = np.unique(np.linspace(0, self.rounds_, steps + 1).astype(int))[1:]
        *_, boosted = self._grown(X, codes, weights, rounds)
        return boosted

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        if not self.early_stopping:
            return super()._fit_folds(dealt, folds)
        stages = np.unique(np.ceil(_STAGES * int(self.max_iter)).astype(int))
        P: np.ndarray = np.empty((len(stages), len(dealt.X), len(self.classes_)), dtype=np.float32)
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(_fold_stages)(self._seeded(), *dealt, number, folds, stages) for number in range(folds)
        )
        for number, scores in enumerate(fits):
            P[:, dealt.fold == number] = scores
            report((number + 1) / (folds + 1), stage_name(number, folds))
        best = int(np.argmin([self._loss(scores, dealt) for scores in P]))
        self.rounds_ = int(stages[best])
        with part(folds / (folds + 1), 1.0, stage_name(folds, folds)):
            self.model_ = self._fit_raw(*dealt.without(ALL))
        return np.asarray(P[best], dtype=np.float64)

    def _loss(self, P: np.ndarray, dealt: Dealt) -> float:
        """The log loss of unseen rows' probabilities (n, K) once they are calibrated: what too many rounds leave."""
        judged = dealt.fold != UNJUDGED
        P, codes, weights = P[judged].astype(np.float64), dealt.codes[judged], dealt.weights[judged]
        calibrator = fit_calibrator(self.calibration_, P, codes, weights)
        return float(weights @ log_losses(calibrator.apply(P), codes))

    def _grown(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, rounds: np.ndarray) -> Iterator[Boosted]:
        """The same model after each of so many rounds; arguments as for `_fit_raw`."""
        columns = self._categorical()
        pools = tuple((j, table) for j in columns if (table := pool(X[:, j], weights)) is not None)
        rows = pooled(X, pools)
        unknown = np.isnan(rows).all(axis=0)
        if unknown.any():  # scikit-learn cannot bin a column without values; a constant one is never split
            rows = np.where(unknown, 0.0, rows)
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes_,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            categorical_features=columns or None,
            early_stopping=False,
            warm_start=True,
            random_state=self.random_state,
        )
        alike = bool((weights == 1.0).all())
        for step in rounds:
            model.set_params(max_iter=int(step)).fit(rows, codes, sample_weight=None if alike else weights)
            report(step / rounds[-1])
            yield Boosted(model, pools)
        model.set_params(warm_start=False)


def _fold_stages(
    learner: GradientBoosting, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray,
    number: int, folds: int, stages: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Probabilities (stages, rows, K) of the rows of a fold by a model without them, after each of `stages` rounds.

    As float32: all stages of all rows are in memory together, and calibration does not see the difference.
    """
    dealt = Dealt(X, codes, weights, fold)
    rows = np.ascontiguousarray(dealt.only(number))
    with part(number / (folds + 1), (number + 1) / (folds + 1), stage_name(number, folds)):
        grown = learner._grown(*dealt.without(number), stages)  # noqa: SLF001 - a part of the class's own fit
        scores: np.ndarray = np.stack([boosted.posterior(rows).astype(np.float32) for boosted in grown])
        return scores


def pool(codes: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """New code by old code for a column of more than 255 categories, or None where it has fewer.

    The 254 of the largest weight (ties to the lower code) become 0…253 and the rest 254; a code that the column
    lacks becomes NaN. O(n + largest code).
    """
    known = ~np.isnan(codes)
    sums = np.bincount(codes[known].astype(np.intp), weights[known])
    seen = np.flatnonzero(sums)
    if len(seen) <= MAX_CATEGORIES:
        return None
    table = np.full(len(sums), np.nan)
    table[seen] = MAX_CATEGORIES - 1
    own = seen[np.argsort(-sums[seen], kind="stable")][: MAX_CATEGORIES - 1]
    table[np.sort(own)] = np.arange(MAX_CATEGORIES - 1)
    return table


def pooled(X: np.ndarray, pools: tuple[tuple[int, np.ndarray], ...]) -> np.ndarray:
    """Rows with the columns of `pools` given their new codes; X itself where there are none."""
    if not pools:
        return X
    X = X.copy()
    for j, table in pools:
        beyond = len(table)  # where missing and later codes find NaN
        codes = np.fmin(X[:, j], beyond).astype(np.intp)
        X[:, j] = np.append(table, np.nan)[codes]
    return X
