"""Every loss of the table, by short names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.retrieval.losses import LOSSES, Loss

jaccard, am, g_tp_pr, g_mean, h_mean, auc = (
    partial(Loss, name) for name in ("jaccard", "am", "g_tp_pr", "g_mean", "h_mean", "auc")
)
PLAIN = tuple(Loss(name) for name in LOSSES if name not in {"f_beta", "fractional_linear"})


def f_beta(beta: float = 1.0) -> Loss:
    """The F-measure."""
    return Loss("f_beta", float(beta))


def fractional_linear(c: Sequence[float], d: Sequence[float]) -> Loss:
    """A quotient of linear functions of the counts."""
    return Loss("fractional_linear", c=tuple(map(float, c)), d=tuple(map(float, d)))
