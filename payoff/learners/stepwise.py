"""Models that acquire features one at a time, with an estimate of when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from payoff.acquisition.prices import Prices
from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Experience, state_probabilities, stopping_states
from payoff.decisions.folds import Blocks, shuffled_groups, splits, stratified_folds
from payoff.errors import Invalid, below
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.rows import weights_or_ones
from payoff.progress import part

_VALIDATION_SHARE = 0.2  # the share of rows that a fit holds out to choose by
_FOLDS = 5
# Rows of experience; more rows enlarge the model's file and hardly improve its answers.
MAX_ROWS_OF_EXPERIENCE = 2000
# Probabilities of experience, 20 MB: with many classes and features fewer rows are kept.
MAX_NUMBERS_OF_EXPERIENCE = 5_000_000


class Stepwise(Learner):
    """A learner whose model acquires features one at a time.

    Fitted, after `learn_stops`: `experience_`, or None if nothing can be learned.
    """

    asks: ClassVar = True
    experience_: Experience | None = field(default=None, init=False, repr=False)

    def learn_stops(
        self,
        X: np.ndarray,
        y: np.ndarray,
        prices: Prices,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """Learn from the training rows X (n, m), y (n,) when another feature is not worth its
        price.

        Models like this one are trained on folds, and the rows outside travel through them at these
        `prices` of the m features; at most 2,000 rows, drawn class by class, so a large table costs
        one more fit. Without two rows of each class, with a model that asks for nothing, or with so
        many classes and features that a row of each class would be too much, there is nothing to
        learn. Rows are drawn by their weights (n,): the experience itself has none. With `blocks`
        the folds do not divide them.
        """
        codes = np.searchsorted(self.classes_, y)
        smallest = int(np.bincount(codes).min())
        self.experience_ = None
        room = room_for(len(self.model_.columns), len(self.classes_))
        if smallest < 2 or not len(self.model_.columns) or room < len(self.classes_):
            return self
        weights = weights_or_ones(sample_weight, len(X))
        folds = min(_FOLDS, smallest)
        with self._splitting(blocks):
            parts = self._out_of_fold(X, codes, weights, prices, folds, room)
        rows = np.concatenate([np.arange(0), *(numbers for _, numbers in parts)])
        truth = codes[rows]
        # Whole groups, or stretches of time, may lack a class.
        if len(np.unique(truth)) < len(self.classes_):
            return self
        trajectories = Trajectories.join([trajectory for trajectory, _ in parts])
        if not trajectories.length.any():
            return self
        ends = trajectories.P[np.arange(len(trajectories)), trajectories.length]
        with self._splitting(None if blocks is None else blocks.take(rows)):
            self._learn_calibration(ends, truth)
        finish = (lambda P: P) if self.calibrator_ is None else self.calibrator_.apply
        self.experience_ = loading.scikit.learn(trajectories, truth, X.shape[1], finish)
        return self

    def _again(self) -> Stepwise:
        """An unfitted learner of models like this one, which chooses and calibrates nothing."""
        raise NotImplementedError

    def _learn_calibration(self, P: np.ndarray, codes: np.ndarray) -> None:
        """Fit the calibration on out-of-fold P (n, K), where `fit` does not calibrate."""

    def _out_of_fold(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        prices: Prices,
        folds: int,
        room: int,
    ) -> list[tuple[Trajectories, np.ndarray]]:
        """Trajectories of about `room` rows through models trained without them, and their numbers.

        Every fold has all classes, unless it is of blocks.
        """
        experience: list[tuple[Trajectories, np.ndarray]] = []
        size = 0
        random = loading.scikit.check_random_state(self.random_state)
        fold = self._shuffled_folds(codes, folds)
        needed = folds_with_all_classes(codes, fold, math.ceil(room * folds / len(X)))
        for number, (inside, outside) in enumerate(splits(fold)[:needed]):
            stage = f"learning when to stop, {number + 1} of {needed}"
            with part(number / needed, (number + 1) / needed, stage):
                learner = self._again()
                model = learner.fit(X[inside], codes[inside], weights[inside]).model_
                drawn = drawn_by_weight(outside, codes, weights, random)
                rows = stratified_sample(drawn, codes, room - size, random)
                experience.append((model.travel(X[rows], prices), rows))
                size += len(rows)
        return experience


def while_worth(
    learner: Any, X: np.ndarray, prices: Prices, benefits: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, K) where a fitted learner stops asking, and the prices (n,) paid.

    For rows X (n, m), NaN where missing. With benefits (K, A) it asks while a feature is worth its
    price, else to its end.
    """
    trajectories = learner.model_.travel(X, prices)
    ends = trajectories.length
    probabilities = partial(
        state_probabilities,
        calibrator=learner.calibrator_,
        experience=learner.experience_,
    )
    if benefits is not None and learner.experience_ is not None:
        worth = benefits, learner.experience_.worth(benefits, prices)
        ends = stopping_states(trajectories, [worth], np.zeros(len(X)), probabilities)
    finished = trajectories.resolved & (ends == trajectories.length)
    rows = np.arange(len(X))
    P = probabilities(trajectories.P[rows, ends], ends, finished)
    return P, trajectories.spent[rows, ends]


