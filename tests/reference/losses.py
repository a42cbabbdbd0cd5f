"""Every loss of the table, by short names."""

from collections.abc import Sequence
from functools import partial

from payoff.retrieval import losses
from payoff.retrieval.losses import Loss

jaccard, am, g_tp_pr, g_mean, h_mean, auc = (
    partial(Loss, name)
    for name in ("jaccard", "am", "g_tp_pr", "g_mean", "h_mean", "auc")
)


def f_beta(beta: float = 1.0) -> Loss:
    """The F-measure."""
    return Loss("f_beta", float(beta))


def fractional_linear(c: Sequence[float], d: Sequence[float]) -> Loss:
    """A quotient of linear functions of the counts."""
    return Loss("fractional_linear", c=tuple(map(float, c)), d=tuple(map(float, d)))


PLAIN = {
    name: Loss(name)
    for name in losses.LOSSES
    if name not in {"f_beta", "fractional_linear"}
}
LOSSES = {
    "f1": f_beta(1),
    "f_small": f_beta(1e-3),
    "f_large": f_beta(1e4),
    **PLAIN,
    "precision": fractional_linear([0, -1, 1, 0], [0, 0, 1, 0]),
    "recall": fractional_linear([0, -1, 0, 1], [0, 0, 0, 1]),
    "fall_out": fractional_linear([0, -1, 1, 0], [1, 0, 0, -1]),
    "jaccard as a quotient": fractional_linear([0, -2, 1, 1], [0, -1, 1, 1]),
    "signs": fractional_linear([0.5, -1, 0.2, 0.1], [1, 0.3, -0.9, -0.2]),
    "negative": fractional_linear([-0.5, 1, -0.2, -0.1], [-1, -0.3, 0.9, 0.2]),
}
HOSTILE = {
    "f_tiny": f_beta(1e-150),
    "f_huge": f_beta(1e150),
    "cancelling": fractional_linear([0.1, -1, 0.2, 1], [1, 0, -0.9999999, 0]),
    "badly_scaled": fractional_linear([0, -1e-8, 1, 1e6], [1e-9, 0, 1, 1e6]),
}  # whose terms cancel or differ by many orders: rounding grows, and so must its bound
