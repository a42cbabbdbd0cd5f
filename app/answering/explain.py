"""What would change each decision, and what it is made of: as answers describe it, and as
documents.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from app.answering.reasons import Reason
from app.registry.loaded import Loaded
from payoff.decisions.benefit import Decision
from payoff.decisions.explanations import Contributions, flips
from payoff.errors import Invalid, TooLarge

_MAX_CONTRIBUTIONS = 1_000_000  # rows times features times classes
_ROUNDING = 1e-12  # relative difference of two numbers that are equal but for rounding


class NearestFlip(BaseModel):
    """The nearest probabilities at which another action earns as much."""

    action: int | str
    probabilities: dict[str, float]


class MatrixFlip(BaseModel):
    """The smallest change of one benefit at which another action earns as much."""

    class_: int | str = Field(alias="class")
    action: int | str
    change: float = Field(
        description="to be added to the benefit of this action for this class"
    )


class ContributionTarget(BaseModel):
    """The score that a base value and contributions add up to."""

    class_: int | str = Field(
        alias="class",
        description="the second of two classes, else the most probable one, or with `against` the"
        " one that carries most of the action's regret",
    )
    score: Literal["log_odds", "log_ratio", "probability"] = Field(
        description="log_odds of the class against the others; log_ratio: the log of its"
        " probability less the mean log of all classes; or its probability; each as the model gives"
        " it, before it is calibrated; its mean over the values with which an instance is answered"
        " that lacks one which no row in training lacked"
    )


class Explanation(BaseModel):
    """What would change a decision; by a model, also what the features contribute to it."""

    sentence: str = Field(
        description="the decision, what the runner-up would earn less, and where another is better"
    )
    runner_up: int | str
    margin: float = Field(
        description="expected benefit of the decision less that of the runner-up"
    )
    flips_at: NearestFlip | None = Field(
        description="null where the decision is the same at all probabilities"
    )
    matrix_flip: MatrixFlip
    contributions: dict[str, float] | None = Field(
        default=None,
        description="by feature; absent where the model has none, or for too many instances",
    )
    base_value: float | None = Field(
        default=None, description="the score without any feature"
    )
    contributions_to: ContributionTarget | None = None
    reasons: list[Reason] | None = Field(
        default=None,
        description="with `against`: what counts most against this action; the first most of all",
    )


def explanations(
    P: np.ndarray,
    B: np.ndarray,
    decision: Decision,
    classes: Sequence[object],
    actions: Sequence[object],
) -> list[dict[str, Any]]:
    """One for each `decision` of n, made by expected benefit with probabilities P (n, K) and B, (K,
    A) or (n, K, A).

    Raises Invalid at /explain where there is but one action.
    """
    if B.shape[-1] < 2:
        raise Invalid.at(
            "/explain", "there is one action: nothing could change the decision"
        )
    if not len(P):
        return []
    choice, expected = decision
    nearest_flips = flips(P, B, choice)
    names = [str(name) for name in classes]
    documents = []
    for i, runner_up in enumerate(nearest_flips.runner_up.tolist()):
        to = int(nearest_flips.to[i])
        nearest = {
            "action": actions[to],
            "probabilities": dict(
                zip(names, nearest_flips.point[i].tolist(), strict=True)
            ),
        }
        earned, next_best = expected[i, [choice[i], runner_up]].tolist()
        is_tie = math.isclose(earned, next_best, rel_tol=_ROUNDING)
        less = "as much" if is_tie else f"{_amount(earned - next_best)} less"
        words = [
            f"{actions[choice[i]]}: {_amount(earned)} expected",
            f"{actions[runner_up]} would earn {less}",
        ]
        if to >= 0 and earned > next_best:
            words.append(_beyond(actions[to], names, P[i], nearest_flips.point[i]))
        documents.append(
            {
                "sentence": "; ".join(words),
                "runner_up": actions[runner_up],
                "margin": float(nearest_flips.margin[i]),
                "flips_at": None if to < 0 else nearest,
                "matrix_flip": {
                    "class": classes[int(nearest_flips.cell[i])],
                    "action": actions[runner_up],
                    "change": float(nearest_flips.change[i]),
                },
            }
        )
    return documents


def _amount(value: float) -> str:
    """The amount with cents; a small amount with three significant digits."""
    return f"{value:,.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def _beyond(
    action: object, names: Sequence[str], p: np.ndarray, point: np.ndarray
) -> str:
    """Where another action becomes better, by the class whose probability has to change most; the
    last of equals, which of two classes is the second.
    """
    change = np.abs(point - p)
    k = int(np.flatnonzero(change >= change.max() * (1 - _ROUNDING))[-1])
    digits = 3 if 0.001 < point[k] < 0.999 else 15  # so that it is neither 0 nor 100 %
    beyond = f"{'falls below' if point[k] < p[k] else 'rises above'} {100 * point[k]:.{digits}g} %"
    return f"{action} becomes better if the probability of {names[k]} {beyond}" + (
        "" if len(names) == 2 else " and the others are as in flips_at"
    )


def attributed(
    model: Loaded, X: np.ndarray, chosen: np.ndarray
) -> tuple[Contributions | None, list[str]]:
    """What each feature of rows X (n, m) contributed to a score of the classes `chosen` int (n,),
    or with two classes of the second, and warnings; or None, and why.
    """
    if X.size * len(model.classes) > _MAX_CONTRIBUTIONS:
        max_instances = _MAX_CONTRIBUTIONS // (X.shape[1] * len(model.classes))
        warning = "there are no contributions for so many numbers: send at most"
        return None, [f"{warning} {max_instances} instances"]
    try:
        attribution = model.estimator.contributions(X, chosen)
    except TooLarge as error:
        return None, [error.detail]
    if attribution is None:
        return None, [
            f"there are no contributions: this {model.card.learner.kind} model has none"
        ]
    if not attribution.without:
        return attribution, []
    kinds = " and ".join(attribution.without)
    return attribution, [
        f"contributions are of the other members of the blend: {kinds} has none"
    ]


def contributions(model: Loaded, attribution: Contributions) -> list[dict[str, Any]]:
    """The fields of an explanation for each row."""
    columns = (attribution.values, attribution.base, attribution.chosen)
    return [
        {
            "contributions": dict(zip(model.schema.names, values, strict=True)),
            "base_value": base,
            "contributions_to": {"class": model.classes[k], "score": attribution.score},
        }
        for values, base, k in zip(*map(np.ndarray.tolist, columns), strict=True)
    ]
