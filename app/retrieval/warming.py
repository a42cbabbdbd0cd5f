"""Compile the kernels before the first request needs them."""

from __future__ import annotations

import numpy as np

from app.retrieval import losses
from app.retrieval.batches import select_many
from app.retrieval.expected_loss import DP_LIMIT
from app.retrieval.poisson_binomial import poisson_binomial_pmf
from app.retrieval.selection import select


def warm() -> None:
    """Run every kernel once, on few items; seconds when nothing is cached on disk, else milliseconds."""
    few = np.linspace(0.9, 0.1, 40)
    for loss in (losses.f_beta(), losses.jaccard(), losses.am(), losses.g_tp_pr(), losses.auc()):
        select(few, loss)
    select(few, losses.fractional_linear((0, -2, 1, 1), (0, 0, 1, 1)))
    many = np.full(5200, 0.5)  # variance enough for Gauss rules on both sides
    for loss in (losses.g_mean(), losses.h_mean()):
        select(few, loss)
        select(many, loss)
    select(few[:DP_LIMIT], losses.f_beta())
    select_many(few, np.array([0, 20, 40]), losses.f_beta(), threads=1)
    poisson_binomial_pmf(few)
