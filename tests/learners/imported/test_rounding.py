"""Which values of a data set 32-bit numbers do not tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from app.learners.onnx_model import changed_value, rounding_warnings

RNG = np.random.default_rng(0)
CHANGED = {
    "unix seconds of a day": 1.7e9 + RNG.integers(0, 20_000, 800),
    "unix seconds of a year": 1.7e9 + RNG.integers(0, 30_000_000, 800),
    "dense identifiers": 1e8 + RNG.integers(0, 50, 800),
    "a small spread": 1000 + RNG.normal(0, 1e-3, 800),
    "too large": np.array([1.0, 2.0, 1e39]),
}
KEPT = {
    "normal": RNG.normal(size=100_000),
    "normal, rounded": RNG.normal(size=800).round(3),
    "heavy tails": np.exp(3 * RNG.normal(size=100_000)),
    "temperatures": RNG.normal(37, 0.4, 5000).round(1),
    "integers": RNG.integers(0, 2**24, 800).astype(float),
    "cents": (RNG.normal(size=800) * 1e5).round(2),
    "constant": np.full(9, 1.7e9 + 1),
    "missing": np.full(9, np.nan),
}


@pytest.mark.parametrize("name", CHANGED)
def test_values_that_change_are_named(name):
    value = changed_value(np.append(CHANGED[name], np.nan))
    assert value in CHANGED[name]
    with np.errstate(over="ignore"):
        assert float(np.float32(value)) != value


@pytest.mark.parametrize("name", KEPT)
def test_rounding_that_no_split_sees_is_not_warned_about(name):
    assert changed_value(KEPT[name]) is None


def test_a_warning_names_columns_and_an_example():
    columns = {"at": np.array([1.7e9, 1.7e9 + 33, 1.7e9 + 70]), "age": np.array([40.0, 41.5, 50.25])}
    (warning,) = rounding_warnings(columns)
    assert "'at'" in warning
    assert "1700000033" in warning or "1700000070" in warning
    assert "'age'" not in warning
    assert not rounding_warnings({"age": columns["age"]})
