"""The thread that loads a model compiles and imports what its first prediction needs."""

from __future__ import annotations

import numpy as np

from app.learners.catalogue import KINDS
from app.registry.loaded import Loaded
from app.usecases.kernels import Kernels


def warm(model: Loaded, kernels: Kernels) -> None:
    """Predict one row of missing values, so that no small request compiles anything on the event loop.

    NotReady while the kernels that its kind, or the learner that it chose, needs are being compiled by another process.
    """
    kind = getattr(model.estimator, "chosen_", model.card.learner.kind)
    if kind in KINDS and KINDS[kind].compiled:
        kernels.wait("acquisition")
    row = getattr(model.estimator, "sample", np.full((1, len(model.schema.features)), np.nan))
    (model.estimator.values if model.regression else model.estimator.posterior)(row)
