"""Inline data: lists that become a data set like any other."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.data.store import DataLimits, DatasetStore
from app.errors import Flaw, Invalid, TooLarge

NO_LABEL = "a label in a list is a string that is not blank, of at most 200 characters"


def add_inline(store, features, rows, labels):
    return store.keep(store.draft_inline(features, rows, labels))


def flaws(store, features, rows, labels):
    with pytest.raises(Invalid) as caught:
        add_inline(store, features, rows, labels)
    assert store.page(10) == ([], None), "nothing is kept"
    return list(caught.value.flaws)


def test_same_as_an_upload(store):
    """The same values give the same arrays as an uploaded file, and the same data set when sent twice."""
    inline = add_inline(store, ["a", "b"], [[1, "u"], [2.5, None], [None, "v"], [4, "u"]], ["x", "y", "y", "x"])
    upload = store.add(io.BytesIO(b"a,b,label\n1,u,x\n2.5,,y\n,v,y\n4,u,x\n"), ["label"])

    assert inline == upload
    assert inline.origin == "inline"
    np.testing.assert_array_equal(store.table(inline.id).X, [[1, 0], [2.5, np.nan], [np.nan, 1], [4, 0]])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20),
            st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=5),
            st.sampled_from(["", "u", "NA"]),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_round_trip(rows):
    """Strings are taken as they are, also empty ones: what is missing in JSON is null."""
    rows = [*rows, *rows, (1, "w", "x"), (2, "w", "x")]
    store = DatasetStore("memory://inline", DataLimits(1000, 100, 100, 10**6))

    found = store.table(add_inline(store, ["a", "b"], [row[:2] for row in rows], [row[2] for row in rows]).id)

    expected, _ = found.schema.encode([list(row[:2]) for row in rows])
    np.testing.assert_array_equal(found.X, expected)
    assert [found.classes[code] for code in found.y] == [row[2] for row in rows]


def test_targets(store):
    numbers = store.table(add_inline(store, ["label"], [[1], [2]], [0.5, 1]).id)
    assert numbers.classes is None
    np.testing.assert_array_equal(numbers.y, [0.5, 1])

    several = store.table(add_inline(store, ["p"], [[1], [2], [3]], [["q", "p"], [], ["q"]]).id)
    assert several.labels == several.classes == ("p", "q")
    assert several.schema.names == ("p",)
    np.testing.assert_array_equal(several.y, [[1, 1], [0, 0], [0, 1]])

    one = store.table(add_inline(store, ["a"], [[1], [2]], [["q"], []]).id)
    assert one.classes == ("q",)
    np.testing.assert_array_equal(one.y, [[1], [0]])


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        ([[1, "u"], [2]], [0, 1], [Flaw("/rows/1", "1 values for 2 features")]),
        ([[1, "u"]], [0, 1], [Flaw("/labels", "2 labels for 1 rows")]),
        ([], [], [Flaw("/rows", "there is no row")]),
        ([[1, "u"], [2, 3]], [0, 1], [Flaw("/rows/1/1", "'b' holds strings in other rows; send the same here")]),
        ([[1, "u"], ["x", "v"]], [0, 1], [Flaw("/rows/1/0", "'a' holds numbers in other rows; send the same here")]),
        ([[1, "u"], [True, "v"]], [0, 1], [Flaw("/rows/1/0", "'a' holds numbers in other rows; send the same here")]),
        (
            [[True, "u"], [{}, "v"]],
            [0, 1],
            [Flaw(f"/rows/{i}/0", "values are numbers, strings or null; send the same here") for i in (0, 1)],
        ),
        ([[1, "u"], [10**400, "v"]], [0, 1], [Flaw("/rows/1/0", "the number is too large")]),
        ([[float("nan"), "u"], [1, "v"]], [0, 1], [Flaw("/rows/0/0", "nan is not a finite number")]),
        ([[1, "u"], [float("inf"), "v"]], [0, 1], [Flaw("/rows/1/0", "inf is not a finite number")]),
        ([[1, None], [2, None]], [0, 1], [Flaw("/features/1", "'b' is missing in every row; leave the column out")]),
        (
            [[1, "u"], [2, "v"]],
            [0, "x"],
            [Flaw("/labels/1", "'label' holds numbers in other rows; send the same here")],
        ),
        ([[1, "u"], [2, "v"]], [0, None], [Flaw("/labels/1", "the label is missing; leave the row out")]),
        ([[1, "u"], [2, "v"]], ["x", None], [Flaw("/labels/1", "the label is missing; leave the row out")]),
        ([[1, "u"], [2, "v"]], [1, 1], [Flaw("/labels", "'label' has one class only, 1; two are needed")]),
        (
            [[1, "u"], [2, "v"]],
            [["p"], "p"],
            [Flaw("/labels/1", "the labels are lists elsewhere; send a list for each row")],
        ),
        ([[1, "u"], [2, "v"]], [["p"], ["q", "q"]], [Flaw("/labels/1", "a label is there twice")]),
        (
            [[1, "u"], [2, "v"]],
            [["p"], ["q", 1]],
            [Flaw("/labels/1/1", NO_LABEL)],
        ),
        (
            [[1, "u"], [2, "v"]],
            [[" "], ["q", "x" * 201]],
            [Flaw("/labels/0/0", NO_LABEL), Flaw("/labels/1/1", NO_LABEL)],
        ),
        ([[1, "u"], [2, "v"]], [["p"], ["p"]], [Flaw("/labels", "the label 'p' is 1 in every row; leave it out")]),
        ([[1, "u"], [2, "v"]], [[], []], [Flaw("/labels", "no row has a label")]),
    ],
)
def test_problem(store, rows, labels, expected):
    assert flaws(store, ["a", "b"], rows, labels) == expected


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], Flaw("/features", "there is no feature")),
        ([""], Flaw("/features/0", "column 1 has no name")),
        (["a", "a"], Flaw("/features/1", "'a' names column 1 and column 2; rename one")),
        (["x" * 201], Flaw("/features/0", "the name of column 1 is longer than 200 characters")),
    ],
)
def test_feature_names(store, features, expected):
    assert flaws(store, features, [[1] * len(features)] * 4, [0, 1, 0, 1]) == [expected]


def test_limits(tmp_path):
    store = DatasetStore(str(tmp_path), DataLimits(max_rows=4, max_columns=3, max_categories=5, max_upload_bytes=100))
    for features, rows, labels in [
        (["a"], [[1]] * 5, [0, 1, 0, 1, 0]),
        (list("abcd"), [[1] * 4] * 4, [0, 1, 0, 1]),
        (["a"], [[1]] * 4, [["p", "q", "r"]] * 4),
    ]:
        with pytest.raises(TooLarge):
            add_inline(store, features, rows, labels)
