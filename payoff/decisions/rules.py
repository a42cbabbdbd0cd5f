"""Decision rules on arrays: by a benefit matrix, and by the costs of rare classes.

Source of the costs of rare classes: section Hierarchical Cost-Sensitive Kernel Logistic Regression
of the paper.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from payoff.decisions.benefit import TIE, decide
from payoff.decisions.threshold import (
    Cut,
    HoldoutScores,
    decide_by_threshold,
    posterior_threshold,
)

RuleName = Literal[
    "expected_benefit", "most_probable", "threshold_posterior", "threshold_holdout", "same_for_all",
    "unit_costs", "value",
]  # fmt: skip


@dataclass(frozen=True)
class HeldOutRows:
    """Rows of known class on which rules decide: posteriors P (n, K) under the priors in use, the
    scores (n, K) of the model, true classes y (n,), and the fold (n,) of each row.

    A rule that is tuned on such rows is evaluated on the rows of another fold. `priors` (K,) are
    those in use, if they are not the class shares of the rows; `weights` (n,) those of the rows, 1
    each by default.
    """

    P: np.ndarray
    scores: np.ndarray
    y: np.ndarray
    fold: np.ndarray
    priors: np.ndarray | None = None
    weights: np.ndarray | None = None

    def ordered(self, rows: Any = slice(None)) -> HoldoutScores:
        """The scores of class 1 of two, of all or some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return HoldoutScores(self.scores[rows, 1], self.y[rows], weights)


@dataclass(frozen=True)
class Ruled:
    """The actions of a rule, int (n,), or quantities.

    `request` has the parameters of `/predict` for this rule, None where it has no such parameters;
    `figures` has the rule's constants (threshold, or the common action).
    """

    rule: RuleName
    choice: np.ndarray
    request: dict[str, Any] | None
    figures: dict[str, float | None] = field(default_factory=dict)
    cross_validated: bool = False


def apply_rules(rows: HeldOutRows, B: np.ndarray) -> list[Ruled]:
    """All rules that need only benefits B (K, A), or (n, K, A), a matrix for each row, in a fixed
    order.

    - `expected_benefit` and `most_probable` always; where the actions are not the classes,
      `most_probable` takes the action that is best for the most probable class.
    - `threshold_posterior` and `threshold_holdout` for two classes and two actions. The cut that is
      best on hold-out scores is optimistically biased on them, so each fold is decided with the
      best cut of all other folds. There is no `threshold_holdout` with fewer than two rows of a
      class, and no `threshold_posterior` with a matrix for each row.

    O(n K A + n log n).
    """
    n_classes, n_actions = B.shape[-2:]
    request = {"rule": "most_probable"} if n_actions == n_classes else None
    most_probable = Ruled("most_probable", cost_blind(rows.P, B), request)
    ruled = [
        Ruled(
            "expected_benefit", decide(rows.P, B).choice, {"rule": "expected_benefit"}
        ),
        most_probable,
    ]
    if B.shape[-2:] == (2, 2):
        ruled += _by_thresholds(rows, B)
    return ruled


