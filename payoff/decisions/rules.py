"""Decision rules on arrays, which `app.answering.decide` gives requests: by a matrix, and by the
costs of rare classes.

Source of the last: section Hierarchical Cost-Sensitive Kernel Logistic Regression of the paper.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from payoff.decisions.benefit import TIE, decide
from payoff.decisions.threshold import HoldoutScores, decide_by_threshold, posterior_threshold

RuleName = Literal[
    "expected_benefit", "most_probable", "threshold_posterior", "threshold_holdout", "same_for_all",
    "unit_costs", "value",
]  # fmt: skip


@dataclass(frozen=True)
class HeldOutRows:
    """Rows to decide on: posteriors P (n, K) under the priors in use, the model's own scores (n,
    K), true classes y (n,), and the fold of each row, for rules that are tuned on such rows and
    must be evaluated on others.

    `priors` (K,), if they are not those of the rows.
    """

    P: np.ndarray
    scores: np.ndarray
    y: np.ndarray
    fold: np.ndarray
    priors: np.ndarray | None = None


@dataclass(frozen=True)
class Ruled:
    """The actions of a rule, int (n,), or quantities; `request`: the parameters of `/predict` for
    this rule, or None; `figures`: the rule's constants (threshold, or the common action).
    """

    rule: RuleName
    choice: np.ndarray
    request: dict[str, Any] | None
    figures: dict[str, float | None] = field(default_factory=dict)
    cross_validated: bool = False


def apply_rules(rows: HeldOutRows, B: np.ndarray) -> list[Ruled]:
    """All rules that a matrix of benefits B (K, A) is enough for, or (n, K, A) for each row its
    own, in a fixed order.

    - `expected_benefit` and `most_probable` always; where the actions are not the classes, the
      latter takes the action that is best for the most probable class.
    - `threshold_posterior` and `threshold_holdout` for two classes and two actions. The cut that is
      best on hold-out scores is optimistically biased on them, so each fold is decided with the
      best cut of the others; with fewer than two rows of a class this rule is left out. With own
      matrices there is no `threshold_posterior`.

    O(n K A + n log n).
    """
    n_classes, n_actions = B.shape[-2:]
    request = {"rule": "most_probable"} if n_actions == n_classes else None
    most_probable = Ruled("most_probable", cost_blind(rows.P, B), request)
    ruled = [
        Ruled("expected_benefit", decide(rows.P, B).choice, {"rule": "expected_benefit"}),
        most_probable,
    ]
    if B.shape[-2:] == (2, 2):
        ruled += _by_thresholds(rows, B)
    return ruled


def cost_blind(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The action (n,) for the most probable class of P (n, K): the class itself, or under benefits
    (K, A) with other actions the best one for it, for each row its own under (n, K, A).
    """
    chosen = P.argmax(axis=1)
    best = chosen if B.shape[-1] == B.shape[-2] else B.argmax(axis=-1)
    return np.asarray(
        best if best is chosen else best[chosen] if B.ndim == 2 else best[np.arange(len(P)), chosen]
    )


def same_for_all(n: int, B: np.ndarray, priors: np.ndarray) -> Ruled:
    """The one action for all n rows with the largest benefit under the class priors (K,): the
    baseline of any model.

    Ties go to the first action. If the priors are the rows' own class shares, the benefit is
    optimistically biased by no more than the chance difference of the two best columns of B.
    """
    action = int((priors @ B).argmax())
    return Ruled("same_for_all", np.full(n, action, dtype=np.intp), None, {"action": action})


def _by_thresholds(rows: HeldOutRows, B: np.ndarray) -> list[Ruled]:
    ruled: list[Ruled] = []
    if B.ndim == 2:
        cut = posterior_threshold(B)
        request = {"rule": "threshold", "threshold": "posterior"}
        choice = decide_by_threshold(rows.P[:, 1], cut)
        ruled.append(Ruled("threshold_posterior", choice, request, {"threshold": cut.value}))
    if np.bincount(rows.y, minlength=2).min() >= 2:
        best, _ = HoldoutScores(rows.scores[:, 1], rows.y).best(B, rows.priors)
        asks: dict[str, Any] | None = {
            "rule": "threshold",
            "threshold": "holdout" if B.ndim == 2 else best.value,
        }
        if B.ndim == 3 and (best.above == 0 or rows.priors is not None):
            asks = (
                None  # beside own matrices a number is a cut on posteriors, with action 1 above it
            )
        choice = _cut_by_the_other_folds(rows, B)
        ruled.append(
            Ruled(
                "threshold_holdout", choice, asks, {"threshold": best.value}, cross_validated=True
            )
        )
    return ruled


