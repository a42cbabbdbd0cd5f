"""Inline data: lists that become a data set like any other."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore
from payoff.errors import Invalid, TooLarge
from tests.messages import says
from tests.tables.keeping import kept


def add_inline(store, features, rows, labels):
    return store.keep(store.draft_inline(features, rows, labels))


def flaws(store, features, rows, labels):
    with pytest.raises(Invalid) as caught:
        add_inline(store, features, rows, labels)
    assert store.page(10) == ([], None), "nothing is kept"
    return list(caught.value.flaws)


def test_same_as_an_upload(store):
    """The same values give the same arrays as an uploaded file, and the same data set when sent twice."""
    inline = add_inline(
        store,
        ["a", "b"],
        [[1, "u"], [2.5, None], [None, "v"], [4, "u"]],
        ["x", "y", "y", "x"],
    )
    upload = kept(
        store, io.BytesIO(b"a,b,label\n1,u,x\n2.5,,y\n,v,y\n4,u,x\n"), ["label"]
    )

    assert inline == upload
    np.testing.assert_array_equal(
        store.table(inline.id).X, [[1, 0], [2.5, np.nan], [np.nan, 1], [4, 0]]
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.integers(-(10**20), 10**20),
            st.none()
            | st.text(
                st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]),
                max_size=5,
            ),
            st.sampled_from(["ü", "u", "NA"]),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_round_trip(tmp_path_factory, rows):
    """Strings are taken in their normal form; null is missing, and so is a blank one."""
    rows = [*rows, *rows, (1, "w", "x"), (2, "w", "x")]
    store = DatasetStore(
        str(tmp_path_factory.mktemp("any")), DataLimits(1000, 100, 100, 10**6)
    )

    found = store.table(
        add_inline(
            store, ["a", "b"], [row[:2] for row in rows], [row[2] for row in rows]
        ).id
    )

    expected, _ = found.schema.encode([list(row[:2]) for row in rows])
    np.testing.assert_array_equal(found.X, expected)
    assert [found.classes[code] for code in found.y] == [row[2] for row in rows]


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        ([[1, "u"], [2]], [0, 1], [says("/rows/1", "1", "2")]),
        ([[1, "u"]], [0, 1], [says("/labels", "2 labels", "1 row")]),
        ([], [], [says("/rows", "row")]),
        ([[1, "u"], [2, 3]], [0, 1], [says("/rows/1/1", "'b'", "strings")]),
        ([[1, "u"], ["x", "v"]], [0, 1], [says("/rows/1/0", "'a'", "numbers")]),
        ([[1, "u"], [True, "v"]], [0, 1], [says("/rows/1/0", "'a'", "numbers")]),
        (
            [[[], "u"], [{}, "v"]],
            [0, 1],
            [
                says(f"/rows/{i}/0", "numbers, strings, booleans or null")
                for i in (0, 1)
            ],
        ),
        (
            [[1, "u"], [float("inf"), "v"]] * 2,
            [0, 1] * 2,
            [says("/rows/1/0", "inf", "2 rows", "1, 3")],
        ),
        (
            [[1, None], [2, None]] * 2,
            [0, 1] * 2,
            [says("/features/1", "'b'", "missing", "every row")],
        ),
        ([[1, "u"], [2, "v"]], [0, "x"], [says("/labels/1", "'label'", "numbers")]),
        ([[1, "u"], [2, "v"]], [0, None], [says("/labels/1", "label", "missing")]),
        ([[1, "u"], [2, "v"]], [1, 1], [says("/labels", "'label'", "one class", "1")]),
        ([[1, "u"], [2, "v"]], [["p"], "p"], [says("/labels/1", "list")]),
        (
            [[1, "u"], [2, "v"]],
            [[" "], ["q", 1]],
            [says(f"/labels/{i}/{i}", "string", "200") for i in (0, 1)],
        ),
        (
            [[1, "u"], [2, "v"]],
            [["p"], ["p"]],
            [says("/labels", "'p'", "1", "every row")],
        ),
        ([[1, "u"], [2, "v"]], [[], []], [says("/labels", "label")]),
    ],
)
def test_problem(store, rows, labels, expected):
    assert flaws(store, ["a", "b"], rows, labels) == expected


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], says("/features", "feature")),
        ([""], says("/features/0", "column 1", "no name")),
        (["a", "a"], says("/features/1", "'a'", "1", "2")),
        (["x" * 201], says("/features/0", "column 1", "200")),
    ],
)
def test_feature_names(store, features, expected):
    assert flaws(store, features, [[1] * len(features)] * 4, [0, 1, 0, 1]) == [expected]


def test_limits(tmp_path):
    store = DatasetStore(
        str(tmp_path),
        DataLimits(max_rows=4, max_columns=3, max_categories=5, max_upload_bytes=100),
    )
    for features, rows, labels in [
        (["a"], [[1]] * 5, [0, 1, 0, 1, 0]),
        (list("abcd"), [[1] * 4] * 4, [0, 1, 0, 1]),
        (["a"], [[1]] * 4, [["p", "q", "r"]] * 4),
    ]:
        with pytest.raises(TooLarge):
            add_inline(store, features, rows, labels)
