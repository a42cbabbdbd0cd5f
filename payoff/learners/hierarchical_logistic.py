"""Two logistic models in sequence: majority or minority class, then which minority class."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from payoff.errors import Invalid, below, pointer
from payoff.learners.base import Learner
from payoff.learners.benefit_logistic import BenefitLogistic, rest_weights
from payoff.learners.kernel_logistic import KernelLogistic, most_common
from payoff.learners.logistic import Logistic
from payoff.learners.parameters import Majority
from payoff.progress import part
from payoff.stored import Stored


@dataclass(frozen=True)
class Stages(Stored):
    """The product of two stages: P(H) from the first, P(D) P(D_k | D) for the minority classes.

    `first` has classes 0 (majority) and 1 (minority); `second`, of the minority classes in order,
    is None where there is one only; `majority` is the position of H among all K classes.
    """

    first: Learner
    second: Learner | None
    majority: int

    def posterior(self, X: np.ndarray) -> np.ndarray:
        P = self.first.posterior(X)
        minority = (
            P[:, 1:] if self.second is None else P[:, 1:] * self.second.posterior(X)
        )
        H = self.majority
        return np.concatenate((minority[:, :H], P[:, :1], minority[:, H:]), axis=1)


class HierarchicalLogistic(Learner):
    """First majority or minority, then which minority class; probabilities are the product.

    `first` (a KernelLogistic or BenefitLogistic) separates the majority class H from all others;
    `second` (a KernelLogistic or Logistic) is trained on the minority classes only and is
    cost-blind; None is a KernelLogistic with its defaults. Both take `categorical_features` and
    `random_state` from here. `majority`: the class H, None is the one that weighs most. `benefits`
    (K, K), in the order of the sorted classes, reach a BenefitLogistic as those of two groups
    (instead of its own); None weighs all alike.

    `predict_proba` is the product of the stages, without the weights of the first stage
    (`BenefitLogistic`). With benefits and a BenefitLogistic, `predict` decides as the paper does:
    minority where the weighted first stage says so, then the most probable minority class; else it
    takes the most probable class.
    Fitted, besides `Learner`'s: `converged_`.
    Raises Invalid for an unknown majority, and benefits that give no weight.
    Benefit-based classification, sections on HCSKLR and on the hierarchical approach with
    benefit-based LR.
    """

    name: ClassVar = "hierarchical_logistic"
    majority: Majority = None
    first: Annotated[
        KernelLogistic | BenefitLogistic | None,
        "The model that separates the majority class from all others; benefit_logistic trains with"
        " the benefits, those of the minority classes combined by their shares.",
    ] = None
    second: Annotated[
        KernelLogistic | Logistic | None,
        "The model that separates the minority classes.",
    ] = None
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None

    model_: Stages = field(init=False, repr=False)

    @property
    def converged_(self) -> bool:
        stages: tuple[Any, ...] = (self.model_.first, self.model_.second)
        return all(stage.converged_ for stage in stages if stage is not None)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The decision for each row (n, m): see the class; ties to the first class."""
        rows = self._validated(X)
        P = self.posterior(rows)
        if self.benefits is not None and isinstance(self.model_.first, BenefitLogistic):
            P[:, self.model_.majority] = np.where(
                self.model_.first.predict(rows) == 1, -1.0, 2.0
            )
        return self.classes_[P.argmax(axis=1)]

    def _check(self) -> None:
        for name, stage in (("first", self.first), ("second", self.second)):
            if isinstance(stage, KernelLogistic) and stage.majority is not None:
                message = "majority is set once, beside the stages, not inside one"
                raise Invalid.at(pointer(name, "majority"), message)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Stages:
        H = most_common(self.classes_, self.majority, codes, weights)
        minority = codes != H
        first = self._stage(self.first)
        if isinstance(first, BenefitLogistic):
            grouped = self._grouped(np.bincount(codes, weights), H)
            first = replace(first, benefits=grouped, one_vs_rest="normalised")
        single = len(self.classes_) == 2
        with below("/first"), part(0.0, 1.0 if single else 0.5, "majority or minority"):
            first.fit(X, minority.astype(np.intp), weights, self.blocks)
        if single:
            return Stages(first, None, H)
        with below("/second"), part(0.5, 1.0, "minority classes"):
            second = self._stage(self.second).fit(
                X[minority],
                codes[minority],
                weights[minority],
                self.blocks_of(minority),
            )
        return Stages(first, second, H)

    def _grouped(self, sums: np.ndarray, majority: int) -> np.ndarray | None:
        """Benefits (2, 2) of majority and minority, for classes with sums of weights (K,).

        The minority has the weight of the majority's rest (`rest_weights`): errors among minority
        classes are the second stage's. Raises Invalid at `/benefits/…`.
        """
        if self.benefits is None:
            return None
        with below("/benefits"):
            eta = rest_weights(self.benefits, sums / sums.sum(), needed=[majority])[
                majority
            ]
        return np.diag([1.0, eta])

    def _stage(self, stage: Learner | None) -> Learner:
        shared: dict[str, Any] = {
            "categorical_features": self.categorical_features,
            "random_state": self.random_state,
        }
        return replace(KernelLogistic() if stage is None else stage, **shared)