def cost_blind(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The action (n,) for the most probable class of P (n, K), by benefits (K, A) or (n, K, A).

    It is the class where there are as many actions as classes, else the action with the largest
    benefit in that class.
    """
    classes = P.argmax(axis=1)
    if B.shape[-1] == B.shape[-2]:
        return np.asarray(classes)
    best = B.argmax(axis=-1)
    return np.asarray(
        best[classes] if B.ndim == 2 else best[np.arange(len(P)), classes]
    )


def same_for_all(n: int, B: np.ndarray, priors: np.ndarray) -> Ruled:
    """The action with the largest benefit under the class priors (K,), for all n rows: the baseline
    of any model.

    Ties go to the first action. If the priors are the rows' own class shares, the benefit is
    optimistically biased by no more than the chance difference of the two best columns of B.
    """
    action = int((priors @ B).argmax())
    return Ruled(
        "same_for_all", np.full(n, action, dtype=np.intp), None, {"action": action}
    )


def _by_thresholds(rows: HeldOutRows, B: np.ndarray) -> list[Ruled]:
    ruled: list[Ruled] = []
    if B.ndim == 2:
        cut = posterior_threshold(B)
        request = {"rule": "threshold", "threshold": "posterior"}
        choice = decide_by_threshold(rows.P[:, 1], cut)
        ruled.append(
            Ruled("threshold_posterior", choice, request, {"threshold": cut.value})
        )
    if _is_tunable(rows):
        best, _ = rows.ordered().best(B, rows.priors)
        ruled.append(
            Ruled(
                "threshold_holdout",
                _cross_validated_cuts(rows, B),
                _holdout_request(rows, B, best),
                {"threshold": best.value},
                cross_validated=True,
            )
        )
    return ruled


def _is_tunable(rows: HeldOutRows) -> bool:
    """Whether there are rows of both classes outside of every fold."""
    return all(
        np.bincount(rows.y[rows.fold != fold], minlength=2).all()
        for fold in np.unique(rows.fold)
    )


def _holdout_request(
    rows: HeldOutRows, B: np.ndarray, best: Cut
) -> dict[str, Any] | None:
    """The parameters of `/predict` for the best cut on the hold-out, None where there are none."""
    if B.ndim == 2:
        return {"rule": "threshold", "threshold": "holdout"}
    if best.above == 0 or rows.priors is not None:
        # With a matrix for each row, a number is a cut on posteriors, with action 1 above it.
        return None
    return {"rule": "threshold", "threshold": best.value}


def _cross_validated_cuts(rows: HeldOutRows, B: np.ndarray) -> np.ndarray:
    """The actions (n,) by the best cut of all folds but that of the row."""
    choice = np.empty(len(rows.y), dtype=np.intp)
    scores = rows.scores[:, 1]
    for fold in np.unique(rows.fold):
        inside = rows.fold == fold
        benefits = B if B.ndim == 2 else B[~inside]
        cut, _ = rows.ordered(~inside).best(benefits, rows.priors)
        choice[inside] = decide_by_threshold(scores[inside], cut)
    return choice


class ByCosts(NamedTuple):
    """The predicted class of each row, int (n,), the rule's constants by name, None where they are
    not finite, and warnings.
    """

    choice: np.ndarray
    figures: dict[str, float | None]
    warnings: list[str]


def beta_delta(
    P: np.ndarray, majority: int, C_DD: float, C_HD: float, C_DH: float
) -> ByCosts:
    """The class of least expected cost (`equivalent_benefits`), for posteriors P (n, classes), two
    or more.

    For C_DD > 0 it has the largest of `P(D_1)…P(D_K), beta P(H) - delta`, with `delta = (C_DH -
    C_DD) / C_DD` and `beta = (C_DH + C_HD - C_DD) / C_DD`. It is decided by the expected costs,
    without division or cancellation, and ties go to the lowest class index. For C_DD = 0 all
    minority classes cost the same; then the rule is `hierarchical`, which takes the most probable
    of them, and its threshold is a figure, too. O(n classes^2).
    """
    if C_DD == 0:
        choice, figures, warnings = hierarchical(P, majority, C_HD, C_DH)
        known = {
            name: threshold
            for name, threshold in figures.items()
            if threshold is not None
        }
        return ByCosts(
            choice, {"beta": None, "delta": None, **known}, [_NO_BETA, *warnings]
        )
    choice = decide(
        P, equivalent_benefits(P.shape[1], majority, C_DD, C_HD, C_DH)
    ).choice
    constants = {
        "beta": (C_DH + C_HD - C_DD) / float(C_DD),
        "delta": (C_DH - C_DD) / float(C_DD),
    }
    figures = {
        name: value if math.isfinite(value) else None
        for name, value in constants.items()
    }
    return ByCosts(choice, figures, [_NEVER_RARE] if C_DH == 0 else [])


def hierarchical(P: np.ndarray, majority: int, C_HD: float, C_DH: float) -> ByCosts:
    """The most probable minority class where `P(D) >= p* = C_HD / (C_HD + C_DH)`, else the majority
    class.

    Shapes as in `beta_delta`; the figure `threshold` is p*. The test is `C_DH P(D) >= C_HD P(H)`.
    Sides that differ by rounding count as equal, so a tie goes to the minority as in the paper,
    also where both costs are 0 and p* is undefined. Of equally likely minority classes the one of
    the lowest index is predicted. The first stage does not use C_DD, so the rule costs at most
    `C_DD P(D) (1 - 1/K)` more than `beta_delta`, K being the number of minority classes.
    O(n classes).
    """
    minority = np.delete(np.arange(P.shape[1]), majority)
    rare = P[:, minority]
    likeliest = minority[rare.argmax(axis=1)]
    is_rare = C_DH * rare.sum(axis=1) * (1 + TIE * P.shape[1]) >= C_HD * P[:, majority]
    choice = np.where(is_rare, likeliest, majority)
    if C_HD == C_DH == 0:
        return ByCosts(choice, {"threshold": None}, [_NO_P_STAR])
    warnings = []
    if C_HD == 0:
        warnings.append(_ALWAYS_RARE)
    elif C_DH == 0:
        warnings.append(_NEVER_RARE)
    return ByCosts(choice, {"threshold": C_HD / (C_HD + C_DH)}, warnings)


def equivalent_benefits(
    n_classes: int, majority: int, C_DD: float, C_HD: float, C_DH: float
) -> np.ndarray:
    """The costs of wrong predictions of rare classes D and a majority class H, as a benefit matrix,
    float64 (classes, classes).

    Its columns are the predicted classes. `C_HD` is the cost of predicting a D where H is true,
    `C_DH` of predicting H where a D is true, `C_DD` of predicting the wrong D, each >= 0; a correct
    prediction costs 0.
    """
    B = np.full((n_classes, n_classes), -float(C_DD))
    B[majority, :] = -float(C_HD)
    B[:, majority] = -float(C_DH)
    np.fill_diagonal(B, 0.0)
    return B + 0.0  # no -0.0


_NO_BETA = (
    "C_DD is 0: beta and delta are undefined; "
    "the rule is P(D) >= C_HD / (C_HD + C_DH), then the most probable of them"
)
_NO_P_STAR = (
    "C_HD and C_DH are both 0: p* is undefined, and every instance is a tie, which goes to the"
    " minority"
)
_ALWAYS_RARE = "C_HD is 0: a minority class is predicted for every instance"
_NEVER_RARE = (
    "C_DH is 0: a minority class is predicted "
    "only if the majority class has probability 0"
)
