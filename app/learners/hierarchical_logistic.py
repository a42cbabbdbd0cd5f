"""Two logistic models in sequence: majority or minority class, then which minority class."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from app.errors import Invalid, below, pointer
from app.learners.base import Learner
from app.learners.benefit_logistic import BenefitLogistic
from app.learners.kernel_logistic import KernelLogistic, most_common
from app.learners.logistic import Logistic
from app.learners.parameters import Majority
from app.progress import part


@dataclass(frozen=True)
class Stages:
    """The product of two stages: P(H) from the first, P(D) P(D_k | D) for the minority classes.

    `first` has classes 0 (majority) and 1 (minority); `second`, of the minority classes in order, is None where
    there is one only; `majority` is the position of H among all K classes.
    """

    first: Learner
    second: Learner | None
    majority: int

    def posterior(self, X: np.ndarray) -> np.ndarray:
        D = self.first.posterior(X)
        others = D[:, 1:] if self.second is None else D[:, 1:] * self.second.posterior(X)
        H = self.majority
        return np.concatenate((others[:, :H], D[:, :1], others[:, H:]), axis=1)


class HierarchicalLogistic(Learner):
    """First majority or minority, then which minority class; probabilities are the product.

    `first` (a KernelLogistic or BenefitLogistic) separates the majority class H from all others; `second` (a
    KernelLogistic or Logistic) is trained on the minority classes only and is cost-blind; None is a KernelLogistic with
    its defaults. Both take `categorical_features` and `random_state` from here. `majority`: the class H, None is the
    one that weighs most. `benefits` (K, K), in the order of the sorted classes, reach a BenefitLogistic as `grouped`
    combines them (instead of its own); None weighs all alike.

    `predict_proba` is the product of the stages, without the weights of the first stage (`BenefitLogistic`). With
    benefits and a BenefitLogistic, `predict` decides as the paper does: minority where the weighted first stage says
    so, then the most probable minority class; else it takes the most probable class.
    Fitted, besides `Learner`'s: `converged_`.
    Raises Invalid for an unknown majority, and benefits that give no weight.
    Benefit-based classification, sections on HCSKLR and on the hierarchical approach with benefit-based LR.
    """

    name: ClassVar = "hierarchical_logistic"
    majority: Majority = None
    first: Annotated[
        KernelLogistic | BenefitLogistic | None,
        "The model that separates the majority class from all others; benefit_logistic trains with the benefits, those"
        " of the minority classes combined by their shares.",
    ] = None
    second: Annotated[KernelLogistic | Logistic | None, "The model that separates the minority classes."] = None
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None

    model_: Stages = field(init=False, repr=False)

    @property
    def converged_(self) -> bool:
        stages: tuple[Any, ...] = (self.model_.first, self.model_.second)  # of kinds that are fitted in steps
        return all(stage.converged_ for stage in stages if stage is not None)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The decision for each row (n, m): see the class; ties to the first class."""
        rows = self._validated(X)
        P = self.posterior(rows)
        if self.benefits is not None and isinstance(self.model_.first, BenefitLogistic):
            P[:, self.model_.majority] = np.where(self.model_.first.predict(rows) == 1, -1.0, 2.0)
        return self.classes_[P.argmax(axis=1)]

    def _check(self) -> None:
        for name, stage in (("first", self.first), ("second", self.second)):
            if isinstance(stage, KernelLogistic) and stage.majority is not None:
                raise Invalid.at(pointer(name, "majority"), "majority is set once, beside the stages, not inside one")

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Stages:
        H = most_common(self.classes_, self.majority, codes, weights)
        minority = codes != H
        first = self._stage(self.first)
        if isinstance(first, BenefitLogistic):
            sums = np.bincount(codes, weights)
            first.benefits = None if self.benefits is None else grouped(self.benefits, sums, H)
        single = len(self.classes_) == 2
        with below("/first"), part(0.0, 1.0 if single else 0.5, "majority or minority"):
            first.fit(X, minority.astype(np.intp), weights)
        if single:
            return Stages(first, None, H)
        with below("/second"), part(0.5, 1.0, "minority classes"):
            second = self._stage(self.second).fit(X[minority], codes[minority], weights[minority])
        return Stages(first, second, H)

    def _stage(self, stage: Learner | None) -> Learner:
        shared: dict[str, Any] = {"categorical_features": self.categorical_features, "random_state": self.random_state}
        return replace(KernelLogistic() if stage is None else stage, **shared)


def grouped(benefits: np.ndarray | Sequence[Sequence[float]], sums: np.ndarray, majority: int) -> np.ndarray:
    """Benefits (2, 2) of majority and minority, from those of K classes (K, K) and the classes' weights (K,).

    Minority classes count by their share among themselves, as in the normalised one-against-rest: b_HH; b_HD, the
    mean over minority actions for a true H; b_DH, the mean over minority truths called H; b_DD, the mean of being
    right about them (the second stage's errors are not the first's). Raises Invalid at `/benefits/…` where being
    right about either group does not pay more than being wrong. O(K^2).
    """
    B = np.asarray(benefits, dtype=np.float64)
    K, H = len(sums), majority
    if B.shape != (K, K) or not np.isfinite(B).all():
        raise Invalid.at("/benefits", f"training needs a {K} x {K} benefit matrix of finite numbers")
    shares = np.where(np.arange(K) == H, 0.0, sums)
    shares /= shares.sum()
    G = np.array([[B[H, H], B[H] @ shares], [B[:, H] @ shares, np.diag(B) @ shares]])
    if G[0, 0] <= G[0, 1]:
        text = f"being right about the majority class pays {G[0, 0]:.6g}, calling it another {G[0, 1]:.6g} on average"
        raise Invalid.at(pointer("benefits", H, H), f"{text}; it must pay more")
    if G[1, 1] <= G[1, 0]:
        text = f"being right about a minority class pays {G[1, 1]:.6g} on average, calling it class {H} {G[1, 0]:.6g}"
        raise Invalid.at("/benefits", f"{text}; it must pay more")
    return G
