"""Calibration on rows that their model did not see, and which one `auto` chooses."""

import numpy as np
import pytest
from scipy.special import softmax

from app.learners.logistic import Logistic
from app.learners.unseen import best_calibration


def right(seed, power=1.0):
    """Probabilities (300, 10) that are right to the power of 1, and the truth; greater powers are too sure."""
    rng = np.random.default_rng(seed)
    P = softmax(rng.normal(scale=4, size=(300, 10)), axis=1)
    y = (P.cumsum(axis=1) < rng.random(300)[:, None]).sum(axis=1).clip(0, 9)
    Q = P**power
    return Q / Q.sum(axis=1, keepdims=True), y, np.ones(300)


def test_what_is_right_already_is_left_alone():
    """Or gets a sigmoid that changes next to nothing, where it is not clearly worse."""
    chosen = [best_calibration(*right(seed)) for seed in range(20)]
    assert chosen.count("none") >= 10
    assert "isotonic" not in chosen


def test_overconfidence_gets_a_sigmoid():
    assert [best_calibration(*right(seed, power=3)) for seed in range(5)] == ["sigmoid"] * 5


def test_calibrators_see_only_rows_that_their_model_did_not():
    """A model that learns its rows by heart would look perfect in-sample; cross-fitted, noise stays noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 100)), np.tile([0, 1], 30)
    raw = Logistic(C=1e6, calibration="none").fit(X, y).posterior(X)
    assert raw[np.arange(60), y].min() > 0.99
    calibrated = Logistic(C=1e6, calibration="sigmoid", random_state=0).fit(X, y).posterior(rng.normal(size=(200, 100)))
    assert np.abs(calibrated - 0.5).max() < 0.3


@pytest.mark.parametrize(
    ("smallest", "calibration", "used"),
    [
        (1, "isotonic", "none"),
        (2, "isotonic", "isotonic"),
        (3, "sigmoid", "sigmoid"),
        (19, "auto", "none"),
        (1000, "none", "none"),
    ],
)
def test_the_method_follows_the_smaller_of_two_classes(smallest, calibration, used):
    """A class's only row cannot be held out, and auto does not calibrate on few rows."""
    y = np.repeat([0, 1], [smallest, smallest + 3])
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    model = Logistic(calibration=calibration, random_state=0).fit(X, y)
    assert model.calibration_ == used
    assert (model.calibrator_ is None) == (used == "none")
