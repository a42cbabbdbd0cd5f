"""The confidence sequence, looked at daily."""

import numpy as np
import pytest

from app.evidence.intervals import Mean
from app.evidence.sequence import Sequence
from tests.effort import THOROUGH
from tests.evidence.worlds import NULLS, wrong_sequences

STREAMS = 2000 if THOROUGH else 60


@pytest.mark.parametrize("null", NULLS)
def test_at_most_one_null_stream_in_twenty_is_ever_wrong(null):
    wrong = wrong_sequences(*NULLS[null], STREAMS)

    assert wrong <= 0.05 + (0 if THOROUGH else 3 * np.sqrt(0.05 * 0.95 / STREAMS))


def test_a_real_difference_is_found():
    rng, found = np.random.default_rng(1), 0
    for _ in range(50):
        sequence = Sequence()
        for day in range(60):
            sequence.add(rng.choice([-1.0, 0.0, 1.0], 100, p=[0.06, 0.8, 0.14]), np.full(100, -1.0), np.ones(100), day)
        found += sequence.interval().low > 0

    assert found >= 45


def test_values_that_cannot_differ_say_nothing():
    sequence = Sequence()
    sequence.add(*np.zeros((3, 10)), 1)

    assert sequence.interval() == Mean(None)
    assert sequence.count == 10
