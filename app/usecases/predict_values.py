"""What a model of numbers predicts."""

from __future__ import annotations

import numpy as np

from app.errors import Flaw, pointer, reject
from app.registry.loaded import Loaded
from app.usecases.predict import Question

_FOR_CLASSES = ("rule", "benefits", "cost_matrix", "actions", "threshold", "costs", "priors", "explain", "explore")


def predict_values(model: Loaded, X: np.ndarray, question: Question) -> np.ndarray:
    """The numbers (n,) that a model of numbers predicts for rows X (n, m) as its schema encodes them.

    Raises Invalid with the place of whatever is asked that needs classes.
    """
    asked = [name for name in _FOR_CLASSES if getattr(question, name) not in (None, False)]
    asked += [] if question.constraints is None else question.constraints.fields
    reject(
        Flaw(pointer(name), f"{model.name!r} predicts numbers: {name} is for classes; leave it out") for name in asked
    )
    values: np.ndarray = model.estimator.values(X)
    reject(
        Flaw(pointer("instances", i), "the model gives no number for this instance")
        for i in np.flatnonzero(~np.isfinite(values))
    )
    return values