def room_for(steps: int, n_classes: int) -> int:
    """The number of rows of experience that are kept, by the numbers of features and classes."""
    return min(
        MAX_ROWS_OF_EXPERIENCE, MAX_NUMBERS_OF_EXPERIENCE // ((steps + 1) * n_classes)
    )


def folds_with_all_classes(codes: np.ndarray, fold: np.ndarray, count: int) -> int:
    """The number of first folds (n,), at least `count` if there are as many, that together have
    every class (n,) that any fold has.
    """
    codes, fold = codes[fold >= 0], fold[fold >= 0]
    firsts = [int(fold[codes == k].min()) for k in np.unique(codes)]
    return min(max(count, 1 + max(firsts, default=-1)), int(fold.max(initial=-1)) + 1)


def validation_folds(
    groups: np.ndarray,
    random: np.random.RandomState,
    enough: int = 1,
    blocks: Blocks | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to train on and to validate on, with the same share of each group (n,).

    No row is held out twice. As many folds as hold out `enough` rows together, or all that there
    are. With too few rows to hold one out, both are all rows. With `blocks` no fold divides them,
    and by time the first has the last fifth.
    """
    rows = np.arange(len(groups))
    if blocks is not None:
        seed = int(random.randint(np.iinfo(np.int32).max))
        fold = stratified_folds(groups, round(1 / _VALIDATION_SHARE), seed, blocks)
        sizes = np.cumsum(np.bincount(fold[fold >= 0]))
        parts = splits(fold)[: int(np.searchsorted(sizes, enough)) + 1]
        return parts or [(rows, rows)]
    shuffled = shuffled_groups(groups, _VALIDATION_SHARE, random)
    total = sum(size for _, size in shuffled)
    if not total:
        return [(rows, rows)]
    folds = []
    for f in range(min(math.ceil(enough / total), int(1 / _VALIDATION_SHARE))):
        outside = np.concatenate(
            [order[f * size : (f + 1) * size] for order, size in shuffled]
        )
        if len(outside):
            folds.append((np.setdiff1d(rows, outside), np.sort(outside)))
    return folds


def prices_of(feature_costs: Prices | Sequence[float] | None, m: int) -> Prices:
    """The prices of m columns: those of `feature_costs`, or 1 each; Invalid at `/feature_costs`."""
    with below("/feature_costs"):
        costs = Prices.unit(m) if feature_costs is None else feature_costs
        prices = costs if isinstance(costs, Prices) else Prices.of(costs)
    if len(prices) != m:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {m} features")
    return prices


def drawn_by_weight(
    rows: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    random: np.random.RandomState,
) -> np.ndarray:
    """Rows as often as their weights say, and one of each class; as they are where all are equal.

    Systematic sampling: a row of weight w occurs `w / mean w` times, rounded up or down at random.
    """
    if (weights[rows] == weights[rows[0]]).all():
        return rows
    sums = weights[rows].cumsum()
    places = (np.arange(len(rows)) + random.random_sample()) * (sums[-1] / len(rows))
    drawn = rows[np.minimum(np.searchsorted(sums, places), len(rows) - 1)]
    first_of_class = np.unique(codes[rows], return_index=True)[1]
    return np.concatenate((drawn, rows[first_of_class]))


def stratified_sample(
    rows: np.ndarray, codes: np.ndarray, count: int, random: np.random.RandomState
) -> np.ndarray:
    """A stratified random sample of `count` rows, with at least one of each class."""
    if count >= len(rows):
        return rows
    mixed = random.permutation(rows)
    by_class = mixed[np.argsort(codes[mixed], kind="stable")]
    even = np.linspace(0, len(rows) - 1, max(count, 0)).astype(np.intp)
    return by_class[np.union1d(even, np.unique(codes[by_class], return_index=True)[1])]
