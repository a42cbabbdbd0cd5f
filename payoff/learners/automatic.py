"""A learner that tries the usual learners, and keeps the best blend of them on unseen rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import UNJUDGED, Blocks, stratified_folds
from payoff.decisions.row_weights import effective_rows
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.blend import Blend, best_blend
from payoff.learners.candidates import (
    CANDIDATES,
    PRICED_CANDIDATES,
    PRICED_NUMBERS,
    REGRESSORS,
    Tried,
    UnitCosts,
)
from payoff.learners.forest_chain import ForestChain
from payoff.learners.gradient_boosting import GradientBoosting, in_folds
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.parameters import Task
from payoff.learners.priced import (
    FOLDS,
    answer_values,
    best_of,
    doubts_of_asking,
    unseen_answers,
)
from payoff.learners.residuals import Residuals
from payoff.learners.rows import FoldedRows
from payoff.learners.stepwise import Stepwise, prices_of, stratified_sample
from payoff.learners.unseen import mean_and_error, minus_logs
from payoff.progress import part, report

_Result = TypeVar("_Result")
_OUT_OF_TIME = "max_seconds were over"
_NO_PAIR = "no class has two rows"
# The errors of a learner that cannot be fitted on the rows.
_BREAKDOWNS = (Invalid, np.linalg.LinAlgError, ArithmeticError)

_KERNEL_ROWS = 3000
"""Rows above which the kernel of all rows is cut to landmarks, and time grows with every class."""


class Automatic(Learner):
    """A blend of up to three of naive Bayes, logistic regression, random forest, gradient boosting
    and kernel logistic regression: the mean of their probabilities, by the log loss of rows that
    they did not see. Of numbers a blend of linear regression, random forest and gradient boosting,
    by squared error or `unit_costs`. With `feature_costs` the best of a forest chain, a random
    forest, a budget forest, and a forest of the free features alone, which answer `/acquire`, by
    what they earn less the price of what they ask for. The card has the table.

    Each candidate is fitted once: the folds of its calibration give each row probabilities of a
    model that did not see it. The blend is chosen by `best_blend`, and calibrated by a sigmoid
    where 20 rows are outside of the most common class. One kind alone stays as it is. What the
    decisions of a candidate earn with `benefits` (K, A), or (n, K, A) for the rows that `fit`
    gets, is reported. After `max_seconds` of work, estimated from the size of the table and the
    same on every machine, no further candidate is begun; the first has no limit. A candidate that
    refuses the rows or breaks down on them is left out; where none is left, the first error is
    raised. Fitted: `chosen_` (the kinds, joined by " + "), `tried_` (`Tried`, one per candidate),
    and `model_`, a fitted learner or a `Blend`; of numbers the `Residuals` around it.

    `unit_costs` judge the quantile that they ask for, in the same distance from all numbers.

    With `feature_costs` (Prices, or one price >= 0 for each column) there are three folds, and the
    winner is fitted on all rows. Every candidate asks each unseen row for one feature after the
    other, with benefits as long as that is worth its price, and pays for them; the score is what it
    earns less what it pays. Of those that are not worse than the best by a standard error of their
    paired difference the chain is preferred with benefits, and without them what asks for the
    cheapest features. At most 100,000 numbers of the table are compared. What `learn_stops` keeps
    of its folds does not replace these three: the stops were fitted to the same rows.
    """

    name: ClassVar = "auto"
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_seconds: Annotated[
        float,
        Field(gt=0, le=1e6),
        "Seconds of work, estimated from the size of the table, after which no further candidate"
        " is tried; the first is always tried. `warnings` of the job name the others.",
    ] = 60.0
    unit_costs: Annotated[
        UnitCosts | None,
        "Of numbers: what each unit of a quantity too much (`over`) and too little (`under`) costs;"
        " the blend is the one whose quantities cost least. Null: the least squared error.",
        # The schema is cut: generators of clients fail at an object within alternatives.
        WithJsonSchema({}),
    ] = None
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None
    feature_costs: Prices | Sequence[float] | None = None

    any_actions: ClassVar = True
    by_case: ClassVar = True
    _knows_gaps: ClassVar = True  # as the chosen learners do
    model_: Learner | Blend | Residuals = field(init=False, repr=False)
    prices_: Prices | None = field(default=None, init=False, repr=False)
    doubts_: Sequence[str] = field(default=(), init=False, repr=False)

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """Fit the chosen learners again; nothing is compared."""
        targets = y if self.regresses else np.searchsorted(self.classes_, y)
        self._fitted.refit(X, targets, sample_weight, blocks)
        return self

    @property
    def _fitted(self) -> Learner | Blend:
        """The model that is fitted again: without the residuals around its numbers."""
        model: Learner | Blend
        model = self.model_.mean if isinstance(self.model_, Residuals) else self.model_
        return model

    @property
    def asker(self) -> Learner:
        """The chosen learner, where features have prices."""
        return self.model_ if isinstance(self.model_, Learner) else self

    @property
    def acquires(self) -> bool:
        """Whether features have prices and the chosen learner asks for them."""
        return self.prices_ is not None and self.asker.acquires

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row."""
        return self._fitted.ranks()

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [
            candidate.kind
            for candidate in self.tried_
            if candidate.reason == _OUT_OF_TIME
        ]

    def findings(self, names: Sequence[str]) -> dict[str, Any]:
        """The comparison, and the calibration and findings of the model, ready for JSON."""
        candidates = [vars(candidate) for candidate in self.tried_]
        calibration = (
            {} if self.regresses else {"calibration": self._fitted.calibration_}
        )
        return {
            **calibration,
            **self._fitted.findings(names),
            "chosen": self.chosen_,
            "candidates": candidates,
        }

    def _check(self) -> None:
        if self.feature_costs is not None and not self.regresses:
            self.prices_ = prices_of(self.feature_costs, self.n_features_in_)
        if self.unit_costs is not None and not self.regresses:
            raise Invalid.at(
                "/unit_costs", "unit costs are for labels that are numbers"
            )

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        candidates = self._candidates(len(X))
        if self.prices_ is None:
            return self._blended(candidates, X, codes, weights)
        numbers = self._compared_rows(X, codes)
        blocks = self.blocks_of(numbers)
        fold = stratified_folds(codes[numbers], FOLDS, 0, blocks)
        rows = FoldedRows(X[numbers], codes[numbers], weights[numbers], fold)
        benefits = self._benefits(numbers)
        self.chosen_ = self._compare(candidates, rows, benefits, blocks)
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            return self._fit_candidate(
                candidates[self.chosen_][0], X, codes, weights, self.blocks
            )

    def _blended(
        self,
        candidates: Mapping[str, tuple[Learner, float]],
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
    ) -> Learner | Blend | Residuals:
        """The best blend of the candidates, each fitted once; sets `chosen_` and `tried_`."""
        shared: dict[str, Any] = {
            "categorical_features": self.categorical_features,
            "random_state": self._shared_seed(),
        }
        if self.regresses:
            shared["task"] = "regression"
        elif np.bincount(codes).max() < 2:
            self.chosen_ = Logistic.name
            self._report(candidates, dict.fromkeys(candidates, _NO_PAIR), {})
            return Logistic(**shared).fit(X, codes, weights)

        def attempt(learner: Learner) -> tuple[Learner, np.ndarray]:
            member = replace(learner, **shared)
            return member, member.cross_fit(X, codes, weights, self.blocks)

        results, reasons = self._attempts(candidates, X.size, attempt)
        report(1.0, "blending")
        held_out = np.ones(len(X), dtype=bool)
        if not self.regresses:
            held_out = np.asarray(next(iter(results.values()))[1].any(axis=1))
        if not held_out.any():  # of blocks that are all for training only
            self.chosen_ = min(results, key=lambda kind: kind != Logistic.name)
            self._report(candidates, reasons, {})
            return results[self.chosen_][0]
        truth = codes[held_out]
        judged_weights = weights[held_out]
        unseen = {kind: P[held_out] for kind, (_, P) in results.items()}
        parts, figures = self._best_parts(
            unseen, truth, judged_weights, self._benefits(held_out)
        )
        self.chosen_ = " + ".join(parts)
        self._report(candidates, reasons, figures)
        members = tuple(results[kind][0] for kind in parts)
        if len(members) == 1:
            return members[0]
        mean = np.sum([part * unseen[kind] for kind, part in parts.items()], axis=0)
        blend = Blend(members, np.array([*parts.values()]), None)
        if self.regresses:
            folded, folds = in_folds(
                X, codes, weights, shared["random_state"], self.blocks
            )
            spread = GradientBoosting(**shared)
            return spread.around(blend, mean[:, 0], folded, folds)
        effective = effective_rows(weights, codes)
        if effective.sum() - effective.max() >= self._min_rows_to_calibrate:
            calibrator = loading.scikit.fit_calibrator(
                "sigmoid", mean, truth, judged_weights
            )
            blend = replace(blend, calibrator=calibrator)
        return blend

    def _best_parts(
        self,
        unseen: Mapping[str, np.ndarray],
        truth: np.ndarray,
        weights: np.ndarray,
        benefits: np.ndarray | None,
    ) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """The weight of each kind in the best blend, and the figures of each candidate."""
        losses: Callable[[np.ndarray], np.ndarray] = minus_logs
        column = truth
        if self.regresses:
            losses = self._losses_of_numbers(truth, weights)
            column = np.zeros(len(truth), dtype=np.intp)
        rows = np.arange(len(truth))
        answers = {kind: answer[rows, column] for kind, answer in unseen.items()}
        parts = best_blend(answers, losses, weights, GradientBoosting.name)
        figures: dict[str, dict[str, float]] = {}
        for kind, answer in unseen.items():
            score, error = mean_and_error(-losses(answers[kind]), weights)
            figures[kind] = {
                "score": score,
                "standard_error": error,
                "weight": parts.get(kind, 0.0),
            }
            if benefits is not None:
                choice = decide(answer, benefits).choice
                gains = row_benefits(truth, choice, benefits)
                figures[kind]["benefit"] = mean_and_error(gains, weights)[0]
        return parts, figures

    def _losses_of_numbers(
        self, truth: np.ndarray, weights: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The losses (n,) of values (n,): squared errors, or what the quantities around them cost.

        A quantity is the value and the quantile of the errors that the unit costs ask for.
        """
        if self.unit_costs is None:
            return lambda values: np.square(truth - values)
        over, under = self.unit_costs.over, self.unit_costs.under

        def costs(values: np.ndarray) -> np.ndarray:
            errors = truth - values
            quantile = np.quantile(
                errors, under / (under + over), weights=weights, method="inverted_cdf"
            )
            short = errors - quantile
            return np.where(short > 0, under * short, -over * short)

        return costs

    def _attempts(
        self,
        candidates: Mapping[str, tuple[Learner, float]],
        size: int,
        attempt: Callable[[Learner], _Result],
        share: float = 1.0,
    ) -> tuple[dict[str, _Result], dict[str, str]]:
        """The results of those candidates that have one, and the reasons of the others, by name.

        `size`: the numbers of an attempt's tables together. `share`: its part of all progress.
        """
        results: dict[str, _Result] = {}
        reasons: dict[str, str] = {}
        errors: list[Exception] = []
        work = 0.0
        step = share / len(candidates)
        for number, (name, (learner, seconds)) in enumerate(candidates.items()):
            if results and work > self.max_seconds:
                reasons[name] = _OUT_OF_TIME
                continue
            work += seconds * size
            try:
                with part(step * number, step * (number + 1), f"trying {name}"):
                    results[name] = attempt(learner)
            except _BREAKDOWNS as error:
                errors.append(error)
                reasons[name] = str(error)
        if not results:
            raise errors[0]
        return results, reasons

    def _report(
        self,
        candidates: Iterable[str],
        reasons: Mapping[str, str],
        figures: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Set `tried_` from what there is of each candidate."""
        self.tried_ = [
            Tried(name, reason=reasons.get(name), **figures.get(name, {}))
            for name in candidates
        ]

    def _shared_seed(self) -> int:
        """The number from which all candidates draw the same folds."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return self._seed()

    def _benefits(self, rows: np.ndarray) -> np.ndarray | None:
        """The benefits (K, A), or those of `rows` (n, K, A); None without."""
        if self.benefits is None or self.regresses:
            return None
        benefits = np.asarray(self.benefits, dtype=np.float64)
        return benefits if benefits.ndim == 2 else benefits[rows]

    def _compared_rows(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The numbers of the rows to compare on: all, or a sample of a large table."""
        random = loading.scikit.check_random_state(0)
        return stratified_sample(
            np.arange(len(X)), codes, PRICED_NUMBERS // X.shape[1], random
        )

    def _candidates(self, n: int) -> dict[str, tuple[Learner, float]]:
        """The candidates for n rows, by name."""
        if self.prices_ is not None:
            return PRICED_CANDIDATES
        return {
            kind.name: (kind(), seconds)
            for kind, seconds in (REGRESSORS if self.regresses else CANDIDATES).items()
            if kind is not KernelLogistic or n <= _KERNEL_ROWS
        }

    def _compare(
        self,
        candidates: Mapping[str, tuple[Learner, float]],
        rows: FoldedRows,
        benefits: np.ndarray | None,
        blocks: Blocks | None,
    ) -> str:
        """The name of the best candidate; sets `tried_`."""
        prices = self.prices_
        assert prices is not None
        held_out = rows.fold != UNJUDGED
        if not held_out.any():
            self._report(candidates, dict.fromkeys(candidates, _NO_PAIR), {})
            return ForestChain.name
        weights = rows.weights[held_out]
        size = rows.X.size * len(np.unique(rows.fold[held_out]))
        results, reasons = self._attempts(
            candidates,
            size,
            lambda learner: answer_values(
                *unseen_answers(
                    partial(self._fit_candidate, learner),
                    rows,
                    len(self.classes_),
                    prices,
                    benefits,
                    blocks,
                ),
                rows.codes,
                benefits,
            ),
            0.8,
        )
        values = {name: value[held_out] for name, (value, _) in results.items()}
        prices_paid = {name: price[held_out] for name, (_, price) in results.items()}
        best = best_of(values, prices_paid, weights)
        figures = {}
        for name, value in values.items():
            score, error = mean_and_error(value, weights)
            figures[name] = {
                "score": score,
                "standard_error": error,
                "weight": float(name == best),
            }
        self._report(candidates, reasons, figures)
        self.doubts_ = doubts_of_asking(values, best, weights)
        return best

    def _fit_candidate(
        self,
        learner: Learner,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        blocks: Blocks | None = None,
    ) -> Learner:
        shared: dict[str, Any] = {
            "categorical_features": self.categorical_features,
            "random_state": self.random_state,
        }
        if "feature_costs" in learner.get_params():
            shared["feature_costs"] = self.prices_
        fitted = replace(learner, **shared).fit(X, codes, weights, blocks)
        if isinstance(fitted, Stepwise) and self.prices_ is not None:
            fitted.learn_stops(X, codes, self.prices_, weights, blocks)
        return fitted
