"""Hold-out metrics against their definitions, of classes, labels and numbers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from payoff.decisions.metrics import (
    holdout_metrics,
    multilabel_metrics,
    regression_metrics,
)
from tests.reference.learners import calibration_error


def drawn(n, K, seed):
    rng = np.random.default_rng(seed)
    return np.round(rng.dirichlet(np.ones(K), size=n), 3) @ np.eye(K), rng.integers(
        0, K, size=n
    )


@given(st.integers(2, 5), st.integers(1, 5), st.integers(1, 60), st.integers(0, 10**6))
def test_equal_their_slow_twins(K, A, n, seed):
    """Calibration error by loops, other metrics by scikit-learn; and the benefits of decisions by
    expected benefit and by the likeliest class, for any number of actions.
    """
    P, codes = drawn(n, K, seed)
    P /= P.sum(axis=1, keepdims=True)
    B = np.random.default_rng(seed).integers(-9, 10, size=(K, A)).astype(float)
    figures = holdout_metrics(P, codes, list("abcde")[:K], B)
    blind = P.argmax(axis=1) if A == K else B[P.argmax(axis=1)].argmax(axis=1)
    assert figures["benefit"] == pytest.approx(
        B[codes, np.round(P @ B, 9).argmax(axis=1)].mean()
    )
    assert figures["cost_blind_benefit"] == pytest.approx(B[codes, blind].mean())
    p, occurred = (
        (P[:, 1], codes == 1) if K == 2 else (P.max(axis=1), P.argmax(axis=1) == codes)
    )
    error = calibration_error(p.tolist(), occurred.tolist())
    assert figures["expected_calibration_error"] == pytest.approx(error)
    curves = [k for k in ([1] if K == 2 else range(K)) if 0 < (codes == k).sum() < n]
    areas = [metrics.roc_auc_score(codes == k, P[:, k]) for k in curves]
    assert figures["auc"] == (pytest.approx(np.mean(areas)) if areas else None)
    assert figures["log_loss"] == pytest.approx(
        metrics.log_loss(codes, P, labels=range(K))
    )
    assert figures["brier"] == pytest.approx(
        metrics.brier_score_loss(codes, P, labels=range(K), scale_by_half=K == 2)
    )
    for k, of_class in enumerate(figures["per_class"].values()):
        rows, predicted = (codes == k).sum(), (P.argmax(axis=1) == k).sum()
        assert (of_class["rows"], of_class["predicted"]) == (rows, predicted)
        correct = ((P.argmax(axis=1) == k) & (codes == k)).sum()
        assert of_class["correct"] == correct
        assert of_class["recall"] == (pytest.approx(correct / rows) if rows else None)
        assert of_class["precision"] == (
            pytest.approx(correct / predicted) if predicted else None
        )
    assert figures["rows"] == n
    assert figures["accuracy"] == pytest.approx(
        metrics.accuracy_score(codes, P.argmax(axis=1))
    )


def test_certain_and_wrong_is_finite_and_json():
    """Probabilities of exactly 0 and 1, and a class without rows, give figures that JSON can
    hold.
    """
    P = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    figures = json.loads(
        json.dumps(holdout_metrics(P, np.array([1, 1]), [1, 2, 3]), allow_nan=False)
    )
    assert figures["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps) / 2)
    assert figures["auc"] is None
    assert figures["per_class"]["1"] == {
        "rows": 0,
        "predicted": 1,
        "correct": 0,
        "precision": 0.0,
        "recall": None,
    }
    assert figures["per_class"]["3"]["precision"] is None
    assert "benefit" not in figures


def test_errors_of_numbers_are_scikit_learns():
    """Squared, absolute, and the share of variance explained, which labels that are all alike do
    not have.
    """
    random = np.random.default_rng(0)
    y = random.normal(5, 3, 50)
    predicted = y + random.normal(0, 1, 50)
    figures = regression_metrics(predicted, y)
    assert figures["rows"] == 50
    assert figures["mse"] == pytest.approx(metrics.mean_squared_error(y, predicted))
    assert figures["rmse"] == pytest.approx(
        metrics.root_mean_squared_error(y, predicted)
    )
    assert figures["mae"] == pytest.approx(metrics.mean_absolute_error(y, predicted))
    assert figures["r2"] == pytest.approx(metrics.r2_score(y, predicted))
    assert regression_metrics(np.array([1.0, 2.0]), np.ones(2))["r2"] is None


def test_figures_of_labels_are_scikit_learns():
    rng = np.random.default_rng(0)
    P, Y = rng.random((200, 4)), rng.integers(0, 2, (200, 4))
    figures, chosen = multilabel_metrics(P, Y, "abcd"), P > 0.5
    assert (figures["rows"], figures["labels_per_row"]) == (200, Y.sum() / 200)
    for name, average in (
        ("micro_f1", "micro"),
        ("macro_f1", "macro"),
        ("mean_f1", "samples"),
    ):
        assert figures[name] == pytest.approx(
            metrics.f1_score(Y, chosen, average=average, zero_division=1)
        )
    assert figures["brier"] == pytest.approx(((P - Y) ** 2).mean())
    assert figures["hamming_loss"] == pytest.approx(metrics.hamming_loss(Y, chosen))
    assert figures["subset_accuracy"] == pytest.approx(
        metrics.accuracy_score(Y, chosen)
    )
    for j, of_label in enumerate(figures["per_label"].values()):
        p, y = P[:, j], Y[:, j]
        of_two = holdout_metrics(np.column_stack((1 - p, p)), y, (0, 1))
        assert of_label == {
            "rows": y.sum(),
            "predicted": chosen[:, j].sum(),
            "correct": (chosen[:, j] & (y == 1)).sum(),
            "f1": pytest.approx(metrics.f1_score(y, chosen[:, j])),
            **{
                name: of_two[name]
                for name in ("log_loss", "brier", "expected_calibration_error", "auc")
            },
        }
    for name in ("log_loss", "expected_calibration_error", "auc"):
        assert figures[name] == pytest.approx(
            np.mean([of_label[name] for of_label in figures["per_label"].values()])
        )


@pytest.mark.parametrize("second", [0.3, 0.8])
def test_a_label_that_the_hold_out_lacks_leaves_no_hole(second):
    """Its auc and its F1 are undefined and null, whether it is predicted or not; the means are of
    all other labels.
    """
    P, Y = np.array([[0.9, 0.2], [0.4, second]]), np.array([[1, 0], [0, 0]])
    figures = multilabel_metrics(P, Y, [1, 2])
    assert figures["per_label"]["2"]["auc"] is None
    assert figures["per_label"]["2"]["f1"] is None
    assert figures["macro_f1"] == 1
    assert multilabel_metrics(P[1:], Y[1:], [1, 2])["macro_f1"] is None
    assert figures["auc"] == 1
    assert multilabel_metrics(P[1:], Y[1:], [1, 2])["auc"] is None
    json.dumps(figures, allow_nan=False)
