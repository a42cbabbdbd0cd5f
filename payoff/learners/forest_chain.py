"""A chain of forests on nested sets of features, which learns when a feature is worth its price."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from payoff.acquisition.prices import Prices
from payoff.decisions.folds import Blocks
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.rows import check_sizes, weights_or_ones
from payoff.learners.stepwise import prices_of
from payoff.progress import part


class ForestChain(Learner):
    """Forests on the first 1, 2, … features of one order, each trained on all rows, with a learned
    stop: the least error at a small share of the features; trains with `feature_costs` and answers
    `/acquire`.

    The trees are extremely randomised (Geurts 2006). Every forest is trained on all rows, so that a
    case which stops early gets the answer of a whole forest. The order is found by a greedy search:
    the feature that lowers the held-out log loss most for its price comes next. A split is the best
    of one random threshold for each feature, or of 3 or 10 where that does clearly better.
    `feature_costs`: Prices, or one price >= 0 for each column, or None for 1 each.

    Each state is calibrated, blended with the one before it, on rows that its forests did not see;
    up to 2,000 of these rows are the experience that says when to stop. Fitted, besides
    `Learner`'s: `model_` (Chain), `experience_` (or None), `order_`, `rules_` (how each forest is
    grown), `prices_`.
    O(steps trees rows features depth).
    """

    name: ClassVar = "forest_chain"
    steps: Annotated[
        int | None,
        Field(ge=1, le=1000),
        "Maximum number of features in the order; null is 22 with equal prices, else all that the"
        " search places.",
    ] = None
    least: Annotated[
        float | None,
        Field(ge=0, le=1e6),
        "The search ends when no feature lowers the held-out log loss by this; null is 0.001, or"
        " with equal prices no such limit.",
    ] = None
    n_estimators: Annotated[
        int, Field(ge=1, le=1000), "Number of trees of each forest."
    ] = 40
    min_samples_leaf: Annotated[
        int | None,
        Field(ge=1),
        "Minimum number of rows in a leaf; null is 5 in the first two forests and with fewer than"
        " 1,000 rows, else 1, or what has clearly less loss on held-out rows, and more with over"
        " 20,000.",
    ] = None
    feature_costs: Prices | Sequence[float] | None = None

    asks: ClassVar = True
    _knows_gaps: ClassVar = True  # by its reduced and masked forests
    experience_: Any = field(default=None, init=False, repr=False)

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,  # noqa: ARG002 - nothing is split
    ) -> Self:
        """Grow the forests again on rows (n, m), y (n,) and weights (n,).

        Order, calibration and experience stay.
        """
        codes = np.searchsorted(self.classes_, y)
        self.model_ = loading.compiled.chain.refit(
            self,
            np.asarray(X),
            codes,
            weights_or_ones(sample_weight, len(X)),
            self.model_,
        )
        return self

    def findings(self, names: Sequence[str]) -> dict[str, Any]:
        """The calibration, and the features in their order: their price, and the sum `spent`."""
        prices = self.prices_.paid(self.order_)
        steps = zip(self.order_, prices, np.cumsum(prices).tolist(), strict=True)
        chain = [
            {"asks": names[j], "price": price, "spent": spent}
            for j, price, spent in steps
        ]
        calibration = "sigmoid" if self.model_.blends else "none"
        return {"calibration": calibration, "chain": chain}

    def _check(self) -> None:
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        check_sizes(X, range(X.shape[1]))
        self.seed_ = self._seed()
        with part(0.0, 0.35, "choosing the order of features"):
            self.order_, self.rules_ = loading.compiled.chain_order.find_order(
                self, X, codes, weights, self.seed_
            )
        with part(0.35, 1.0):
            model, self.experience_ = loading.compiled.chain.fit(
                self, X, codes, weights
            )
        return model
