"""Models that acquire features one at a time, with an estimate of when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np

from app.acquisition.session import Prices, Trajectories
from app.acquisition.stopping import Experience
from app.errors import Invalid, below
from app.learners.base import Learner
from app.learners.loading import scikit
from app.progress import part

VALIDATION = 0.2  # of the rows is held out inside a fit that chooses by them
_FOLDS = 5
_ENOUGH = 2000  # rows of experience; more rows enlarge the model's file and hardly improve its answers
_SIZES = np.geomspace(0.25, 64, 9)  # worth of a right class, in units of the price of all features
_CELLS = 2_000_000  # probabilities in memory together
LARGEST = 5_000_000  # probabilities kept, 20 MB: with many classes and features fewer rows are


class Stepwise(Learner):
    """A learner whose model acquires features one at a time.

    Fitted, after `learn_stops`: `experience_`, or None if nothing can be learned.
    """

    asks: ClassVar = True
    experience_: Experience | None = field(default=None, init=False, repr=False)

    def learn_stops(self, X: np.ndarray, y: np.ndarray, prices: Prices) -> Self:
        """Learn from the training rows X (n, m), y (n,) when another feature is not worth its price.

        Models like this one are trained on folds, and the rows outside travel through them at these `prices` of the m
        features; at most 2,000 rows, drawn class by class, so a large table costs one more fit. Without two rows of
        each class, with a model that asks for nothing, or with so many classes and features that a row of each class
        would be too much, there is nothing to learn.
        """
        codes = np.searchsorted(self.classes_, y)
        smallest = int(np.bincount(codes).min())
        self.experience_ = None
        room = min(_ENOUGH, LARGEST // ((len(self.model_.columns) + 1) * len(self.classes_)))
        if smallest < 2 or not len(self.model_.columns) or room < len(self.classes_):
            return self
        rows = self._elsewhere(X, codes, prices, min(_FOLDS, smallest), room)
        if not rows:
            return self
        trajectories, seen = (
            Trajectories.join([trajectory for trajectory, _ in rows]),
            np.concatenate([truth for _, truth in rows]),
        )
        if not trajectories.length.any() or len(np.unique(seen)) < len(self.classes_):
            return self
        ends = trajectories.P[np.arange(len(trajectories)), trajectories.length]
        self._learn_calibration(ends, seen)
        finish = (lambda P: P) if self.calibrator_ is None else self.calibrator_.apply
        self.experience_ = scikit().learn(trajectories, seen, X.shape[1], finish)
        return self

    def _again(self) -> Stepwise:
        """An unfitted learner that trains models like this one, choosing and calibrating nothing."""
        raise NotImplementedError

    def _learn_calibration(self, P: np.ndarray, codes: np.ndarray) -> None:
        """Fit the calibration on out-of-fold P (n, K), for learners that `fit` does not calibrate."""

    def _elsewhere(
        self, X: np.ndarray, codes: np.ndarray, prices: Prices, folds: int, room: int
    ) -> list[tuple[Trajectories, np.ndarray]]:
        """Trajectories of some `room` rows through models trained without them, and their classes."""
        found: list[tuple[Trajectories, np.ndarray]] = []
        needed = min(folds, math.ceil(room * folds / len(X)))
        random = scikit().check_random_state(self.random_state)
        splits = scikit().StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(X, codes)
        for number, (inside, outside) in zip(range(needed), splits, strict=False):
            if len(np.unique(codes[inside])) < len(self.classes_):
                continue
            with part(number / needed, (number + 1) / needed, f"learning when to stop, {number + 1} of {needed}"):
                model = self._again().fit(X[inside], codes[inside]).model_
                some = drawn(outside, codes, room - sum(len(truth) for _, truth in found), random)
                found.append((model.travel(X[some], prices), codes[some]))
        return found


def prices_of(feature_costs: Prices | Sequence[float] | None, m: int) -> Prices:
    """The prices of m columns: as given, one for each, or 1 each; Invalid at `/feature_costs`."""
    with below("/feature_costs"):
        costs = Prices.unit(m) if feature_costs is None else feature_costs
        prices = costs if isinstance(costs, Prices) else Prices.of(costs)
    if len(prices) != m:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {m} features")
    return prices


def drawn(rows: np.ndarray, codes: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """A stratified random sample of `count` rows, with at least one of each class."""
    if count >= len(rows):
        return rows
    mixed = random.permutation(rows)
    by_class = mixed[np.argsort(codes[mixed], kind="stable")]
    even = np.linspace(0, len(rows) - 1, max(count, 0)).astype(np.intp)
    return by_class[np.union1d(even, np.unique(codes[by_class], return_index=True)[1])]


def net_benefits(
    learner: Any,
    X: np.ndarray,
    codes: np.ndarray,
    feature_costs: Prices | Sequence[float] | None,
    B: np.ndarray | Sequence[Sequence[float]] | None,
) -> np.ndarray:
    """What each row of X (n, m) with its class in `codes` (n,) earns with benefits B (K, A), less what it is charged.

    Each row is asked as `/acquire` does, until more is not worth its price, by the `experience_` of the fitted
    `learner`, which has not seen these rows. Without B a right class is worth 1, and prices count in that unit: the
    mean over nine sizes of it, from a quarter of the price of all features to 64 times that.
    """
    priced, K = prices_of(feature_costs, X.shape[1]), len(learner.classes_)
    total = float(priced.cost.sum())
    sizes = total * _SIZES if B is None and total else np.ones(1)
    matrix = np.eye(K) if B is None else np.asarray(B, dtype=np.float64)
    known = learner.experience_
    worths = [None if known is None else known.worth(size * matrix, priced) for size in sizes]
    block = max(1, _CELLS // ((len(learner.model_.columns) + 1) * (K + matrix.shape[1])))
    earned = np.empty(len(X))
    for start in range(0, len(X), block):
        rows = slice(start, start + block)
        seen = _travelled(learner, X[rows], codes[rows], priced)
        stake, now = seen.valued(matrix)
        everyone, most = np.arange(len(seen)), matrix.max(axis=1)[seen.y]
        found = []
        for size, worth in zip(sizes, worths, strict=True):
            ends, paid = seen.ends(worth, size * stake, priced)
            found.append(most + now[everyone, ends] - paid[everyone, ends] / size)
        earned[rows] = np.mean(found, axis=0)
    return earned


def _travelled(learner: Any, X: np.ndarray, codes: np.ndarray, prices: Prices) -> Experience:
    """The rows in every state to the end, with the probabilities that `/acquire` gives there."""
    run = learner.model_.travel(X, prices)
    n, states, K = run.P.shape
    known, ends = np.broadcast_to(np.arange(states), (n, states)), run.length[:, None]
    P = np.where((known <= ends)[:, :, None], run.P, 1 / K).reshape(-1, K)
    final = P if learner.calibrator_ is None else learner.calibrator_.apply(P)
    curve = None if learner.experience_ is None else learner.experience_.curve
    partly = final if curve is None else curve.apply(P, known.ravel().astype(np.float64))
    calibrated = np.where((known < ends).reshape(-1, 1), partly, final).reshape(run.P.shape)
    return Experience(run.asked, run.missing, run.length, calibrated, codes, None, X.shape[1])
