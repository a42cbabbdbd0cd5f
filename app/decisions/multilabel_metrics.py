"""Hold-out metrics of the probabilities of several labels, for a model's card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.decisions.metrics import holdout_metrics
from app.errors import Invalid

_OF_LABEL = ("log_loss", "brier", "expected_calibration_error", "auc")


def multilabel_metrics(P: np.ndarray, Y: np.ndarray, labels: Sequence[Any]) -> dict[str, Any]:
    """Metrics of probabilities (n, L) of labels that apply where Y (n, L) is 1, else 0; ready for JSON.

    - `rows`; `labels_per_row`: how many apply on average;
    - `log_loss` in nats, `brier`, `expected_calibration_error`, `auc`: means over the labels of the two-class figures
      of `holdout_metrics` (auc over the labels that both apply and do not; None where there is none);
    - of the labels with a probability above 1/2: `subset_accuracy` (rows with all labels right), `hamming_loss`,
      `micro_f1` (counts of all labels together), `macro_f1` (mean of the labels' own) and `mean_f1` (mean of the
      rows' own); F1 of rows where nothing applies and nothing is predicted is 1, as in retrieval with `empty` 0, and
      that of a label without a row is None and in no mean;
    - `per_label`: by label, `rows` that have it, `predicted`, `correct`, `f1` and the four probability metrics.

    Raises Invalid without rows. O(n L log n).
    """
    if len(P) == 0:
        raise Invalid.at("", "metrics need at least one hold-out row")
    truth, chosen = Y.astype(bool), P > 0.5
    right = truth & chosen
    own = [_probability_figures(P[:, j], truth[:, j]) for j in range(P.shape[1])]
    each = _f1(right.sum(axis=0), truth.sum(axis=0), chosen.sum(axis=0))
    f1 = [float(value) if applies else None for value, applies in zip(each, truth.sum(axis=0), strict=True)]
    return {
        "rows": len(P),
        "labels_per_row": float(truth.sum(axis=1).mean()),
        **{name: _mean([figures[name] for figures in own]) for name in _OF_LABEL},
        "subset_accuracy": float((truth == chosen).all(axis=1).mean()),
        "hamming_loss": float((truth != chosen).mean()),
        "micro_f1": float(_f1(right.sum(), truth.sum(), chosen.sum())),
        "macro_f1": _mean(f1),
        "mean_f1": float(_f1(right.sum(axis=1), truth.sum(axis=1), chosen.sum(axis=1)).mean()),
        "per_label": {
            str(label): {
                "rows": int(truth[:, j].sum()),
                "predicted": int(chosen[:, j].sum()),
                "correct": int(right[:, j].sum()),
                "f1": f1[j],
                **own[j],
            }
            for j, label in enumerate(labels)
        },
    }


def _probability_figures(p: np.ndarray, applies: np.ndarray) -> dict[str, Any]:
    found = holdout_metrics(np.column_stack((1.0 - p, p)), applies.astype(np.intp), (0, 1))
    return {name: found[name] for name in _OF_LABEL}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _f1(right: np.ndarray, truth: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    both = np.asarray(truth + chosen)
    return np.asarray(np.where(both > 0, 2 * right / np.maximum(both, 1), 1.0))
