"""Which set of items has the smallest expected loss. Pure: arrays in, frozen dataclasses out.

`select` chooses one set of independent items, `select_many` one for each of many groups, `select_class_set` a set of
classes per row when one class is true. `expected_losses` gives the whole curve L_0 … L_n. Losses come from the
functions named after them or from `parse_loss`. `warm` compiles the kernels.
"""

from app.retrieval.batches import Selections, select_many
from app.retrieval.expected_loss import expected_losses
from app.retrieval.losses import (
    Loss,
    am,
    auc,
    f_beta,
    fractional_linear,
    g_mean,
    g_tp_pr,
    h_mean,
    jaccard,
    parse_loss,
)
from app.retrieval.multiclass import select_class_set
from app.retrieval.poisson_binomial import poisson_binomial_pmf
from app.retrieval.quadrature import Curve
from app.retrieval.selection import Selection, select
from app.retrieval.warming import warm

__all__ = [
    "Curve",
    "Loss",
    "Selection",
    "Selections",
    "am",
    "auc",
    "expected_losses",
    "f_beta",
    "fractional_linear",
    "g_mean",
    "g_tp_pr",
    "h_mean",
    "jaccard",
    "parse_loss",
    "poisson_binomial_pmf",
    "select",
    "select_class_set",
    "select_many",
    "warm",
]
