"""Told the true priors of where it is used, a model costs what one trained there costs."""

import numpy as np
import pytest

from app.decisions.benefit import decide, realised_benefit
from app.decisions.priors import shift_priors
from app.learners.kernel_logistic import KernelLogistic
from app.learners.logistic import Logistic

pytestmark = pytest.mark.thorough

BENEFITS = np.array([[0.0, -1.0], [-5.0, 0.0]])


def drawn(n, shares, rng):
    """Two Gaussians of one covariance, so that the log odds are linear; the classes come with these shares."""
    y = (rng.random(n) < shares[1]).astype(int)
    return rng.normal(size=(n, 2)) + y[:, None] * np.array([1.5, 0.75]), y


def cost(P, y):
    return -realised_benefit(y, decide(P, BENEFITS).choice, BENEFITS)


@pytest.mark.parametrize(
    "make",
    [Logistic, lambda: KernelLogistic(kernel="linear")],
    ids=["logistic, calibrated", "kernel_logistic, linear"],
)
@pytest.mark.parametrize(
    ("trained", "used"), [((0.9, 0.1), (0.4, 0.6)), ((0.5, 0.5), (0.9, 0.1))], ids=["rare", "common"]
)
def test_it_costs_at_most_two_percent_more(make, trained, used):
    """Six draws of 10,000 rows each, judged together on 300,000 rows."""
    here = there = plain = 0.0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = drawn(10_000, trained, rng)
        X_there, y_there = drawn(10_000, used, rng)
        X_new, y_new = drawn(50_000, used, rng)
        P = make().fit(X, y).posterior(X_new)
        corrected, _ = shift_priors(P, np.bincount(y) / len(y), np.array(used))
        here += cost(corrected, y_new)
        plain += cost(P, y_new)
        there += cost(make().fit(X_there, y_there).posterior(X_new), y_new)

    assert here <= 1.02 * there
    assert plain > 1.05 * there
