"""What would change each decision, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.decisions.explanations import flips
from app.errors import Invalid


def explanations(
    P: np.ndarray, B: np.ndarray, choice: np.ndarray, classes: Sequence[object], actions: Sequence[object]
) -> list[dict[str, Any]]:
    """One for each decision `choice` (n,) made with probabilities P (n, K) and benefits B, (K, A) or (n, K, A).

    Raises Invalid at /explain where there is but one action.
    """
    if B.shape[-1] < 2:
        raise Invalid.at("/explain", "there is one action: nothing could change the decision")
    return list(_documents(P, B, choice, classes, actions)) if len(P) else []


def _documents(
    P: np.ndarray, B: np.ndarray, choice: np.ndarray, classes: Sequence[object], actions: Sequence[object]
) -> Iterator[dict[str, Any]]:
    found, names = flips(P, B, choice), [str(name) for name in classes]
    for i, runner_up in enumerate(found.runner_up.tolist()):
        to = int(found.to[i])
        nearest = {"action": actions[to], "probabilities": dict(zip(names, found.point[i].tolist(), strict=True))}
        yield {
            "runner_up": actions[runner_up],
            "margin": float(found.margin[i]),
            "flips_at": None if to < 0 else nearest,
            "matrix_flip": {
                "class": classes[int(found.cell[i])],
                "action": actions[runner_up],
                "change": float(found.change[i]),
            },
        }
