"""Rows are held out at random, by time or by group, and the card says which they are."""

from dataclasses import replace

import numpy as np
import pytest

from app.requests.specifications import SplitSpec
from app.training.splits import (
    blocks_of,
    evaluation_card,
    folds_of,
    split_by,
    split_of,
    split_rows,
)
from payoff.decisions.folds import Blocks
from payoff.errors import Invalid
from tests.training.test_warnings import table_of

TIME = SplitSpec(by="time", column="day", form="date")
GROUP = SplitSpec(by="group", column="customer")


def table():
    """200 rows, four on each of 50 days, of 40 customers."""
    order = np.random.default_rng(0).permutation(200)
    plain = table_of([120, 80])
    day = 20_000.0 + order // 4
    kept = {"day": day, "customer": order % 40 * 1.0}
    return replace(plain, kept=kept)


def test_the_last_moments_are_held_out_whole():
    rows = split_of(table(), 0.25, TIME, 0)
    day = table().column("day")
    assert day[rows.holdout].min() > day[rows.train].max()
    assert len(rows.holdout) in (48, 52)
    assert rows.groups_of(rows.holdout) is None
    card = evaluation_card(table(), rows, TIME, rows.holdout, 0)
    first = np.datetime64(int(day[rows.holdout].min()), "D")
    share = f"{len(rows.holdout) / 200:.0%}"
    assert card.in_words == (
        f"the last {share} by 'day': {len(rows.holdout)} rows from {first} on"
    )


def test_groups_are_held_out_whole_and_stay_whole_in_all_folds():
    rows = split_of(table(), 0.25, GROUP, 0)
    customer = table().column("customer")
    assert not set(customer[rows.holdout]) & set(customer[rows.train])
    assert len(rows.holdout) == pytest.approx(50, abs=10)
    fold = folds_of(table().y, rows, 4, 0)
    assert set(fold) == {0, 1, 2, 3}
    assert (fold[rows.holdout] == 0).all()
    for part in range(4):
        assert not set(customer[fold == part]) & set(customer[fold != part])
    card = evaluation_card(table(), rows, GROUP, np.arange(200), 4)
    assert card.in_words == "40 of 40 groups by 'customer' in 4 folds: all 200 rows"
    assert card.groups == 40


def test_folds_without_a_group_are_not_counted():
    two = replace(table(), kept={"customer": np.arange(200) % 2 * 1.0})
    rows = split_of(two, 0.25, GROUP, 0)
    predicted = np.flatnonzero(folds_of(two.y, rows, 4, 0) >= 0)
    card = evaluation_card(two, rows, GROUP, predicted, 4)
    assert (card.groups, card.folds, card.method) == (1, None, "hold-out")
    assert card.in_words == "1 of 2 groups by 'customer': 100 rows, 50% of all"


def test_a_random_split_is_as_ever():
    """The rows do not depend on anything but the labels, the part and the seed."""
    rows = split_of(table(), 0.25, None, 0)
    assert rows.blocks is None
    assert np.array_equal(rows.holdout, split_rows(table().y, 0.25, 0).holdout)
    assert rows.holdout[:8].tolist() == RANDOM_ROWS
    card = evaluation_card(table(), rows, None, rows.holdout, 0)
    assert (card.by, card.groups) == (None, None)
    assert card.in_words == "50 rows, 25% of all, at random"


RANDOM_ROWS = [1, 5, 10, 13, 16, 20, 23, 27]


def test_a_class_without_training_rows_is_named():
    sorted_rows = Blocks.of(np.arange(200), ordered=True)
    by_class = table_of([150, 50])
    with pytest.raises(Invalid, match="no row of 'c1'") as caught:
        split_by(by_class, 0.25, sorted_rows, 0)
    assert caught.value.flaws[0].loc == "/holdout"
    labels = np.stack([np.arange(200) >= 150, np.arange(200) % 2], axis=1)
    several = replace(by_class, y=labels.astype(np.uint8), classes=("late", "odd"))
    with pytest.raises(Invalid, match="no row of 'late'"):
        split_by(several, 0.25, sorted_rows, 0)
    numbers = replace(by_class, y=np.arange(200.0), classes=None)
    assert len(split_by(numbers, 0.25, sorted_rows, 0).holdout) == 50


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (np.where(np.arange(200) < 3, np.nan, 1), "missing in 3 rows"),
        (np.ones(200), "all rows are of one group"),
    ],
)
def test_columns_that_cannot_serve_are_refused_at_their_place(column, reason):
    """Also those whose report an upload does not keep."""
    odd = replace(table(), kept={"customer": column})
    with pytest.raises(Invalid, match=reason) as caught:
        split_of(odd, 0.25, GROUP, 0)
    assert caught.value.flaws[0].loc == "/holdout/column"


def test_a_feature_can_be_the_groups():
    blocks = blocks_of(table(), SplitSpec(by="group", column="a"))
    assert len(np.unique(blocks.codes)) == 200
