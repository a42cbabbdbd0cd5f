"""Compile the kernels before the first request needs them."""

from __future__ import annotations

import numpy as np

from app.retrieval.batches import select_many
from app.retrieval.expected_loss import DP_LIMIT, MEANS
from app.retrieval.losses import LOSSES, Loss
from app.retrieval.sampled import select_sampled
from app.retrieval.selection import select
from app.retrieval.terms import Terms


def warm() -> None:
    """Run every kernel once, on few items; seconds when nothing is cached on disk, else milliseconds."""
    few = np.linspace(0.9, 0.1, 40)
    for name in LOSSES:
        select(few, Terms(Loss(name, c=(0, -2, 1, 1), d=(0, 0, 1, 1))))
        if name in MEANS:
            select(np.full(5200, 0.5), Terms(Loss(name)))  # variance enough for Gauss rules on both sides
    select(few[:DP_LIMIT], Terms(Loss("f_beta")))
    select(np.linspace(0.0, 1.0, 5000), Terms(Loss("f_beta")))  # many enough for a radix sort
    select_many(few, np.array([0, 20, 40]), Terms(Loss("f_beta")), threads=1)
    select_sampled([(np.eye(2, dtype=np.uint8), np.ones(2))], np.full((1, 2), 0.5), Terms(Loss("jaccard")))
