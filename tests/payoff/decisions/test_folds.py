"""Dealing rows into folds, and holding some out: at random, by group, by time."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.folds import (
    UNJUDGED,
    Blocks,
    held_out,
    multilabel_folds,
    stratified_folds,
)
from payoff.errors import Invalid
from tests.reference import decisions as slow

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


def test_random_folds_stay_those_of_the_models_that_exist():
    """A seed decides the folds, and so the model: the same in every version."""
    y = np.array([0, 1, 0, 2, 1, 1, 0, 2, 3, 0, 1, 2])

    assert stratified_folds(y, 3, 7).tolist() == [1, 0, 2, 2, 1, 1, 0, 0, -1, 0, 2, 1]


rows_in_blocks = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=2, max_size=40
).map(lambda pairs: tuple(np.array(column) for column in zip(*pairs, strict=True)))


@given(rows_in_blocks, st.integers(2, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_folds_of_blocks_are_those_of_the_loops(rows, folds, seed, ordered):
    y, values = rows
    blocks = Blocks.of(values, ordered=ordered)
    y = np.unique(y, return_inverse=True)[1]

    fold = stratified_folds(y, folds, seed, blocks)

    expected = slow.block_folds(
        y.tolist(), blocks.codes.tolist(), folds, seed, ordered=ordered
    )
    assert fold.tolist() == expected


@given(rows_in_blocks, st.integers(2, 6), st.booleans())
def test_no_fold_divides_a_block_and_every_class_is_outside_of_it(rows, folds, ordered):
    y, values = rows
    fold = stratified_folds(y, folds, 0, Blocks.of(values, ordered=ordered))

    for value in np.unique(values):
        assert len(set(fold[values == value])) == 1
    for part in range(fold.max() + 1):
        assert (fold == part).any()
        assert set(y[fold != part]) == set(y)
        if ordered and part:
            assert values[fold == part].max() < values[fold == part - 1].min()


def test_groups_leave_each_class_as_even_as_they_allow():
    """Of 100 customers with 1 to 20 rows, one row in ten of class 1, each fold has a fifth of either
    class.
    """
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), rng.integers(1, 21, 100))
    y = (rng.random(len(groups)) < 0.1).astype(int)

    fold = stratified_folds(y, 5, 0, Blocks.of(groups))

    for k in (0, 1):
        shares = np.bincount(fold[y == k]) / (y == k).sum()
        assert np.abs(shares - 0.2).max() < 0.01


labels = st.sampled_from(["classes", "numbers", "labels"])


@given(rows_in_blocks, st.floats(0.05, 0.9), st.integers(0, 2**32 - 1), labels)
def test_whole_groups_are_held_out_and_training_has_their_classes(
    rows, part, seed, kind
):
    y, values = rows
    blocks = Blocks.of(values)
    shown = {
        "classes": y,
        "numbers": y.astype(np.float64),
        "labels": np.eye(4, dtype=np.int64)[y],
    }[kind]
    groups_of = [len(set(values[y == k])) for k in np.unique(y)]
    if blocks.codes.max() == 0 or (kind == "classes" and max(groups_of) == 1):
        with pytest.raises(Invalid):
            held_out(shown, part, seed, blocks)
        return
    try:
        is_held = held_out(shown, part, seed, blocks)
    except Invalid:
        assert kind != "numbers"
        return

    assert 0 < is_held.sum() < len(y)
    assert not set(values[is_held]) & set(values[~is_held])
    if kind == "classes":
        assert set(y) == set(y[~is_held])


@given(rows_in_blocks, st.floats(0.05, 0.9), st.integers(0, 99))
def test_the_hold_out_by_group_is_that_of_the_loops(rows, part, seed):
    y, values = rows
    y = np.unique(y, return_inverse=True)[1]
    codes = Blocks.of(values).codes
    shares = [Fraction(1 - part), Fraction(part)]
    dealt = slow.dealt_groups(y.tolist(), codes.tolist(), shares, seed)
    expected = slow.with_every_class_outside(
        y.tolist(), [p - 1 for p in dealt], codes.tolist()
    )
    if 0 not in expected:
        return

    assert held_out(y, part, seed, Blocks(codes)).tolist() == [f == 0 for f in expected]


@given(rows_in_blocks, st.floats(0.05, 0.9))
def test_the_last_moments_are_held_out(rows, part):
    """No other cut in time is nearer to the part."""
    y, times = rows
    blocks = Blocks.of(times, ordered=True)
    if blocks.codes.max() == 0:
        with pytest.raises(Invalid, match="at one moment"):
            held_out(y, part, 0, blocks)
        return
    is_held = held_out(y, part, 0, blocks)

    assert times[~is_held].max() < times[is_held].min()
    sizes = [(times >= moment).sum() for moment in np.unique(times)[1:]]
    distance = min(abs(size - part * len(y)) for size in sizes)
    assert abs(is_held.sum() - part * len(y)) == pytest.approx(distance)


def test_blocks_of_some_rows_are_numbered_anew():
    blocks = Blocks.of(np.array(["b", "a", "c", "b"])).take(np.array([0, 2, 3]))

    assert blocks.codes.tolist() == [0, 1, 0]
    assert not blocks.ordered
