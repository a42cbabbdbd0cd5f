"""A tree of linear classifiers whose training objective includes the price of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import LARGEST
from payoff.decisions.folds import Blocks
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.parameters import Task
from payoff.learners.stepwise import prices_of

if TYPE_CHECKING:  # see `payoff.learners.base`
    from payoff.acquisition.tree_of_classifiers import TreeOfClassifiers


class Point(NamedTuple):
    """A tree on the path: its trade-off, and its means over the validation rows.

    `error` is the share of wrong classes or the mean squared error; `net_benefit` is the benefit of
    the decisions less the cost, NaN without benefits.
    """

    lambda_: float
    cost: float
    error: float
    net_benefit: float = np.nan


class CostTree(Learner):
    """A tree of linear models that asks each case only for the features of its path, for classes or
    numbers; one objective has loss and expected price; trains with `feature_costs`, with `benefits`
    for the largest net benefit, and answers `/acquire`.

    Cost-sensitive tree of classifiers (Xu, Kusner, Weinberger, Chen 2013). Every node is a linear
    model of the columns phi; its score predicts, and sends a case up or down. Training minimises
    mean loss (logistic, or squared) + `rho`
    |weights|_1 + trade-off x expected price of the path, over all nodes together, with soft
    traversal and mixed norms for "is used on the path". Three classes or more: softmax scores for
    each class and one score more that decides, so that all share one traversal, and a column costs
    once for all of them. Then weights up to `zero_tolerance` are zero, nodes that do not lower the
    loss on rows held out are pruned, and the predictions of the rest are fitted anew on the columns
    left.

    Without a trade-off (lambda) a path of rising ones is trained, each from the one before, and the
    point with the least error held out whose cost is within `budget` is taken; the prior at cost 0
    where none is. With `benefits` (K, A) in the currency of the `feature_costs` it is the one with
    the largest net benefit (benefit of the decisions less cost), or the prior where that has more.
    `standardise`: numbers are scaled to variance 1, and a numeric target to standard deviation 10,
    before the trade-offs weigh them. `feature_costs`: Prices, or one price >= 0 for each column, or
    None for 1 each; of a group, the path pays the discounted prices and once the difference. A
    fifth of the rows is held out inside `fit`. A missing value counts as one that cannot be had:
    the mean, at no cost. The other parameters are `Learner`'s; probabilities are not calibrated.

    Fitted, besides `Learner`'s: `model_` (TreeOfClassifiers), `prices_`, `tradeoff_`: all Points of
    the path with cost, error (share of wrong classes, or mean squared error) and net benefit held
    out, and of the point taken `trade_off_`, `cost_`, `error_`, `net_benefit_`. O(path x cycles x
    nodes x rows x columns).
    """

    name: ClassVar = "cost_tree"
    task: Task = None
    depth: Annotated[int, Field(ge=1, le=8), "Maximum number of models on a path."] = 4
    trade_off: Annotated[
        float | None,
        Field(alias="lambda", ge=0, le=LARGEST),
        "Weight of the expected price of a case relative to the loss; null trains a path of 20"
        " values and takes the one with the least error on validation rows within the budget, or"
        " with benefits and feature_costs the largest net benefit.",
    ] = None
    rho: Annotated[
        float, Field(ge=0, le=1e10), "L1 penalty on the weights, independent of prices."
    ] = 1e-4
    budget: Annotated[
        float | None,
        Field(ge=0, le=LARGEST),
        "Maximum mean price of a case on validation rows; null is no limit.",
    ] = None
    zero_tolerance: Annotated[
        float,
        Field(ge=0, le=1e10),
        "Weights up to this size become zero: features without weight are not asked for.",
    ] = 0.01
    features: Annotated[
        Literal["raw", "boosted"],
        "Inputs of the models: the features (raw), or small boosted trees of them (boosted), which"
        " are nonlinear.",
    ] = "raw"
    weak_learners: Annotated[
        int, Field(ge=1, le=1000), "Boosting rounds, if features is boosted."
    ] = 100
    standardise: bool = True
    feature_costs: Prices | Sequence[float] | None = None
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None

    asks: ClassVar = True
    any_actions: ClassVar = True
    tasks: ClassVar = ("classification", "regression")

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """`fit`: nothing but the tree is learned."""
        return self.fit(X, y, sample_weight, blocks)

    def _fit_raw(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> TreeOfClassifiers:
        n_classes = 0 if self.regresses else len(self.classes_)
        tree, point, self.tradeoff_ = loading.compiled.path.train(
            self, X, codes, weights, n_classes
        )
        self.trade_off_, self.cost_, self.error_, self.net_benefit_ = point
        return tree

    def _check(self) -> None:
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """The chosen point and the number of nodes; `lambda` is None where no tree was chosen."""
        net_benefit = (
            {} if np.isnan(self.net_benefit_) else {"net_benefit": self.net_benefit_}
        )
        return {
            "lambda": None if np.isinf(self.trade_off_) else self.trade_off_,
            "cost": self.cost_,
            "error": self.error_,
            **net_benefit,
            "nodes": self.model_.n_nodes,
        }
