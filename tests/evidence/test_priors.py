"""Shares of the classes: from posteriors alone, and against those of training."""

from __future__ import annotations

import numpy as np
import pytest

from app.evidence.drift import category_change, odds_change
from app.evidence.priors import estimate_priors
from tests.effort import repeated
from tests.reference.evidence import em_of_priors

WORLDS = [
    (100, [0.3, 0.7], [0.5, 0.5], 1.5),
    (400, [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], 1.2),
    (300, [0.05, 0.05, 0.1, 0.8], [0.25] * 4, 1.5),
]


def calibrated(rng, n, used, trained, distance):
    """Posteriors (n, K) that are exact under `trained`, of cases whose classes have the shares `used`."""
    truth = rng.choice(len(used), n, p=used)
    X = rng.normal(size=(n, len(used)))
    X[np.arange(n), truth] += distance
    P = np.exp(distance * (X - X.max(axis=1, keepdims=True))) * trained
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "used", "trained", "distance"), WORLDS)
def test_estimated_priors_are_the_fixed_point_of_saerens_em(n, used, trained, distance):
    rng = np.random.default_rng(1)
    for _ in range(5):
        P = calibrated(rng, n, np.array(used), np.array(trained), distance)
        found = estimate_priors(P, np.array(trained))
        np.testing.assert_allclose(found.priors, em_of_priors(P, np.array(trained)), atol=1e-8)
        assert (found.low <= found.priors + 1e-9).all()
        assert (found.priors <= found.high + 1e-9).all()


@pytest.mark.parametrize(("n", "used", "trained", "distance"), WORLDS)
def test_intervals_of_estimated_priors_hold_the_truth_in_19_of_20_batches(n, used, trained, distance):
    rng, batches = np.random.default_rng(2), repeated(600)
    held = np.zeros(len(used))
    for _ in range(batches):
        found = estimate_priors(calibrated(rng, n, np.array(used), np.array(trained), distance), np.array(trained))
        held += (found.low <= used) & (used <= found.high)

    error = 3 * np.sqrt(0.95 * 0.05 / batches)
    assert (np.abs(held / batches - 0.95) <= 0.02 + error).all()


def test_a_class_that_does_not_occur_is_estimated_as_none():
    P = calibrated(np.random.default_rng(3), 2000, np.array([0.0, 0.5, 0.5]), np.array([0.3, 0.3, 0.4]), 2.0)

    found = estimate_priors(P, np.array([0.3, 0.3, 0.4]))

    assert found.priors[0] < 0.01
    assert found.low[0] == 0
    assert found.high[0] < 0.03


def test_posteriors_that_tell_nothing_leave_any_share_possible():
    found = estimate_priors(np.full((100, 2), 0.5), np.array([0.5, 0.5]))

    assert found.low.tolist() == [0, 0]
    assert found.high.tolist() == [1, 1]


def test_posteriors_that_are_sure_of_one_class_leave_little_to_the_others():
    P = np.tile([1.0, 0.0, 0.0], (100, 1))

    found = estimate_priors(P, np.array([0.2, 0.4, 0.4]))

    np.testing.assert_allclose(found.priors, [1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.low[0], np.exp(-3.8415 / 200), atol=1e-4)  # the likelihood is q^100


def test_a_class_without_share_in_training_keeps_none():
    P = np.array([[0.0, 0.4, 0.6]] * 50)

    assert estimate_priors(P, np.array([0.0, 0.5, 0.5])).high[0] == 0


@pytest.mark.parametrize(
    ("shares", "rows", "n"),
    [
        ([0.9, 0.1], 150, 2_000),
        ([0.5, 0.5], 300, 300),
        ([0.02, 0.98], 1_000, 10_000),
        ([0.7, 0.2, 0.1], 60, 40),
        ([0.9, 0.07, 0.02, 0.01], 150, 2_000),
    ],
)
def test_a_small_sample_to_train_on_is_no_change(shares, rows, n):
    rng = np.random.default_rng(1)
    found = [category_change(rng.multinomial(n, shares), rng.multinomial(rows, shares)).p_value for _ in range(400)]
    assert np.mean(np.array(found) < 0.05) < 0.065


def test_a_change_of_shares_is_found_and_measured():
    counts, trained = np.array([180, 1_820]), np.array([400, 1_600])
    assert category_change(counts, trained).p_value < 1e-6
    assert odds_change(counts, trained) == pytest.approx(400 / 1_600 * 1_820 / 180, rel=0.01)
    assert odds_change(np.array([500, 500]), np.array([50, 50])) == 1


@pytest.mark.parametrize(("n", "trained", "distance"), [(50, [0.8, 0.2], 0.5), (200, [0.2, 0.3, 0.5], 1.0)])
def test_shares_of_training_that_hold_are_rejected_in_one_batch_of_twenty(n, trained, distance):
    rng, trained = np.random.default_rng(6), np.array(trained)
    found = [estimate_priors(calibrated(rng, n, trained, trained, distance), trained).p_value for _ in range(250)]
    assert np.mean(np.array(found) < 0.05) < 0.09


def test_shares_of_training_that_do_not_hold_are_rejected():
    trained = np.array([0.8, 0.2])
    P = calibrated(np.random.default_rng(7), 300, np.array([0.5, 0.5]), trained, 1.0)
    assert estimate_priors(P, trained).p_value < 0.001
