"""Memory and time of foreign models: measured, bounded, and in turns."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from app.errors import Busy, Invalid, TooLarge
from app.learners.imported import measured
from app.learners.imported.estimator import Imported
from app.learners.imported.measured import BATCH_BYTES, measure
from app.learners.imported.turns import Turns
from tests.messages import says

KB, MB = 2**10, 2**20
X = np.zeros((8, 2))


class Greedy:
    """Takes `row_bytes` for a row, `of_any` more for each value that is not zero, and `seconds`."""

    def __init__(self, row_bytes: float = 0, of_any: int = 0, seconds: float = 0.0) -> None:
        self.row_bytes, self.of_any, self.seconds = row_bytes, of_any, seconds
        self.rows: list[int] = []
        self.most = 0

    def posterior(self, rows: np.ndarray) -> np.ndarray:
        self.rows.append(len(rows))
        size = int(self.row_bytes * len(rows)) + self.of_any * np.count_nonzero(rows)
        self.most = max(self.most, len(np.ones(size, dtype=np.uint8)))
        time.sleep(self.seconds * len(rows))
        return np.full((len(rows), 2), 0.5)


@pytest.mark.parametrize("greedy", [Greedy(300 * KB), Greedy(0, 150 * KB)])
def test_a_batch_has_as_many_rows_as_its_memory_allows(greedy):
    """Also where the rows of the data set take little, being sparse."""
    found = Imported(greedy, 2, X[:1], {})

    found.bound(*measure(greedy, X, frozenset()))
    greedy.rows.clear()
    found.posterior(np.ones((1000, 2)))

    assert greedy.most < 1.5 * BATCH_BYTES  # nor does measuring take more
    assert 0.8 * BATCH_BYTES < found.batch * 300 * KB < 1.2 * BATCH_BYTES
    assert max(greedy.rows) == found.batch
    assert sum(greedy.rows) == 1000
    assert found.findings()["row"]["batch"] == found.batch


def test_a_model_that_takes_more_memory_for_a_row_is_refused():
    with pytest.raises(Invalid) as caught:
        measure(Greedy(3 * MB), X, frozenset())
    assert says("/file", "3.0 MB", "a row", "1 MB") in caught.value.flaws


def test_a_model_that_takes_more_time_for_a_row_is_refused(monkeypatch):
    monkeypatch.setattr(measured, "_MOST_SECONDS", 0.0005)

    with pytest.raises(Invalid) as caught:
        measure(Greedy(seconds=0.002), X, frozenset())
    assert says("/file", "ms for a row") in caught.value.flaws


def test_a_request_that_takes_too_long_is_refused():
    found = Imported(Greedy(), 2, X[:1], {})
    found.bound(1.0, 0.02)

    found.posterior(np.ones((3000, 2)))
    with pytest.raises(TooLarge, match="3,000"):
        found.posterior(np.ones((3001, 2)))


def test_calls_take_turns_and_not_all_threads():
    """Two calls of which one works; the third is refused, until they have ended."""
    turns, begun, free = Turns(at_once=1, calls=2), Event(), Event()

    def work() -> None:
        with turns.call() as turn, turn:
            begun.set()
            assert free.wait(10)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work)
        assert begun.wait(10)
        second = pool.submit(work)
        while turns._calls < 2:
            time.sleep(0.001)
        with pytest.raises(Busy), turns.call():
            pass
        assert not second.done()
        free.set()
        first.result(10)
        second.result(10)
    with turns.call():
        pass
