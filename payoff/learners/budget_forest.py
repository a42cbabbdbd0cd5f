"""A forest whose trees prefer cheap features, grown until its mean cost reaches a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import LARGEST
from payoff.learners import loading
from payoff.learners.rows import check_sizes
from payoff.learners.stepwise import Stepwise, prices_of
from payoff.learners.unseen import best_calibration

if TYPE_CHECKING:  # the compiler takes 60 MB
    from payoff.acquisition.tree_grower import Rule


class Point(NamedTuple):
    """A forest that may be chosen: its `rule`, number of `trees`, mean `cost` and `error` per row.

    The means are those of the validation rows.
    """

    rule: Rule
    trees: int
    cost: float
    error: float


class BudgetForest(Stepwise):
    """A forest whose trees prefer cheap features, grown until its mean cost reaches a budget;
    trains with `feature_costs` and answers `/acquire`.

    Feature-budgeted random forest (Nan, Wang, Saligrama 2015, algorithm 1, BudgetRF).
    `alpha` None tries `ALPHAS`; `cost_exponent` None is 1, the paper's rule, where `alpha` is
    given, and else tries `EXPONENTS`, too. `feature_costs`: Prices, or one price >= 0 for each
    column, or None for 1 each.
    A fifth of each class is held out inside `fit` where anything is left to choose, several parts
    in turn where there are few rows. Probabilities are the averaged leaf distributions, not
    calibrated before `learn_stops`.

    Weighted rows are drawn in proportion to their weight, so `alpha` keeps counting rows. The
    choice is the least validation error; then the least cost, the fewest trees, the largest
    exponent and the least alpha. Where the first tree is over budget already, the forest is empty:
    it answers with the class shares and costs nothing. With a budget and one validation part the
    forest that was found within the budget is kept; else the chosen one is grown again from all
    rows, and loses its last trees where it is above the budget on these. The budget counts a
    group's dearest order.

    Fitted, besides `Learner`'s: `model_` (FlatForest), `prices_`, `alpha_`, `cost_exponent_`,
    `n_estimators_`, `cost_` and `error_` of the chosen Point (NaN where nothing was held out; the
    cost of a forest that was grown again within a budget is that on all rows), `tradeoff_`: all
    Points within the budget.
    O(trees x rows x features x depth).
    """

    name: ClassVar = "budget_forest"
    budget: Annotated[
        float | None,
        Field(ge=0, le=LARGEST),
        "Maximum mean price per row of all features that the forest uses; null is no limit.",
    ] = None
    alpha: Annotated[
        float | None,
        Field(ge=0),
        "Number of misclassified rows of a class allowed at a leaf: a larger number makes"
        " shallower, cheaper trees; null chooses on validation rows.",
    ] = None
    cost_exponent: Annotated[
        float | None,
        Field(ge=0, le=1),
        "Exponent of the price in the split rule: 0 uses prices for ties only, 1 in proportion;"
        " null chooses on validation rows.",
    ] = None
    n_estimators: Annotated[
        int | None,
        Field(ge=1, le=10_000),
        "Maximum number of trees; null takes the number, up to 40, with the least validation"
        " error.",
    ] = None
    max_depth: Annotated[
        int | None, Field(ge=0), "Maximum depth of a tree; null is no limit."
    ] = None
    feature_costs: Prices | Sequence[float] | None = None

    @property
    def _resolution(self) -> float:
        return float(1.0 / max(self.n_estimators_, 1))

    def _check(self) -> None:
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """What the fit chose."""
        chosen = ("alpha", "cost_exponent", "n_estimators", "cost", "error")
        return {name: getattr(self, f"{name}_") for name in chosen}

    def _again(self) -> BudgetForest:
        return replace(
            self,
            budget=None,
            alpha=self.alpha_,
            cost_exponent=self.cost_exponent_,
            n_estimators=self.n_estimators_,
        )

    def _learn_calibration(self, P: np.ndarray, codes: np.ndarray) -> None:
        method = self._automatic(np.bincount(codes))
        weights = np.ones(len(codes))
        if method != "none":
            method = best_calibration(
                P, codes, weights, self._resolution, blocks=self.blocks
            )
        self.calibration_, self.calibrator_ = self._calibrate(
            method, P, codes, weights, self.blocks
        )

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        check_sizes(X, range(X.shape[1]))
        forest, point, self.tradeoff_ = loading.compiled.budget.grow(
            self, X, codes, weights
        )
        (
            (self.alpha_, self.cost_exponent_),
            self.n_estimators_,
            self.cost_,
            self.error_,
        ) = point
        return forest
