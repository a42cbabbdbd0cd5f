"""Dealing rows into folds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.folds import UNJUDGED, multilabel_folds, stratified_folds

codes = st.lists(st.integers(0, 4), min_size=1, max_size=60).map(np.array)


@given(codes, st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_every_class_is_left_outside_of_every_fold(y, folds, seed):
    """Whatever fold is held out, the other rows know every class; only rows without their like are
    never held out.
    """
    fold = stratified_folds(y, folds, seed)

    for part in range(folds):
        assert set(y[fold != part]) == set(y)
    lone = np.bincount(y)[y] == 1
    assert ((fold == UNJUDGED) == lone).all()


@given(codes, st.integers(2, 8))
def test_classes_are_dealt_evenly(y, folds):
    """A class's rows in two folds differ by one at most."""
    fold = stratified_folds(y, folds, 0)

    for code in np.unique(y):
        if (y == code).sum() > 1:
            assert np.ptp(np.bincount(fold[y == code], minlength=folds)) <= 1


@given(
    st.integers(1, 4).flatmap(
        lambda L: st.lists(
            st.lists(st.integers(0, 1), min_size=L, max_size=L), min_size=1
        )
    ),
    st.integers(2, 8),
)
def test_the_rarest_value_of_a_label_is_dealt_evenly(rows, folds):
    """The value that fewest rows have, of all labels that vary: a forest without one fold has seen
    it.
    """
    Y = np.array(rows)
    fold = multilabel_folds(Y, folds, 0)
    ones = Y.sum(axis=0)
    counts = np.minimum(ones, len(Y) - ones)

    assert fold.shape == (len(Y),)
    assert set(np.unique(fold)) <= {UNJUDGED, *range(folds)}
    if (counts > 0).any():
        label = int(np.argmin(np.where(counts > 0, counts, len(Y))))
        having = Y[:, label] == (2 * ones[label] <= len(Y))
        for part in range(folds):
            assert having[fold != part].any()
        if having.sum() > 1:
            assert np.ptp(np.bincount(fold[having], minlength=folds)) <= 1
