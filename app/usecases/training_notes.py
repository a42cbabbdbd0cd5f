"""What a training job warns of that does not limit the answers of its model."""

from __future__ import annotations

from typing import Any

from app.text import listing
from app.usecases.specs import TrainSpec


def notes(estimator: Any, spec: TrainSpec) -> list[str]:
    """Sentences about a fit."""
    found = []
    untried = estimator.untried() if hasattr(estimator, "untried") else []
    if untried:
        verb = "was" if len(untried) == 1 else "were"
        found.append(f"{listing(untried)} {verb} not tried: 'max_seconds' were over")
    trains_path = "lambda" in spec.learner.parameters and spec.learner.parameters["lambda"] is None
    if trains_path and spec.benefits and spec.feature_costs is None:
        found.append(
            "'benefits' did not choose the tree: that needs 'feature_costs' in the same currency; without them each"
            " feature costs 1"
        )
    return found
