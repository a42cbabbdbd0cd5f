"""Every loss of the table, by short names."""

from __future__ import annotations

from functools import partial

from app.retrieval.losses import LOSSES, Loss, parse_loss

jaccard, am, g_tp_pr, g_mean, h_mean, auc = (
    partial(Loss, name) for name in ("jaccard", "am", "g_tp_pr", "g_mean", "h_mean", "auc")
)
PLAIN = tuple(Loss(spec.name) for spec in LOSSES.values() if not spec.parameters)


def f_beta(beta: float = 1.0) -> Loss:
    """The F-measure."""
    return parse_loss({"name": "f_beta", "beta": beta})


def fractional_linear(c: object, d: object) -> Loss:
    """A quotient of linear functions of the counts."""
    return parse_loss({"name": "fractional_linear", "c": c, "d": d})
