"""The transform of numeric features that `auto` chooses, for classes and for several labels."""

import numpy as np
import pytest

from app.learners.logistic import chosen_transform


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def rare_in_a_tail(seed, n=3000):
    """A positive feature far out in which 1 % of the rows are of class 1."""
    rng = np.random.default_rng(seed)
    X = np.exp(0.5 * rng.normal(size=(n, 4)))
    return X, (rng.random(n) < sigmoid(12 * np.log(X[:, 0]) - 14)).astype(int)


def heavy_tailed(seed, n=3000):
    """Features with a few values far out that say nothing about the class, as incomes and claims have."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4))
    return Z * np.where(rng.random((n, 4)) < 0.01, 1000, 1), (rng.random(n) < sigmoid(2 * Z[:, 0])).astype(int)


def bent(seed, n=3000):
    """Features of which the logarithm counts."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.normal(size=(n, 4)))
    return X, (rng.random(n) < sigmoid(2 * np.log(X[:, 0]))).astype(int)


def chosen(X, y):
    return chosen_transform("auto", X, y, np.ones(len(X)), (), 1.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rows", "shapes"), [(rare_in_a_tail, {"none"}), (heavy_tailed, {"clip", "power"}), (bent, {"power"})]
)
def test_auto_is_the_shape_that_the_rows_call_for(rows, shapes, seed):
    """No limit where rare cases are far out, a limit where a tail is noise, a bend where there is one."""
    assert chosen(*rows(seed)) in shapes


def test_labels_are_judged_together():
    """The shape is that of the labels' sum, whatever their order; a label that is the same in all rows has no say."""
    X, y = rare_in_a_tail(0)
    constant = np.zeros(len(y), dtype=int)
    assert chosen(X, np.column_stack((constant, y))) == chosen(X, y[:, None]) == chosen(X, y)
    assert chosen(X, constant[:, None]) == "clip"
    single = np.eye(len(y), 1, dtype=int)  # a label of one row cannot be held out
    assert chosen(X, np.hstack((single, y[:, None]))) == "none"


def test_few_rows_are_limited():
    assert chosen(*(one[:199] for one in rare_in_a_tail(0))) == "clip"
