"""What asking on is worth, remembered for the matrices that were asked about last."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from app.answering.acquisition_model import AcquisitionModel
from payoff.acquisition.prices import Prices

PRICES = Prices.of([1.0, 2.0])


@pytest.fixture
def frequent_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_that_ask_about_many_matrices_each_get_the_worth_of_their_own(
    frequent_switches,
):
    """A thread removed the worth of another one before that had returned it: KeyError."""
    experience = SimpleNamespace(worth=lambda B, *_: B[0, 0])
    estimator = SimpleNamespace(
        model_=SimpleNamespace(columns=[0, 1]), experience_=experience
    )
    estimator.asker = estimator
    model = AcquisitionModel.of(estimator, ("a", "b"), ("ill", "well"), PRICES)

    def wrong(first: int) -> list[int]:
        numbers = range(first, first + 4_000)
        return [
            i
            for i in numbers
            if model.worth(np.full((2, 2), float(i)), PRICES, None) != i
        ]

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(wrong, range(0, 8_000, 1_000))] == [[]] * 8