def _cut_by_the_other_folds(rows: HeldOutRows, B: np.ndarray) -> np.ndarray:
    choice = np.empty(len(rows.y), dtype=np.intp)
    scores = rows.scores[:, 1]
    for fold in np.unique(rows.fold):
        outside = rows.fold == fold
        own = B if B.ndim == 2 else B[~outside]
        cut, _ = HoldoutScores(scores[~outside], rows.y[~outside]).best(own, rows.priors)
        choice[outside] = decide_by_threshold(scores[outside], cut)
    return choice


class ByCosts(NamedTuple):
    """The predicted class of each row, int (n,), the rule's constants by name, None if not finite,
    and warnings.
    """

    choice: np.ndarray
    figures: dict[str, float | None]
    warnings: list[str]


def beta_delta(P: np.ndarray, majority: int, C_DD: float, C_HD: float, C_DH: float) -> ByCosts:
    """The class of least expected cost (`equivalent_benefits`), for posteriors P (n, classes), two
    or more.

    For C_DD > 0 it has the largest of `P(D_1)…P(D_K), beta P(H) - delta`, with `beta = (C_DH + C_HD
    - C_DD) / C_DD` and `delta = (C_DH - C_DD) / C_DD`. It is decided by the expected costs, without
    division or cancellation, and ties go to the lowest class index. For C_DD = 0 all minority
    classes cost the same; then the rule is `hierarchical`, which takes the most probable of them,
    and its threshold is a figure, too. O(n classes^2).
    """
    if C_DD == 0:
        choice, figures, warnings = hierarchical(P, majority, C_HD, C_DH)
        known = {name: threshold for name, threshold in figures.items() if threshold is not None}
        return ByCosts(choice, {"beta": None, "delta": None, **known}, [_NO_BETA, *warnings])
    choice = decide(P, equivalent_benefits(P.shape[1], majority, C_DD, C_HD, C_DH)).choice
    constants = {"beta": (C_DH + C_HD - C_DD) / float(C_DD), "delta": (C_DH - C_DD) / float(C_DD)}
    figures = {name: value if math.isfinite(value) else None for name, value in constants.items()}
    return ByCosts(choice, figures, [_NEVER_RARE] if C_DH == 0 else [])


def hierarchical(P: np.ndarray, majority: int, C_HD: float, C_DH: float) -> ByCosts:
    """The most probable minority class where `P(D) >= p* = C_HD / (C_HD + C_DH)`, else the majority
    class.

    Shapes as in `beta_delta`; the figure `threshold` is p*. Decided as `C_DH P(D) >= C_HD P(H)`,
    equal up to rounding counting as equal, so that a tie goes to the minority as in the paper, also
    where both costs are 0 and p* is undefined; of equally likely minority classes the lowest index.
    It leaves C_DD out of the first stage, and so costs at most `C_DD P(D) (1 - 1/K)` more than
    `beta_delta`, K being the number of minority classes. O(n classes).
    """
    minority = np.delete(np.arange(P.shape[1]), majority)
    rare = P[:, minority]
    likeliest = minority[rare.argmax(axis=1)]
    is_rare = C_DH * rare.sum(axis=1) * (1 + TIE * P.shape[1]) >= C_HD * P[:, majority]
    choice = np.where(is_rare, likeliest, majority)
    if C_HD == C_DH == 0:
        return ByCosts(choice, {"threshold": None}, [_NO_P_STAR])
    warnings = [_ALWAYS_RARE] if C_HD == 0 else [_NEVER_RARE] if C_DH == 0 else []
    return ByCosts(choice, {"threshold": C_HD / (C_HD + C_DH)}, warnings)


def equivalent_benefits(
    n_classes: int, majority: int, C_DD: float, C_HD: float, C_DH: float
) -> np.ndarray:
    """The costs of wrong decisions between rare classes D and a majority class H as a benefit
    matrix, float64 (classes, classes), whose columns are the predicted classes: `C_HD` that of a D
    for an H, `C_DH` an H for a D, `C_DD` the wrong D for a D, each >= 0; a right one costs 0.
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
_NO_P_STAR = "C_HD and C_DH are both 0: p* is undefined, and every instance is a tie, which goes to the minority"
_ALWAYS_RARE = "C_HD is 0: a minority class is predicted for every instance"
_NEVER_RARE = (
    "C_DH is 0: a minority class is predicted only if the majority class has probability 0"
)
