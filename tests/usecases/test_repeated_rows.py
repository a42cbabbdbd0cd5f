"""Rows that occur again."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.usecases.training_warnings import repeated_rows

RANDOM = np.random.default_rng(0)
NUMBERS = RANDOM.normal(size=(100, 3))
GAPPY = np.where((RANDOM.random((100, 3)) < 0.2) & (np.arange(3) < 2), np.nan, NUMBERS)
FEW_VALUES = RANDOM.integers(0, 3, size=(100, 4)).astype(float)


@pytest.mark.parametrize(
    ("X", "repeats"),
    [
        (NUMBERS, 0),
        (np.repeat(NUMBERS, 3, axis=0), 200),
        (np.concatenate([GAPPY, -GAPPY, GAPPY[:20]]), 20),
        (np.concatenate([NUMBERS, NUMBERS[:3]]), 0),  # too few to matter
        (FEW_VALUES, 0),
        (np.repeat(NUMBERS[:, :1], 2, axis=0), 0),
        (np.zeros((1, 3)), 0),
        (np.empty((0, 3)), 0),
    ],
    ids=["none", "all", "with gaps", "few", "of few values", "one column", "one row", "no rows"],
)
def test_copies_are_named(X, repeats):
    found = repeated_rows(SimpleNamespace(X=X))

    assert len(found) == bool(repeats)
    assert not repeats or found[0].startswith(f"{repeats} of {len(X)} rows")
