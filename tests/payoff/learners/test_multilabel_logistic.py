"""One calibrated logistic regression per label: equal to `Logistic` label by label, and honest in a chain."""

import numpy as np
import pytest

from payoff.learners.logistic import Logistic
from payoff.learners.multilabel import MultilabelLogistic
from tests.reference.tables import drawn


@pytest.mark.parametrize("calibration", ["auto", "none", "sigmoid", "isotonic"])
def test_without_a_chain_every_label_is_its_own_logistic_regression(calibration):
    """The one product gives the same probabilities as L models do."""
    X, Y = drawn()
    together = MultilabelLogistic(
        calibration=calibration, categorical_features=[3], random_state=1
    ).fit(X, Y)
    for label in range(3):
        alone = Logistic(
            calibration=calibration,
            numeric_transform=together.numeric_transform_,
            categorical_features=[3],
            random_state=1,
        ).fit(X, Y[:, label])
        assert np.allclose(
            together.predict_proba(X)[:, label],
            alone.predict_proba(X)[:, 1],
            rtol=0,
            atol=1e-12,
        )
        assert together.calibrations_[label] == alone.calibration_


def test_a_chain_learns_what_labels_tell_about_each_other():
    """A label that depends on two others, and on the features only through them, is told better with them in view."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 2))
    first, second = X.T > 0
    third = first ^ second  # no line through the features separates it
    Y = np.column_stack(
        (first & (rng.random(4000) < 0.9), first & second, third)
    ).astype(int)
    new, truth = X[2000:], Y[2000:]
    losses = []
    for chain in (False, True):
        p = (
            MultilabelLogistic(chain=chain, random_state=0)
            .fit(X[:2000], Y[:2000])
            .posterior(new)[:, 2]
        )
        losses.append(-np.mean(np.where(truth[:, 2] == 1, np.log(p), np.log(1 - p))))
    assert losses[1] < losses[0] - 0.1
