"""Several rare classes against one majority class: the β/Δ rule and the hierarchical rule (HCSKLR).

Class H is the majority, D_1…D_K the others. `C_HD`: cost of predicting a D for an H; `C_DH`: an H for a D;
`C_DD`: the wrong D for a D; a correct prediction costs 0. Source: section Hierarchical Cost-Sensitive Kernel Logistic
Regression of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from app.decisions.benefit import LARGEST, TIE, irrelevance, least
from app.errors import Flaw, Invalid, pointer


class BetaDelta(NamedTuple):
    """The predicted class of each row, int (n,), and the rule's beta and delta, None if not finite.

    `p_star` is the least P(D) for which a D is predicted if C_DD is 0, where the rule is `hierarchical`; else None.
    """

    choice: np.ndarray
    beta: float | None
    delta: float | None
    warnings: list[str]
    p_star: float | None = None

    @property
    def figures(self) -> dict[str, float | None]:
        """The rule's constants by name: beta and delta, or the threshold that replaces them."""
        found = {"beta": self.beta, "delta": self.delta}
        return found if self.p_star is None else {**found, "threshold": self.p_star}


class Hierarchical(NamedTuple):
    """The predicted class of each row, int (n,), and the least P(D) for a D, None if both its costs are 0."""

    choice: np.ndarray
    p_star: float | None
    warnings: list[str]


def beta_delta(
    P: np.ndarray, majority: int, C_DD: float, C_HD: float, C_DH: float, *, classes: Sequence[object] | None = None
) -> BetaDelta:
    """The class of least expected cost, for posteriors P (n, classes) and the index of the majority class.

    For C_DD > 0 it has the largest of `P(D_1)…P(D_K), beta P(H) - delta`, with `beta = (C_DH + C_HD - C_DD) / C_DD` and
    `delta = (C_DH - C_DD) / C_DD`. It is computed by the expected costs, without division or cancellation, and so
    decides as `decide` does on `equivalent_benefits`: ties go to the lowest class index. For C_DD = 0 all minority
    classes cost the same; then the rule is `hierarchical`, which takes the most probable of them. Costs are finite
    numbers from 0 to `LARGEST`; Invalid at `/C_DD`, `/C_HD`, `/C_DH`, `/majority` otherwise. `classes` names them in
    warnings.
    O(n classes).
    """
    _check(P.shape[1], majority, C_DD=C_DD, C_HD=C_HD, C_DH=C_DH)
    if C_DD == 0:
        choice, p_star, warnings = hierarchical(P, majority, C_HD, C_DH)
        return BetaDelta(choice, None, None, [_NO_BETA, *warnings], p_star)
    beta, delta = (C_DH + C_HD - C_DD) / float(C_DD), (C_DH - C_DD) / float(C_DD)
    choice = least(_expected_costs(P, majority, C_DD, C_HD, C_DH).T, P.shape[1])
    warnings = _irrelevance(P.shape[1], majority, C_DD, C_HD, C_DH, classes)
    if not (math.isfinite(beta) and math.isfinite(delta)):
        return BetaDelta(choice, None, None, [_HUGE_BETA, *warnings])
    return BetaDelta(choice, beta, delta, warnings)


def _expected_costs(P: np.ndarray, majority: int, C_DD: float, C_HD: float, C_DH: float) -> np.ndarray:
    """The expected cost (n, classes) of predicting each class."""
    rows, rare = np.arange(len(P)), P.copy()
    rare[:, majority] = 0.0
    most, total = rare.argmax(axis=1), rare.sum(axis=1)
    others = total[:, None] - rare  # of all but the most probable it contains a larger term, so nothing cancels
    rare[rows, most] = 0.0
    others[rows, most] = rare.sum(axis=1)
    costs: np.ndarray = C_HD * P[:, [majority]] + C_DD * others
    costs[:, majority] = C_DH * total
    return costs


def _irrelevance(
    n_classes: int, majority: int, C_DD: float, C_HD: float, C_DH: float, classes: Sequence[object] | None
) -> list[str]:
    """`irrelevance` of the equivalent benefits; with three classes or more, and C_DD > 0, only the majority's action
    can be the best for all, so three are enough.
    """
    if n_classes > 3:
        names = list(range(n_classes)) if classes is None else classes
        n_classes, majority, classes = 3, 0, [names[majority], names[majority - 1], names[majority - 2]]
    return irrelevance(equivalent_benefits(n_classes, majority, C_DD, C_HD, C_DH), classes)


def hierarchical(P: np.ndarray, majority: int, C_HD: float, C_DH: float) -> Hierarchical:
    """The most probable minority class where `P(D) >= p* = C_HD / (C_HD + C_DH)`, else the majority class.

    Shapes and errors as in `beta_delta`. Decided as `C_DH P(D) >= C_HD P(H)`, equal up to rounding counting as equal,
    so that a tie goes to the minority as in the paper, also where both costs are 0 and p* is undefined; of equally
    likely minority classes the lowest index. It leaves C_DD out of the first stage, and so costs at most
    `C_DD P(D) (1 - 1/K)` more than `beta_delta`, K being the number of minority classes. O(n classes).
    """
    _check(P.shape[1], majority, C_HD=C_HD, C_DH=C_DH)
    minority = np.delete(np.arange(P.shape[1]), majority)
    rare = P[:, minority]
    likeliest = minority[rare.argmax(axis=1)]
    is_rare = C_DH * rare.sum(axis=1) * (1 + TIE * P.shape[1]) >= C_HD * P[:, majority]
    choice = np.where(is_rare, likeliest, majority)
    if C_HD == C_DH == 0:
        return Hierarchical(choice, None, [_NO_P_STAR])
    return Hierarchical(
        choice, C_HD / (C_HD + C_DH), [_ALWAYS_RARE] if C_HD == 0 else [_NEVER_RARE] if C_DH == 0 else []
    )


def equivalent_benefits(n_classes: int, majority: int, C_DD: float, C_HD: float, C_DH: float) -> np.ndarray:
    """The costs as a benefit matrix, float64 (classes, classes), whose columns are the predicted classes."""
    _check(n_classes, majority, C_DD=C_DD, C_HD=C_HD, C_DH=C_DH)
    B = np.full((n_classes, n_classes), -float(C_DD))
    B[majority, :] = -float(C_HD)
    B[:, majority] = -float(C_DH)
    np.fill_diagonal(B, 0.0)
    return B + 0.0  # no -0.0


_NO_BETA = (
    "C_DD is 0: beta and delta are undefined; the rule is P(D) >= C_HD / (C_HD + C_DH), then the most probable of them"
)
_HUGE_BETA = "C_DD is so small relative to the other costs that beta and delta overflow; the decisions are not affected"
_NO_P_STAR = "C_HD and C_DH are both 0: p* is undefined, and every instance is a tie, which goes to the minority"
_ALWAYS_RARE = "C_HD is 0: a minority class is predicted for every instance"
_NEVER_RARE = "C_DH is 0: a minority class is predicted only if the majority class has probability 0"


def _check(n_classes: int, majority: int, **costs: float) -> None:
    flaws = [
        Flaw(pointer(name), f"a cost is a finite number from 0 to {LARGEST:g}")
        for name, cost in costs.items()
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= LARGEST
    ]
    if n_classes < 2 or not 0 <= majority < n_classes:
        flaws.append(Flaw("/majority", "the majority is one of at least two classes"))
    if flaws:
        raise Invalid("invalid costs", flaws)
