"""The split of rows with several labels, of which rare ones stay where they can be learnt, and with numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.usecases.evaluation import split_rows


def test_a_label_of_two_rows_is_learnt_from_one():
    """Whatever the seed; at random one in eleven would lose both."""
    y = np.zeros((40, 3), dtype=np.uint8)
    y[:2, 0] = y[::2, 1] = y[2:, 2] = 1
    for seed in range(60):
        rows = split_rows(y, 0.3, seed)
        assert y[rows.train].any(axis=0).all()
        assert not y[rows.train].all(axis=0).any()
        assert len(rows.holdout) in (11, 12)


def test_what_shares_its_rarest_label_is_held_out_evenly():
    y = np.zeros((1000, 2), dtype=np.uint8)
    y[:100, 0] = y[50:500, 1] = 1
    rows = split_rows(y, 0.25, 3)
    assert len(rows.holdout) == 250
    assert y[rows.holdout].sum(axis=0) == pytest.approx(y.sum(axis=0) / 4, abs=6)
    assert np.array_equal(split_rows(y, 0.25, 3).train, rows.train)
    assert not np.array_equal(split_rows(y, 0.25, 4).train, rows.train)


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=n, max_size=n)
    ),
    st.floats(0, 0.95),
    st.integers(0, 5),
)
def test_every_row_is_on_one_side_and_every_label_that_varies_does_so_in_training(labels, part, seed):
    y = np.array(labels, dtype=np.uint8)
    rows = split_rows(y, part, seed)
    assert sorted([*rows.train, *rows.holdout]) == list(range(len(y)))
    assert len(rows.train)
    varying = (y != y[0]).any(axis=0)
    assert np.array_equal((y[rows.train] != y[rows.train][0]).any(axis=0), varying)


@given(st.integers(1, 30), st.floats(0, 0.95), st.integers(0, 5))
def test_of_numbers_the_part_is_held_out_whatever_they_are(n, part, seed):
    """Each number there once, or all alike: the same share; one row at least is learnt from."""
    for y in (np.arange(n, dtype=np.float64), np.zeros(n)):
        rows = split_rows(y, part, seed)
        assert sorted([*rows.train, *rows.holdout]) == list(range(n))
        assert len(rows.holdout) == min(round(part * n), n - 1)
