"""The sensible learners compared by what they earn on rows that they did not see; the best of them answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from app.acquisition.session import Prices
from app.decisions.benefit import decide, row_benefits
from app.decisions.folds import UNJUDGED, stratified_folds
from app.errors import Invalid
from app.learners.base import Learner
from app.learners.budget_forest import BudgetForest
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.forest_chain import ForestChain
from app.learners.gradient_boosting import GradientBoosting
from app.learners.kernel_logistic import KernelLogistic
from app.learners.logistic import Logistic
from app.learners.random_forest import RandomForest
from app.learners.stepwise import Stepwise, net_benefits, prices_of
from app.learners.unseen import log_losses, mean_and_error, near_best, unseen
from app.progress import part

_FOLDS = 3
_OVER = "max_seconds were over"
_BREAKDOWNS = (Invalid, np.linalg.LinAlgError, ArithmeticError)  # what a learner cannot do with some rows


@dataclass(frozen=True)
class Candidate:
    """A learner with its parameters, and the seconds of work for each number of the table and fit: an estimate, so that
    a busy machine tries what an idle one does.
    """

    learner: type[Learner]
    seconds: float
    parameters: Mapping[str, Any] = field(default_factory=dict)


CANDIDATES = {
    "cost_naive_bayes": Candidate(CostNaiveBayes, 1e-6),
    "logistic": Candidate(Logistic, 2e-6),
    "random_forest": Candidate(RandomForest, 2e-5),
    "gradient_boosting": Candidate(GradientBoosting, 2e-5),
    "kernel_logistic": Candidate(KernelLogistic, 3e-5),
}
"""In the order in which they are tried: the quick ones first."""
PRICED = {
    "forest_chain": Candidate(ForestChain, 3e-5),
    "budget_forest": Candidate(BudgetForest, 3e-5),
    "random_forest": Candidate(RandomForest, 2e-5, {"n_estimators": 40, "max_features": None, "min_samples_leaf": 1}),
}
"""Candidates with prices, in the order in which they are tried and preferred."""
_JUDGED = 3000  # rows are enough to judge these: a larger table costs each of them one fit
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
    """The best of naive Bayes, logistic regression, random forest, gradient boosting and kernel logistic regression, by
    cross-validation: with benefits by what their decisions earn, else by log loss. With `feature_costs` the best of
    forest chain, budget forest and random forest by net benefit; it answers `/acquire`. The card has the table.

    There are three folds. The score is the mean realised benefit of the decisions with `benefits` (K, A), and without
    them minus the log loss. A candidate that is not worse than the best by a standard error of their paired difference
    and has the smaller log loss is preferred: benefits of few rows are noisy. After `max_seconds` of work, estimated
    from the size of the table and the same on every machine, no further candidate is begun; the first has no limit, nor
    has the final fit. A candidate that refuses the rows or breaks down on them is left out; where none is left,
    the first error is raised. Fitted: `chosen_` (a kind), `tried_`
    (`Tried`, one per candidate), and `model_`, the winner fitted on all rows.

    With `feature_costs` (Prices, or one price >= 0 for each column) the candidates are `PRICED`, which ask for one
    feature after the other. The score is the net benefit of asking (`net_benefits`) on rows that neither the forests
    nor their stop have seen; above 9,000 rows, of 3,000 rows or more. Of those within a standard error of the best the
    first is taken.
    """

    name: ClassVar = "auto"
    max_seconds: Annotated[
        float,
        Field(gt=0, le=1e6),
        "Seconds of work, estimated from the size of the table, after which no further candidate is tried; the first is"
        " always tried. `warnings` of the job name the others.",
    ] = 60.0
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None
    feature_costs: Prices | Sequence[float] | None = None

    any_actions: ClassVar = True
    model_: Learner = field(init=False, repr=False)

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the chosen learner again; nothing is compared."""
        self.model_.refit(X, np.searchsorted(self.classes_, y))
        return self

    def ranks(self) -> bool:
        """Whether those of the chosen learner do."""
        return self.model_.ranks()

    @property
    def stepwise(self) -> bool:
        """Whether the model answers `/acquire`."""
        return self.feature_costs is not None

    @property
    def winner(self) -> Learner:
        """The learner that was chosen, fitted."""
        return self.model_

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [one.kind for one in self.tried_ if one.reason == _OVER]

    def findings(self) -> dict[str, Any]:
        """The comparison and the calibration of the winner, ready for JSON."""
        found = {"calibration": self.model_.calibration_, "chosen": self.chosen_}
        if not self.stepwise:
            return {**found, "candidates": [vars(one) for one in self.tried_]}
        own: dict[str, Any] = getattr(self.model_, "findings", dict)()
        candidates = [vars(one) | {"parameters": PRICED[one.kind].parameters} for one in self.tried_]
        return {**found, **own, "candidates": candidates}

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Learner:
        fold = self.folds(codes)
        judged = fold != UNJUDGED
        names = [name for name in self._candidates() if name != "kernel_logistic" or len(X) <= _KERNEL_ROWS]
        work, fits = 0.0, len(np.unique(fold[judged]))
        values: dict[str, np.ndarray] = {}
        ties: dict[str, np.ndarray] = {}  # of those that earn about the same the smaller is preferred
        errors: list[Exception] = []
        self.tried_ = []
        for number, name in enumerate(names):
            if not judged.any() or (values and work > self.max_seconds):
                reason = _OVER if judged.any() else "no class has two rows"
                self.tried_.append(Tried(name, None, None, 0.0, reason))
                continue
            start = monotonic()
            work += self._candidates()[name].seconds * X.size * fits
            try:
                with part(0.8 * number / len(names), 0.8 * (number + 1) / len(names), f"trying {name}"):
                    found = self._unseen(name, X, codes, weights, fold)[judged]
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(name, None, None, round(monotonic() - start, 3), str(error)))
                continue
            values[name], ties[name] = self._measured(found, codes[judged], number)
            score, error_of_mean = mean_and_error(values[name], weights[judged])
            self.tried_.append(Tried(name, score, error_of_mean, round(monotonic() - start, 3)))
        if errors and not values:
            raise errors[0]
        usual = names[0] if self.stepwise else "logistic"
        self.chosen_ = best_of(values, ties, weights[judged]) if values else usual
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            return self._fitted(self.chosen_, X, codes, weights)

    def folds(self, codes: np.ndarray) -> np.ndarray:
        """The fold of each row; `UNJUDGED` are those that every model learns from."""
        few = not self.stepwise or len(codes) <= _FOLDS * _JUDGED
        fold = stratified_folds(codes, _FOLDS if few else len(codes) // _JUDGED, 0)
        return fold if few else np.where(fold > 0, UNJUDGED, fold)

    def _candidates(self) -> dict[str, Candidate]:
        return PRICED if self.stepwise else CANDIDATES

    def _candidate(self, name: str) -> Learner:
        candidate = self._candidates()[name]
        own: dict[str, Any] = dict(candidate.parameters)
        if self.stepwise and "feature_costs" in candidate.learner().get_params(deep=False):
            own["feature_costs"] = self.feature_costs
        return candidate.learner(categorical_features=self.categorical_features, random_state=self.random_state, **own)

    def _fitted(self, name: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Learner:
        """The candidate fitted; with prices it has learned when to stop."""
        with part(0.0, 0.6 if self.stepwise else 1.0):
            model = self._candidate(name).fit(X, codes, weights)
        if self.stepwise and isinstance(model, Stepwise):  # a chain has learned it
            with part(0.6, 1.0):
                model.learn_stops(X, codes, prices_of(self.feature_costs, X.shape[1]))
        return model

    def _unseen(self, name: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Each row's probabilities (n, K) from a candidate that did not see it; with prices its net benefit (n, 1)."""
        folds = int(fold.max()) + 1

        def answered(number: int, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with part(number / folds, (number + 1) / folds):
                model = self._fitted(name, X[inside], codes[inside], weights[inside])
            rows = np.ascontiguousarray(X[outside])
            if not self.stepwise:
                return model.classes_, model.posterior(rows)
            earned = net_benefits(model, rows, codes[outside], self.feature_costs, self.benefits)
            return np.zeros(1, dtype=np.intp), earned[:, None]

        return unseen(fold, 1 if self.stepwise else len(self.classes_), answered)

    def _measured(self, found: np.ndarray, codes: np.ndarray, place: int) -> tuple[np.ndarray, np.ndarray]:
        """What each row earns (n,), and by what candidates that earn about the same are told apart (n,)."""
        if self.stepwise:
            return found[:, 0], np.full(len(found), place)
        losses = log_losses(found, codes)
        if self.benefits is None:
            return -losses, losses
        B = np.asarray(self.benefits, dtype=np.float64)
        return row_benefits(codes, decide(found, B).choice, B), losses


def best_of(values: dict[str, np.ndarray], ties: dict[str, np.ndarray], weights: np.ndarray) -> str:
    """Of those within a standard error of the best value, the one with the smallest mean of `ties`."""
    return min(near_best(values, weights), key=lambda name: mean_and_error(ties[name], weights)[0])
