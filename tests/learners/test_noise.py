"""Labels that no feature explains: probabilities keep to the shares of the classes, and promise what they earn."""

import numpy as np
import pytest

from app.decisions.benefit import decide, row_benefits
from app.learners.catalogue import KINDS, resolve
from app.learners.logistic import Logistic
from app.learners.parameters import request_of

BENEFITS = np.array([[0.0, -1.0], [-5.0, 0.0]])
QUICK = {"n_estimators": 30, "max_iter": 30}
CALIBRATED = [kind for kind in KINDS.values() if "calibration" in request_of(kind).model_fields]


def noise(n, seed):
    """Rows (n, 6), and classes of which a quarter is class 1."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)), rng.permutation((np.arange(n) % 4 == 0).astype(int))


def unseen_posterior(kind, seed):
    """Probabilities (1000, 2) of fresh rows by the kind's defaults on 150 rows, and the classes."""
    X, y = noise(150, seed)
    new, truth = noise(1000, 1000 + seed)
    quick = {name: value for name, value in QUICK.items() if name in request_of(kind).model_fields}
    model = resolve({"kind": kind.name, **quick}).build(
        benefits=BENEFITS if kind.needs_benefits else None, random_state=seed
    )
    if kind.labels == "one":
        return model.fit(X, y).posterior(new), truth
    p = model.fit(X, np.column_stack((y, noise(150, 2000 + seed)[1]))).posterior(new)[:, 0]
    return np.column_stack((1 - p, p)), truth


@pytest.mark.parametrize("kind", CALIBRATED, ids=[kind.name for kind in CALIBRATED])
@pytest.mark.thorough
def test_noise_promises_no_more_than_it_earns(kind):
    """The expected loss of the decisions on fresh rows is their realised loss, to a tenth."""
    promised = realised = 0.0
    for seed in range(6):
        P, truth = unseen_posterior(kind, seed)
        decision = decide(P, BENEFITS)
        promised += decision.expected_benefits.max(axis=1).mean()
        realised += row_benefits(truth, decision.choice, BENEFITS).mean()
    assert 0.9 < promised / realised < 1.1


def test_scores_without_a_ranking_leave_the_shares_of_the_classes():
    """The curve of slope 0 stays: the calibration of the fold models is also the one of the whole model."""
    found = []
    for seed in range(20):
        X, y = noise(150, seed)
        model = Logistic(random_state=seed).fit(X, y)
        assert model.calibration_ == "sigmoid"
        if not model.calibrator_.slopes.any():
            found.append(model.posterior(noise(100, 50)[0]))
    assert found
    np.testing.assert_allclose(np.concatenate(found)[:, 1], 0.25, atol=0.01)
