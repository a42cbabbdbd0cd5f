"""Benefit-based logistic regression: training errors are weighted by a benefit matrix."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy.special import expit, log_expit

from payoff.decisions.explanations import Contributions
from payoff.errors import Flaw, Invalid, below, pointer
from payoff.learners import loading
from payoff.learners.design import Design
from payoff.learners.linear import LinearScorer, probabilities
from payoff.learners.logistic import Logistic


def rest_weights(
    benefits: np.ndarray | Sequence[Sequence[float]],
    shares: np.ndarray,
    one_vs_rest: str = "normalised",
    needed: Sequence[int] | None = None,
) -> np.ndarray:
    """The weight eta (K,) that the other classes together carry against each class k.

    `benefits` (K, K), class `shares` (K,). The rest of k are all classes but k.
    `eta = (b00 - b01) / (b11 - b10)`, where b00, b01 and b10 combine the rest's entries of the
    matrix: as means by the rest's shares (`normalised`; with two classes eta[1] is the binary eta),
    or as printed, as sums by all classes' shares. Raises Invalid (relative to the matrix) where one
    of those `needed`, by default all, is not positive and finite, with the row to fix: then being
    right about a class pays no more than being wrong, and no weight expresses that.
    Benefit-based classification, sections on the benefit objective and on the multiclass case.
    O(K^2).
    """
    B = np.asarray(benefits, dtype=np.float64)
    K = len(shares)
    if B.shape != (K, K) or not np.isfinite(B).all():
        raise Invalid.at(
            "",
            f"training needs a {K} x {K} benefit matrix of finite numbers: a row and a column per"
            f" class",
        )
    W = np.tile(shares, (K, 1))  # W[k, i]: the share of class i in the rest of k
    np.fill_diagonal(W, 0.0)
    if one_vs_rest == "normalised":
        W /= W.sum(axis=1, keepdims=True)
    right = np.diag(B)
    spared = W @ right - (W * B.T).sum(
        axis=1
    )  # b00 - b01: the gain of not calling the rest k
    gained = right - (W * B).sum(axis=1)  # b11 - b10: the gain of calling k itself
    with np.errstate(all="ignore"):
        eta: np.ndarray = spared / gained
    usable = (spared > 0) & (gained > 0) & (eta > 0) & np.isfinite(eta)
    needed = needed or (range(1, 2) if K == 2 else range(K))
    flaws = [
        flaw
        for k in needed
        if not usable[k]
        for flaw in _flaws(B, k, float(spared[k]), float(gained[k]))
    ]
    if flaws:
        raise Invalid("the benefit matrix gives no positive training weights", flaws)
    return eta


def _flaws(B: np.ndarray, k: int, spared: float, gained: float) -> list[Flaw]:
    """The flaws of the matrix for class k against the rest."""
    flaws: list[Flaw] = []
    if not spared > 0:
        text = f"calling a class {k} must pay less than being right about it, at least on average"
        culprits = [i for i in range(len(B)) if i != k and B[i, k] >= B[i, i]]
        for i in culprits:
            message = f"{B[i, k]:g} is not below {B[i, i]:g} at [{i}][{i}]: {text}"
            flaws.append(Flaw(pointer(i, k), message))
        if not culprits:
            flaws.append(Flaw("", f"column {k}: {text}"))
    if not gained > 0:
        errors = B[k, k] - gained
        message = f"{B[k, k]:g} must exceed {errors:g}, the combined benefit of row {k}'s errors"
        flaws.append(Flaw(pointer(k, k), message))
    if not flaws:
        message = f"the benefits that weigh class {k} are too far apart: their ratio has no value"
        flaws.append(Flaw("", message))
    return flaws


@dataclass(frozen=True)
class Weighted(LinearScorer):
    """Models of weighted rows, with the weighting undone in their intercepts.

    `linear` scores the unweighted log-odds of the second class, or of each of K classes against the
    rest; without `shifts` (1,) or (K,) = log eta they are the weighted log-odds again.
    """

    shifts: np.ndarray

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """The probability of each class by its model, divided by their sum; no 0/0 far out."""
        return probabilities(Z if Z.shape[1] == 1 else log_expit(Z))

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        """Contributions to the log-odds of the chosen class against the rest, by its model."""
        if len(self.shifts) == 1:
            return super().contributions(X, chosen)
        typical = self.linear.typical
        values = (self.linear.terms(X) - typical)[np.arange(len(X)), :, chosen]
        base = (self.linear.intercept + typical.sum(axis=0))[chosen]
        return Contributions(values, base, chosen, "log_odds")

    def weighted(self, X: np.ndarray) -> np.ndarray:
        """The scores (n, K) of the weighted models, before calibration, each with its cut at 1/2.

        Two classes: columns 1 - s and s. More: each class's score against the rest; rows do not sum
        to 1.
        """
        Z = self.linear.scores(X) - self.shifts
        return probabilities(Z) if Z.shape[1] == 1 else np.asarray(expit(Z))


class BenefitLogistic(Logistic):
    """Logistic regression that weighs training errors by the benefit matrix; one-vs-rest with three
    or more classes.

    `benefits` (K, K): `benefits[i][j]` of calling i j, in the order of the sorted classes; None
    weighs all alike. `one_vs_rest`: how the rest's benefits are combined (`rest_weights`). Other
    parameters as for `Logistic`.

    Trained with weight eta on class 0 (the rest), the model's own score is `q / (q + eta (1 - q))`,
    cut at 1/2: `Weighted.weighted`, which `predict` follows. `predict_proba` undoes the weighting
    and gives q, so that any other matrix can be decided on later without counting benefits twice.
    Fitted, besides `Learner`'s: `converged_`. Raises Invalid at `/benefits/…` where the matrix
    gives no positive eta.
    """

    name: ClassVar = "benefit_logistic"
    needs_benefits: ClassVar = True

    one_vs_rest: Annotated[
        Literal["normalised", "as_printed"],
        "With three classes or more: how the benefits of the other classes are combined, as means"
        " by class shares (normalised; equals the two-class weight for two classes), or as the"
        " sums printed in the paper (as_printed).",
    ] = "normalised"
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None

    model_: Weighted = field(init=False, repr=False)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of the largest weighted score; without benefits the most probable class.

        Ties go to the first class.
        """
        if self.benefits is None:
            return super().predict(X)
        scores = self._averaged(self.model_.weighted, self._validated(X))
        return self.classes_[scores.argmax(axis=1)]

    def _fit_raw(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Weighted:
        K = len(self.classes_)
        eta = np.ones(K)
        if self.benefits is not None:
            sums = np.bincount(codes, weights)
            with below("/benefits"):
                eta = rest_weights(self.benefits, sums / sums.sum(), self.one_vs_rest)
        design = Design.fit(X, weights, self.categorical(), self.numeric_transform_)
        columns = design.matrix(X)
        classes = [1] if K == 2 else list(range(K))
        fits = []
        for k in classes:
            members = codes == k
            weighted = np.where(members, 1.0, eta[k]) * weights
            fit = loading.scikit.fit_linear(
                columns,
                members,
                weighted,
                self.C,
                design.slopes(self.signs(X.shape[1])),
            )
            fits.append(fit)
        shifts = np.log(eta[classes])
        coef = np.concatenate([model.coef_ for model, _ in fits])
        intercept = np.concatenate([model.intercept_ for model, _ in fits]) + shifts
        linear = design.fold(coef, intercept).recorded(X, weights)
        return Weighted(linear, all(converged for _, converged in fits), shifts)
