"""Hold-out metrics for a model's card: of probabilities of classes or labels, and of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.rules import cost_blind

_BINS = 15  # of the expected calibration error
_SMALLEST = np.finfo(np.float64).eps  # probability of the log loss


def holdout_metrics(
    P: np.ndarray,
    codes: np.ndarray,
    classes: Sequence[Any],
    B: np.ndarray | None = None,
) -> dict[str, Any]:
    """Metrics of probabilities (n, K) of rows with true classes `codes` (n,) in 0…K-1, for JSON.

    - `rows`; `accuracy` of the most probable class; `log_loss` in nats, probabilities clipped at
      2.2e-16;
    - `brier`: with two classes the mean squared error of the probability of class 1 (0…1), with
      more the mean over rows of the summed squared errors (0…2);
    - `expected_calibration_error`: in 15 bins of equal width, the mean distance between probability
      and frequency, of class 1 (two classes) or of the most probable class (more);
    - `auc`: of class 1, or the mean over the classes that occur, of each against all others; None
      with fewer than two;
    - `per_class`: by label, `rows`, `predicted`, `correct`, `precision` and `recall` (None at 0/0);
    - with benefits (K, A), or (n, K, A): `benefit` per row of deciding by expected benefit, and
      `cost_blind_benefit`, of the action for the most probable class (see `cost_blind`).

    There is at least one row. O(n log n K).
    """
    chosen = P.argmax(axis=1)
    metrics: dict[str, Any] = {
        "rows": len(P),
        "accuracy": float((chosen == codes).mean()),
        **_of_probabilities(P, codes),
        "per_class": {
            str(label): _of_class(k, codes, chosen) for k, label in enumerate(classes)
        },
    }
    if B is not None:
        metrics["benefit"] = float(row_benefits(codes, decide(P, B).choice, B).mean())
        metrics["cost_blind_benefit"] = float(
            row_benefits(codes, cost_blind(P, B), B).mean()
        )
    return metrics


def regression_metrics(predicted: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Metrics of predicted numbers (n,) of rows whose true numbers are y (n,), for JSON.

    - `rows`; `mse`: mean squared error, `rmse`: its root, `mae`: mean absolute error, the last two
      in the label's units;
    - `r2`: the share of the variance of y that is explained, 1 at best; None if y is constant.

    There is at least one row. O(n).
    """
    errors = predicted - y
    mse = float(np.square(errors).mean())
    variance = float(np.var(y))
    return {
        "rows": len(y),
        "mse": mse,
        "rmse": mse**0.5,
        "mae": float(np.abs(errors).mean()),
        "r2": None if variance == 0 else 1 - mse / variance,
    }


def _of_probabilities(P: np.ndarray, codes: np.ndarray) -> dict[str, float | None]:
    """The metrics of probabilities (n, K) that are the same for classes and for labels."""
    of_truth = P[np.arange(len(P)), codes]
    return {
        "log_loss": float(-np.log(np.maximum(of_truth, _SMALLEST)).mean()),
        "brier": _brier(P, codes),
        "expected_calibration_error": _calibration_error(P, codes),
        "auc": _auc(P, codes),
    }


def _brier(P: np.ndarray, codes: np.ndarray) -> float:
    errors = (P - np.eye(P.shape[1])[codes]) ** 2
    return float(errors[:, 1].mean() if P.shape[1] == 2 else errors.sum(axis=1).mean())


def _calibration_error(P: np.ndarray, codes: np.ndarray) -> float:
    if P.shape[1] == 2:
        probability, occurred = P[:, 1], codes == 1
    else:
        probability, occurred = P.max(axis=1), P.argmax(axis=1) == codes
    bins = np.minimum((probability * _BINS).astype(np.intp), _BINS - 1)
    return float(
        np.abs(np.bincount(bins, probability - occurred, minlength=_BINS)).sum()
        / len(P)
    )


def _auc(P: np.ndarray, codes: np.ndarray) -> float | None:
    areas = []
    classes = range(1, 2) if P.shape[1] == 2 else range(P.shape[1])
    for k in classes:
        inside = codes == k
        if inside.any() and not inside.all():
            areas.append(rank_area(P[:, k], inside)[0])
    return float(np.mean(areas)) if areas else None


