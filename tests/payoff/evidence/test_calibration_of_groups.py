"""Whether classes occur as often as their probabilities say, in a group of decisions."""

import numpy as np
import pytest

from payoff.evidence.drift import holm, holm_of_known
from payoff.evidence.intervals import (
    PromiseSums,
    compare_probabilities,
    promise_interval,
)


@pytest.mark.parametrize("K", [2, 3])
def test_sums_are_those_of_a_loop_over_cases(K):
    random = np.random.default_rng(K)
    P = random.dirichlet(np.ones(K), 60)
    truth = random.integers(0, K, 60)
    sums = PromiseSums()
    stated = compare_probabilities(sums, P, truth, 3)
    classes = [1 if K == 2 else max(range(K), key=p.__getitem__) for p in P.tolist()]
    assert stated == pytest.approx(sum(p[k] for p, k in zip(P, classes, strict=True)))
    occurred = sum(y == k for y, k in zip(truth.tolist(), classes, strict=True))
    assert sums.total == pytest.approx(occurred - stated)
    assert sums.count == 60


def test_intervals_cover_a_calibrated_model_and_find_a_wrong_one():
    random = np.random.default_rng(0)
    covered = found = 0
    for _ in range(200):
        p = random.beta(1, 6, 400)
        P = np.column_stack((1 - p, p))
        sums, wrong = PromiseSums(), PromiseSums()
        compare_probabilities(sums, P, (random.random(400) < p).astype(int))
        compare_probabilities(wrong, P, (random.random(400) < p / 2).astype(int))
        interval = promise_interval(sums)
        covered += interval.low <= 0 <= interval.high
        found += promise_interval(wrong).high < 0
    assert 184 <= covered <= 199
    assert found > 190


def test_holm_leaves_out_what_was_not_tested():
    adjusted = holm_of_known([0.01, None, 0.04])
    assert adjusted[1] is None
    assert [adjusted[0], adjusted[2]] == holm(np.array([0.01, 0.04])).tolist()
    assert holm_of_known([None]) == [None]
