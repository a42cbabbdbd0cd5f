"""What would change each decision, and what it is made of: as answers describe it, and as documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from app.decisions.explanations import flips
from app.errors import Invalid, TooLarge
from app.registry.loaded import Loaded

_CELLS = 1_000_000  # rows times features times classes


class NearestFlip(BaseModel):
    """The nearest probabilities at which another action earns as much."""

    action: int | str
    probabilities: dict[str, float]


class MatrixFlip(BaseModel):
    """The smallest change of one benefit at which another action earns as much."""

    class_: int | str = Field(alias="class")
    action: int | str
    change: float = Field(description="to be added to the benefit of this action for this class")


class ContributionTarget(BaseModel):
    """The score that a base value and contributions add up to."""

    class_: int | str = Field(alias="class", description="the second of two classes, else the most probable one")
    score: Literal["log_odds", "log_ratio", "probability"] = Field(
        description="log_odds of the class against the others; log_ratio: the log of its probability less the mean log"
        " of all classes; or its probability; each as the model gives it, before it is calibrated"
    )


class Explanation(BaseModel):
    """What would change a decision; by a model, also what the features contribute to it."""

    runner_up: int | str
    margin: float = Field(description="expected benefit of the decision less that of the runner-up")
    flips_at: NearestFlip | None = Field(description="null where the decision is the same at all probabilities")
    matrix_flip: MatrixFlip
    contributions: dict[str, float] | None = Field(
        default=None, description="by feature; absent where the model has none, or for too many instances"
    )
    base_value: float | None = Field(default=None, description="the score without any feature")
    contributions_to: ContributionTarget | None = None


def explanations(
    P: np.ndarray, B: np.ndarray, choice: np.ndarray, classes: Sequence[object], actions: Sequence[object]
) -> list[dict[str, Any]]:
    """One for each decision `choice` (n,) made with probabilities P (n, K) and benefits B, (K, A) or (n, K, A).

    Raises Invalid at /explain where there is but one action.
    """
    if B.shape[-1] < 2:
        raise Invalid.at("/explain", "there is one action: nothing could change the decision")
    if not len(P):
        return []
    found, names, documents = flips(P, B, choice), [str(name) for name in classes], []
    for i, runner_up in enumerate(found.runner_up.tolist()):
        to = int(found.to[i])
        nearest = {"action": actions[to], "probabilities": dict(zip(names, found.point[i].tolist(), strict=True))}
        cell = {
            "class": classes[int(found.cell[i])],
            "action": actions[runner_up],
            "change": float(found.change[i]),
        }
        documents.append(
            {
                "runner_up": actions[runner_up],
                "margin": float(found.margin[i]),
                "flips_at": None if to < 0 else nearest,
                "matrix_flip": cell,
            }
        )
    return documents


def contributions(model: Loaded, X: np.ndarray, P: np.ndarray) -> tuple[list[dict[str, Any]], list[str]]:
    """What each feature of rows X (n, m) contributed to a score of the most probable class by P (n, K), or with two
    classes of the second: fields for each row; or none, and why.
    """
    if X.size * len(model.classes) > _CELLS:
        most = _CELLS // (X.shape[1] * len(model.classes))
        return [], [f"there are no contributions for so many numbers: send at most {most} instances"]
    try:
        found = model.estimator.contributions(X, P.argmax(axis=1))
    except TooLarge as error:
        return [], [error.detail]
    if found is None:
        return [], [f"there are no contributions: this {model.card.learner.kind} model has none"]
    columns = (found.values, found.base, found.chosen)
    return [
        {
            "contributions": dict(zip(model.schema.names, values, strict=True)),
            "base_value": base,
            "contributions_to": {"class": model.classes[k], "score": found.score},
        }
        for values, base, k in zip(*map(np.ndarray.tolist, columns), strict=True)
    ], []