def rank_area(scores: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    """The area under the ROC curve of scores (n,), and the standard error that it would have with
    scores at random.

    Rows are positive where `inside`, bool (n,); there are positive and negative ones. The area is
    that of the rank sum (Mann and Whitney), in which ties count half. O(n log n).
    """
    n = len(scores)
    positives = int(inside.sum())
    pairs = positives * (n - positives)
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[
        place
    ]  # tied scores have the mean of their ranks
    surplus = ranks[inside].sum() - positives * (positives + 1) / 2
    ties = counts.astype(np.float64)
    spread = (n + 1) - (ties**3 - ties).sum() / (n * (n - 1))
    return float(surplus / pairs), float(np.sqrt(max(spread, 0.0) / (12 * pairs)))


def mean_rank_area(
    scores: np.ndarray, inside: np.ndarray, min_rows: int
) -> tuple[float, float] | None:
    """The mean of the columns' areas under ROC curves, weighted by their precision, and its
    standard error, both as in `rank_area`.

    Scores and bool `inside` are (n, c). A column counts with at least `min_rows` rows inside, and
    as many outside; None where no column counts.
    """
    counts = inside.sum(axis=0)
    columns = np.flatnonzero(np.minimum(counts, len(inside) - counts) >= min_rows)
    if not columns.size:
        return None
    areas, errors = np.array([rank_area(scores[:, k], inside[:, k]) for k in columns]).T
    varied = errors > 0
    if not varied.any():  # all scores of each column are equal
        return 0.5, 0.0
    weights = errors[varied] ** -2
    return float(np.average(areas[varied], weights=weights)), float(
        weights.sum() ** -0.5
    )


def _of_class(k: int, codes: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
    """Counts, precision and recall of class k."""
    rows = int((codes == k).sum())
    predicted = int((chosen == k).sum())
    correct = int(((codes == k) & (chosen == k)).sum())
    return {
        "rows": rows,
        "predicted": predicted,
        "correct": correct,
        "precision": correct / predicted if predicted else None,
        "recall": correct / rows if rows else None,
    }


def multilabel_metrics(
    P: np.ndarray, Y: np.ndarray, labels: Sequence[Any]
) -> dict[str, Any]:
    """Metrics of probabilities (n, L) of labels that apply where Y (n, L) is 1, else 0, for JSON.

    - `rows`; `labels_per_row`: how many apply on average;
    - `log_loss` in nats, `brier`, `expected_calibration_error`, `auc`: means over the labels of the
      two-class metrics of `holdout_metrics`; `auc` over the labels that apply to a part of the
      rows, None where there is no such label;
    - of the labels with a probability above 1/2: `subset_accuracy` (share of rows with all labels
      right), `hamming_loss`, `micro_f1` (of the counts of all labels together), `macro_f1` (mean of
      the labels' F1) and `mean_f1` (mean of the rows' F1). F1 of a row to which no label applies
      and for which none is predicted is 1, as in retrieval with `empty` 0. F1 of a label without a
      row is None, and in no mean;
    - `per_label`: by label, `rows` that have it, `predicted`, `correct`, `f1` and the four
      probability metrics.

    There is at least one row. O(n L log n).
    """
    truth, chosen = Y.astype(bool), P > 0.5
    right = truth & chosen
    of_label = [
        _of_probabilities(np.column_stack((1.0 - p, p)), y.astype(np.intp))
        for p, y in zip(P.T, truth.T, strict=True)
    ]
    rows, predicted, correct = truth.sum(axis=0), chosen.sum(axis=0), right.sum(axis=0)
    f1_of_label = _f1(correct, rows, predicted)
    f1 = [float(f1_of_label[j]) if rows[j] else None for j in range(len(labels))]
    return {
        "rows": len(P),
        "labels_per_row": float(truth.sum(axis=1).mean()),
        **{
            name: _mean([metrics[name] for metrics in of_label]) for name in of_label[0]
        },
        "subset_accuracy": float((truth == chosen).all(axis=1).mean()),
        "hamming_loss": float((truth != chosen).mean()),
        "micro_f1": float(_f1(right.sum(), truth.sum(), chosen.sum())),
        "macro_f1": _mean(f1),
        "mean_f1": float(
            _f1(right.sum(axis=1), truth.sum(axis=1), chosen.sum(axis=1)).mean()
        ),
        "per_label": {
            str(label): {
                "rows": int(rows[j]),
                "predicted": int(predicted[j]),
                "correct": int(correct[j]),
                "f1": f1[j],
                **of_label[j],
            }
            for j, label in enumerate(labels)
        },
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _f1(correct: np.ndarray, rows: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """F1 from counts; 1 where all of them are 0."""
    total = np.asarray(rows + predicted)
    return np.asarray(np.where(total > 0, 2 * correct / np.maximum(total, 1), 1.0))
