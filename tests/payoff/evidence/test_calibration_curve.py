"""The calibration curve against a loop over bins and rows, and against calibrated probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.evidence.calibration_curve import calibration_curve
from payoff.evidence.intervals import wilson
from tests.reference.evidence import calibration_bins


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 400),
    K=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    steps=st.sampled_from([3, 20, 10**6]),
    grouped=st.booleans(),
)
def test_each_bin_is_that_of_a_loop(n, K, seed, steps, grouped):
    """Also with ties, weights, and groups."""
    random = np.random.default_rng(seed)
    P = np.round(random.dirichlet(np.ones(K), n) * steps) / steps
    y = random.integers(0, K, n)
    w = random.uniform(0.5, 2, n)
    groups = random.integers(0, max(n // 3, 1), n)
    found = [*calibration_curve(P, y, w, groups if grouped else None)]
    each = groups if grouped else np.arange(n)
    bins = min(max(n // 30, 1), 10)
    expected = calibration_bins(P.tolist(), y, w.tolist(), each.tolist(), bins)
    assert sum(line["rows"] for line in found) == n
    for line, twin in zip(found, expected, strict=True):
        assert line["rows"] == twin["rows"]
        assert line["stated"] == pytest.approx(twin["stated"])
        assert line["occurred"] == pytest.approx(twin["occurred"])
        interval = wilson(twin["occurred"], round(twin["effective"]))
        assert line["interval"] == pytest.approx(interval, abs=1e-9)
    stated = [line["stated"] for line in found]
    assert stated == sorted(stated)


def test_intervals_contain_the_probabilities_of_a_calibrated_model():
    random = np.random.default_rng(0)
    covered, points = 0, 0
    for _ in range(100):
        p = random.beta(1, 3, 600)
        y = (random.random(600) < p).astype(int)
        for line in calibration_curve(np.column_stack((1 - p, p)), y, np.ones(600)):
            low, high = line["interval"]
            covered += low <= line["stated"] <= high
            points += 1
    assert points == 1_000
    assert 0.93 < covered / points < 0.985


def test_without_rows_there_is_no_point():
    none = calibration_curve(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0))
    assert [*none] == []
