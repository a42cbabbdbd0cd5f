"""The sensible learners compared by what they earn on rows that they did not see; the best of them answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Self

import numpy as np

from app.decisions.benefit import decide, row_benefits
from app.decisions.folds import UNJUDGED, stratified_folds
from app.errors import Invalid
from app.learners._unseen import log_losses, mean_and_error, near_best, unseen
from app.learners.base import Learner
from app.learners.kinds import Kind
from app.learners.parameters import Parameter
from app.progress import part

_FOLDS = 3
_OVER = "max_seconds were over"
_BREAKDOWNS = (Invalid, np.linalg.LinAlgError, ArithmeticError)  # what a learner cannot do with some rows


CANDIDATES = ("cost_naive_bayes", "logistic", "random_forest", "gradient_boosting", "kernel_logistic")
"""In the order in which they are tried: the quick ones first."""
_KERNEL_ROWS = 3000  # above, the kernel of all rows is cut to landmarks, and time grows with every class


@dataclass(frozen=True)
class Tried:
    """What a candidate earned: `score` and its standard error per row, or None with the `reason`."""

    kind: str
    score: float | None
    standard_error: float | None
    seconds: float
    reason: str | None = None


class Automatic(Learner):
    """The best of several learners with their defaults, by cross-validation on three folds.

    The score is the mean realised benefit of the decisions with `benefits` (K, A), and without them minus the log loss.
    A candidate that is not worse than the best by a standard error of their paired difference and has the smaller log
    loss is preferred: benefits of few rows are noisy. After `max_seconds` no further candidate is begun; the first has
    no limit, nor has the final fit. A candidate that refuses the rows or breaks down on them is left out, and the next
    best takes its place if it was the winner; where none is left, the first error is raised. Fitted: `chosen_` (a
    kind), `tried_` (`Tried`, one per candidate), and `model_`, the winner fitted on all rows.
    """

    parameters = (
        Parameter(
            "max_seconds",
            "number",
            60.0,
            "Seconds after which no further candidate is tried; the first is always tried. `warnings` of the job name"
            " the others. Where fewer than 500 rows are cross-validated, the model of a fold has its share of these"
            " seconds, and all folds together have them once more, or 10 seconds if that is more.",
            low=0.0,
            high=1e6,
            above_low=True,
        ),
    )
    calibration = "none"

    def __init__(
        self,
        *,
        max_seconds: float = 60.0,
        benefits: np.ndarray | Sequence[Sequence[float]] | None = None,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_seconds = max_seconds
        self.benefits = benefits
        self.categorical_features = categorical_features
        self.random_state = random_state

    chosen_: str
    model_: Learner
    tried_: list[Tried]

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the chosen learner again; nothing is compared."""
        self.model_.refit(X, np.searchsorted(self.classes_, y))
        return self

    def ranks(self) -> bool:
        """Whether those of the chosen learner do."""
        return self.model_.ranks()

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [one.kind for one in self.tried_ if one.reason == _OVER]

    def findings(self) -> dict[str, Any]:
        """The comparison and the calibration of the winner, ready for JSON."""
        calibration = self.model_.calibration_
        return {"calibration": calibration, "chosen": self.chosen_, "candidates": [vars(one) for one in self.tried_]}

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Learner:
        fold = stratified_folds(codes, _FOLDS, 0)
        judged = fold != UNJUDGED
        names = [name for name in CANDIDATES if name != "kernel_logistic" or len(X) <= _KERNEL_ROWS]
        began = monotonic()
        values: dict[str, np.ndarray] = {}
        losses: dict[str, np.ndarray] = {}
        errors: list[Exception] = []
        self.tried_ = []
        for number, name in enumerate(names):
            if not judged.any() or (values and monotonic() - began > self.max_seconds):
                reason = _OVER if judged.any() else "no class has two rows"
                self.tried_.append(Tried(name, None, None, 0.0, reason))
                continue
            start = monotonic()
            try:
                with part(0.8 * number / len(names), 0.8 * (number + 1) / len(names), f"trying {name}"):
                    P = self._unseen(name, X, codes, weights, fold)[judged]
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(name, None, None, round(monotonic() - start, 3), str(error)))
                continue
            losses[name] = log_losses(P, codes[judged])
            values[name] = -losses[name] if self.benefits is None else self._earned(P, codes[judged])
            score, error_of_mean = mean_and_error(values[name], weights[judged])
            self.tried_.append(Tried(name, score, error_of_mean, round(monotonic() - start, 3)))
        ranked = _ranked(values, losses, weights[judged]) if judged.any() else ["logistic"]
        return self._fit_first(ranked, errors, X, codes, weights)

    def _fit_first(
        self, ranked: list[str], errors: list[Exception], X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Learner:
        """The first of the candidates that can be fitted on all rows; else the first of all errors is raised."""
        for name in ranked:
            try:
                with part(0.8, 1.0, f"fitting {name}"):
                    model = self._candidate(name).fit(X, codes, weights)
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_ = [
                    replace(one, score=None, standard_error=None, reason=str(error)) if one.kind == name else one
                    for one in self.tried_
                ]
            else:
                self.chosen_ = name
                return model
        raise errors[0]

    def _candidate(self, name: str) -> Learner:
        from app.learners.catalogue import KINDS  # noqa: PLC0415 - it collects this module's kind, too

        made: Learner = KINDS[name].estimator_class()(
            categorical_features=self.categorical_features, random_state=self.random_state
        )
        return made

    def _unseen(self, name: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Each row's probabilities (n, K) from a candidate that did not see it."""

        def fitted(number: int, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with part(number / _FOLDS, (number + 1) / _FOLDS):
                model = self._candidate(name).fit(X[inside], codes[inside], weights[inside])
            return model.classes_, model.posterior(np.ascontiguousarray(X[outside]))

        return unseen(fold, len(self.classes_), fitted)

    def _earned(self, P: np.ndarray, codes: np.ndarray) -> np.ndarray:
        B = np.asarray(self.benefits, dtype=np.float64)
        return row_benefits(codes, decide(P, B).choice, B)


def _ranked(values: dict[str, np.ndarray], losses: dict[str, np.ndarray], weights: np.ndarray) -> list[str]:
    """The best candidate first, the best of the others next, and so on."""
    left = dict(values)
    ranked: list[str] = []
    while left:
        ranked.append(_chosen(left, losses, weights))
        del left[ranked[-1]]
    return ranked


def _chosen(values: dict[str, np.ndarray], losses: dict[str, np.ndarray], weights: np.ndarray) -> str:
    """Of those within a standard error of the best value, the one of the smallest log loss."""
    return min(near_best(values, weights), key=lambda name: mean_and_error(losses[name], weights)[0])


KIND = Kind(
    "auto",
    Automatic,
    Automatic.parameters,
    "The best of naive Bayes, logistic regression, random forest, gradient boosting and kernel logistic regression, by"
    " cross-validation: with benefits by what their decisions earn, else by log loss. The card has the table.",
    benefits="optional",
    any_actions=True,
)
