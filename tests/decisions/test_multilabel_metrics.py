"""Figures for several labels equal scikit-learn's, and are always JSON."""

import json

import numpy as np
import pytest
from sklearn import metrics

from app.decisions.multilabel_metrics import multilabel_metrics
from app.errors import Invalid


def test_by_hand():
    """Three rows, two labels, worked out on paper."""
    P = np.array([[0.9, 0.2], [0.4, 0.7], [0.3, 0.1]])
    Y = np.array([[1, 0], [1, 1], [0, 0]])
    found = multilabel_metrics(P, Y, ["a", "b"])
    assert (found["rows"], found["labels_per_row"]) == (3, 1)
    assert found["subset_accuracy"] == pytest.approx(2 / 3)
    assert found["hamming_loss"] == pytest.approx(1 / 6)
    assert found["micro_f1"] == pytest.approx(4 / 5)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["mean_f1"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert found["per_label"]["a"] == {
        "rows": 2,
        "predicted": 1,
        "correct": 1,
        "f1": pytest.approx(2 / 3),
        "log_loss": pytest.approx(-np.log([0.9, 0.4, 0.7]).mean()),
        "brier": pytest.approx((0.01 + 0.36 + 0.09) / 3),
        "expected_calibration_error": pytest.approx((0.1 + 0.6 + 0.3) / 3),
        "auc": 1.0,
    }


def test_agrees_with_scikit_learn():
    """On random rows, every figure that it has, too."""
    rng = np.random.default_rng(0)
    P, Y = rng.random((200, 4)), rng.integers(0, 2, (200, 4))
    found, chosen = multilabel_metrics(P, Y, "abcd"), P > 0.5
    for name, average in (("micro_f1", "micro"), ("macro_f1", "macro"), ("mean_f1", "samples")):
        assert found[name] == pytest.approx(metrics.f1_score(Y, chosen, average=average, zero_division=1))
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(Y, P))
    assert found["log_loss"] == pytest.approx(np.mean([metrics.log_loss(Y[:, j], P[:, j]) for j in range(4)]))
    assert found["brier"] == pytest.approx(((P - Y) ** 2).mean())
    assert found["hamming_loss"] == pytest.approx(metrics.hamming_loss(Y, chosen))
    assert found["subset_accuracy"] == pytest.approx(metrics.accuracy_score(Y, chosen))


@pytest.mark.parametrize("second", [0.3, 0.8])
def test_a_label_that_the_hold_out_lacks_leaves_no_hole(second):
    """Its auc and its F1 are undefined and null, whether it is predicted or not; the means pass over it."""
    P, Y = np.array([[0.9, 0.2], [0.4, second]]), np.array([[1, 0], [0, 0]])
    found = multilabel_metrics(P, Y, [1, 2])
    assert found["per_label"]["2"]["auc"] is None
    assert found["per_label"]["2"]["f1"] is None
    assert found["macro_f1"] == 1
    assert multilabel_metrics(P[1:], Y[1:], [1, 2])["macro_f1"] is None
    assert found["auc"] == 1
    assert multilabel_metrics(P[1:], Y[1:], [1, 2])["auc"] is None
    json.dumps(found, allow_nan=False)


def test_no_rows_are_refused():
    with pytest.raises(Invalid):
        multilabel_metrics(np.empty((0, 2)), np.empty((0, 2)), ["a", "b"])
