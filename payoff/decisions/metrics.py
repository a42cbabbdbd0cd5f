"""Hold-out metrics for a model's card: of probabilities of classes or labels, and of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.row_weights import effective_rows
from payoff.decisions.rules import cost_blind

_BINS = 15  # of the expected calibration error
_SMALLEST = np.finfo(np.float64).eps  # probability of the log loss


def holdout_metrics(
    P: np.ndarray,
    codes: np.ndarray,
    classes: Sequence[Any],
    B: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Metrics of probabilities (n, K) of rows with true classes `codes` (n,) in 0…K-1, for JSON.

    Rows count by their positive `weights` (n,), by default alike; the numbers of rows do not.

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
    w = np.ones(len(P)) if weights is None else weights
    chosen = P.argmax(axis=1)
    metrics: dict[str, Any] = {
        "rows": len(P),
        "accuracy": _average(chosen == codes, w),
        **_of_probabilities(P, codes, w),
        "per_class": {
            str(label): _of_class(k, codes, chosen, w)
            for k, label in enumerate(classes)
        },
    }
    if B is not None:
        earned = row_benefits(codes, decide(P, B).choice, B)
        metrics["benefit"] = _average(earned, w)
        cost_blind_earned = row_benefits(codes, cost_blind(P, B), B)
        metrics["cost_blind_benefit"] = _average(cost_blind_earned, w)
    return metrics


def _average(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average(values, weights=weights))


def regression_metrics(
    predicted: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, Any]:
    """Metrics of predicted numbers (n,) of rows whose true numbers are y (n,), for JSON.

    Rows count by their positive `weights` (n,), by default alike.

    - `rows`; `mse`: mean squared error, `rmse`: its root, `mae`: mean absolute error, the last two
      in the label's units;
    - `r2`: the share of the variance of y that is explained, 1 at best; None if y is constant.

    There is at least one row. O(n).
    """
    errors = predicted - y
    w = np.ones(len(y)) if weights is None else weights
    mse = _average(np.square(errors), w)
    variance = _average(np.square(y - _average(y, w)), w)
    return {
        "rows": len(y),
        "mse": mse,
        "rmse": mse**0.5,
        "mae": _average(np.abs(errors), w),
        "r2": None if variance == 0 else 1 - mse / variance,
    }


def _of_probabilities(
    P: np.ndarray, codes: np.ndarray, w: np.ndarray
) -> dict[str, float | None]:
    """The metrics of probabilities (n, K) that are the same for classes and for labels."""
    of_truth = P[np.arange(len(P)), codes]
    return {
        "log_loss": _average(-np.log(np.maximum(of_truth, _SMALLEST)), w),
        "brier": _brier(P, codes, w),
        "expected_calibration_error": _calibration_error(P, codes, w),
        "auc": _auc(P, codes, w),
    }


def _brier(P: np.ndarray, codes: np.ndarray, w: np.ndarray) -> float:
    errors = (P - np.eye(P.shape[1])[codes]) ** 2
    return _average(errors[:, 1] if P.shape[1] == 2 else errors.sum(axis=1), w)


def _calibration_error(P: np.ndarray, codes: np.ndarray, w: np.ndarray) -> float:
    if P.shape[1] == 2:
        probability, occurred = P[:, 1], codes == 1
    else:
        probability, occurred = P.max(axis=1), P.argmax(axis=1) == codes
    bins = np.minimum((probability * _BINS).astype(np.intp), _BINS - 1)
    gaps = np.bincount(bins, w * (probability - occurred), minlength=_BINS)
    return float(np.abs(gaps).sum() / w.sum())


def _auc(P: np.ndarray, codes: np.ndarray, w: np.ndarray) -> float | None:
    areas = []
    classes = range(1, 2) if P.shape[1] == 2 else range(P.shape[1])
    for k in classes:
        inside = codes == k
        if inside.any() and not inside.all():
            areas.append(rank_area(P[:, k], inside, w)[0])
    return float(np.mean(areas)) if areas else None


def rank_area(
    scores: np.ndarray, inside: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """The area under the ROC curve of scores (n,), and the standard error that it would have with
    scores at random.

    Rows are positive where `inside`, bool (n,); there are positive and negative ones. The area is
    that of the rank sum (Mann and Whitney), in which ties count half, and pairs by the product of
    their positive `weights` (n,), by default 1; its error takes the effective numbers of rows.
    O(n log n).
    """
    w = np.ones(len(scores)) if weights is None else weights
    negatives, positives = effective_rows(w, inside.astype(np.intp), 2).tolist()
    n = negatives + positives
    pairs = positives * negatives
    _, place = np.unique(scores, return_inverse=True)
    tied = np.bincount(place, w)
    of_positives = np.bincount(place[inside], w[inside], len(tied))
    of_negatives = tied - of_positives
    below = of_negatives.cumsum() - of_negatives / 2
    area = of_positives @ below / (of_positives.sum() * of_negatives.sum())
    ties = tied * (n / tied.sum())
    spread = (n + 1) - (ties**3 - ties).sum() / (n * (n - 1))
    return float(area), float(np.sqrt(max(spread, 0.0) / (12 * pairs)))


def mean_rank_area(
    scores: np.ndarray,
    inside: np.ndarray,
    min_rows: int,
    weights: np.ndarray | None = None,
) -> tuple[float, float] | None:
    """The mean of the columns' areas under ROC curves, weighted by their precision, and its
    standard error, both as in `rank_area`.

    Scores and bool `inside` are (n, c). A column counts with at least `min_rows` effective rows
    inside, and as many outside; None where no column counts.
    """
    w = np.ones(len(inside)) if weights is None else weights
    counts = [effective_rows(w, column.astype(np.intp), 2).min() for column in inside.T]
    columns = np.flatnonzero(np.array(counts) >= min_rows)
    if not columns.size:
        return None
    areas, errors = np.array(
        [rank_area(scores[:, k], inside[:, k], w) for k in columns]
    ).T
    varied = errors > 0
    if not varied.any():  # all scores of each column are equal
        return 0.5, 0.0
    precision = errors[varied] ** -2
    return _average(areas[varied], precision), float(precision.sum() ** -0.5)


def _of_class(
    k: int, codes: np.ndarray, chosen: np.ndarray, w: np.ndarray
) -> dict[str, Any]:
    """Counts, precision and recall of class k."""
    true = codes == k
    predicted = chosen == k
    correct = true & predicted
    return {
        "rows": int(true.sum()),
        "predicted": int(predicted.sum()),
        "correct": int(correct.sum()),
        "precision": _average(true[predicted], w[predicted])
        if predicted.any()
        else None,
        "recall": _average(predicted[true], w[true]) if true.any() else None,
    }


def multilabel_metrics(
    P: np.ndarray,
    Y: np.ndarray,
    labels: Sequence[Any],
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Metrics of probabilities (n, L) of labels that apply where Y (n, L) is 1, else 0, for JSON.

    Rows count by their positive `weights` (n,), by default alike; the numbers of rows do not.

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
    w = np.ones(len(P)) if weights is None else weights
    truth, chosen = Y.astype(bool), P > 0.5
    right = truth & chosen
    of_label = [
        _of_probabilities(np.column_stack((1.0 - p, p)), y.astype(np.intp), w)
        for p, y in zip(P.T, truth.T, strict=True)
    ]
    rows, predicted, correct = truth.sum(axis=0), chosen.sum(axis=0), right.sum(axis=0)
    sums = w @ right, w @ truth, w @ chosen
    f1_of_label = _f1(*sums)
    f1 = [float(f1_of_label[j]) if rows[j] else None for j in range(len(labels))]
    return {
        "rows": len(P),
        "labels_per_row": _average(truth.sum(axis=1), w),
        **{
            name: _mean([metrics[name] for metrics in of_label]) for name in of_label[0]
        },
        "subset_accuracy": _average((truth == chosen).all(axis=1), w),
        "hamming_loss": _average((truth != chosen).mean(axis=1), w),
        "micro_f1": float(_f1(*map(np.sum, sums))),
        "macro_f1": _mean(f1),
        "mean_f1": _average(
            _f1(right.sum(axis=1), truth.sum(axis=1), chosen.sum(axis=1)), w
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
    return np.asarray(
        np.where(total > 0, 2 * correct / np.where(total > 0, total, 1), 1.0)
    )
