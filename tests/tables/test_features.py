"""Rows turned into numbers: right values, and every wrong cell found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables.features import Feature, Schema
from payoff.errors import Invalid

NUMBERS = Schema([Feature("a", "numeric"), Feature("b/c", "numeric")])
MIXED = Schema([Feature("a", "numeric"), Feature("word", "categorical", ("no", "yes"))])
ONE = Schema([Feature("a", "numeric")])

finite = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
)
words = st.sampled_from([None, "no", "yes", "never seen"])


@given(st.lists(st.tuples(finite, finite)))
def test_numbers_stay_what_they_are(rows):
    """Each number is its float64, null is NaN, as rows and as objects alike."""
    X, warnings = NUMBERS.encode([list(row) for row in rows])
    by_name, _ = NUMBERS.encode([{"b/c": second, "a": first} for first, second in rows])

    expected = np.array(
        [[np.nan if cell is None else float(cell) for cell in row] for row in rows]
    ).reshape(-1, 2)
    assert np.array_equal(X, expected, equal_nan=True)
    assert np.array_equal(by_name, expected, equal_nan=True)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert warnings == []


@given(st.lists(st.tuples(finite, words)))
def test_words_become_their_positions(rows):
    """A known category is its position; null and unknown ones are NaN, and only the latter are warned about."""
    X, warnings = MIXED.encode([list(row) for row in rows])

    codes = {"no": 0.0, "yes": 1.0}
    assert np.array_equal(
        X[:, 1], np.array([codes.get(word, np.nan) for _, word in rows]), equal_nan=True
    )
    assert bool(warnings) == any(word == "never seen" for _, word in rows)


def test_one_feature_by_name():
    assert ONE.encode([{"a": 3}])[0].tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("schema", "instances", "places"),
    [
        (NUMBERS, [[1, 2], [1, "2"]], ["/1/1"]),
        (NUMBERS, [[True, False]], ["/0/0", "/0/1"]),
        (NUMBERS, [[1, 2], [1]], ["/1"]),
        (NUMBERS, [[1, 2, 3]], ["/0"]),
        (NUMBERS, [[]], ["/0"]),
        (NUMBERS, ["ab"], ["/0"]),
        (NUMBERS, [None], ["/0"]),
        (NUMBERS, [{"a": 1, "b/c": "x"}], ["/0/b~1c"]),
        (NUMBERS, [{"a": 1}], ["/0"]),
        (NUMBERS, [{"a": 1, "b/c": 2, "~": 3}], ["/0/~0"]),
        (NUMBERS, [[1, 2], {"a": 1, "b/c": 2}], ["/1"]),
        (NUMBERS, [{"a": 1, "b/c": 2}, [1, 2], {"a": 1, "b/c": 2}, [1, 2]], ["/1"]),
        (
            NUMBERS,
            [["x", "y"]] * 1000,
            [f"/{i}/{j}" for i in range(10) for j in range(2)],
        ),
        (NUMBERS, [5, [1, 2], {"a": 1, "b/c": 2}], ["/0"]),
        (MIXED, [[1, 2]], ["/0/1"]),
        (MIXED, [[1, ["yes"]]], ["/0/1"]),
    ],
)
def test_every_wrong_cell_is_named(schema, instances, places):
    with pytest.raises(Invalid) as refused:
        schema.encode(instances)

    assert [flaw.loc for flaw in refused.value.flaws] == places


def coded(categories, *values):
    """The codes of values, and how many of them were never seen; the place of a refusal."""
    schema = Schema([Feature("word", "categorical", categories)])
    try:
        X, warnings = schema.encode([[value] for value in values])
    except Invalid as refusal:
        return [flaw.loc for flaw in refusal.flaws]
    assert bool(warnings) == (np.isnan(X[:, 0]).sum() > values.count(None))
    return [None if np.isnan(code) else int(code) for code in X[:, 0]]


def test_a_category_is_one_value_however_it_is_spelt():
    """A boolean in any case, an integer with `.0`, a number by its value: where one category fits."""
    assert coded(("False", "True"), "true", "TRUE", True, False, None) == [
        1,
        1,
        1,
        0,
        None,
    ]
    assert coded(("false", "true", "unknown"), "True", True, "Unknown") == [1, 1, None]
    assert coded(("3", "7.0"), "3.0", 3, 3.0, "7", 7, "07") == [0, 0, 0, 1, 1, None]
    assert coded(("0.50", "007"), 0.5, 7, "0.5", "7") == [0, 1, None, None]
    assert coded(("7", "7.0", "07"), 7, "7.0", "07", "7.00") == [0, 1, 2, None]
    assert coded(("07", "007"), "7", "007") == [None, 1]
    assert coded((str(2**60), str(2**60 + 1)), 2**60 + 1, 2**60) == [1, 0]
    assert coded(("east", "west"), "east", 3, True) == ["/1/0", "/2/0"]
    assert coded(("True", "False"), "True", 1) == ["/1/0"]


def test_booleans_are_numbers_of_features_that_were_booleans():
    schema = Schema(
        [Feature("flag", "numeric", form="boolean"), Feature("a", "numeric")]
    )
    rows = [[True, 2], ["FALSE", None], [1, 2.5], [None, 1]]
    X, _ = schema.encode(rows)
    np.testing.assert_array_equal(X, [[1, 2], [0, np.nan], [1, 2.5], [np.nan, 1]])
    for row, places in (([True, True], ["/0/1"]), (["yes", 1], ["/0/0"])):
        with pytest.raises(Invalid) as refused:
            schema.encode([row])
        assert [flaw.loc for flaw in refused.value.flaws] == places


HUGE = 10**400
CELLS = [
    [],
    [1],
    [[1]],
    [[], 1],
    {},
    (),
    "1",
    "",
    True,
    HUGE,
    -HUGE,
    [HUGE],
    [[[[1.0]]]],
    [None],
    object(),
]


@pytest.mark.parametrize(
    "schema", [NUMBERS, ONE, MIXED], ids=["numbers", "one", "mixed"]
)
@pytest.mark.parametrize("by_name", [False, True], ids=["lists", "objects"])
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: str(cell)[:12])
@pytest.mark.parametrize("everywhere", [False, True], ids=["once", "in every row"])
def test_whatever_is_no_number_is_refused_at_its_place(
    schema, by_name, cell, everywhere
):
    """Also where lists make the rows ragged, or all of them alike one level deeper."""
    rows = [[1.5] * len(schema.names) for _ in range(3)]
    if schema.categorical:
        rows = [[1.5, "no"] for _ in range(3)]
    wrong = range(3) if everywhere else [1]
    for i in wrong:
        rows[i][0] = cell
    instances = (
        [dict(zip(schema.names, row, strict=True)) for row in rows] if by_name else rows
    )

    with pytest.raises(Invalid) as error:
        schema.encode(instances)
    assert [flaw.loc for flaw in error.value.flaws] == [
        f"/{i}/{'a' if by_name else 0}" for i in wrong
    ]


@given(st.integers(-(2**64), 2**64), st.sampled_from([2**63, 2**64 - 1, -1, 1.5, None]))
def test_integers_of_any_size_that_a_float_holds_are_numbers(number, other):
    """Beyond 64 bits, and beside numbers of another type, they are rounded to the nearest float."""
    X, _ = NUMBERS.encode([[number, other]])

    assert X[0, 0] == float(number)
    assert np.isnan(X[0, 1]) if other is None else X[0, 1] == float(other)


def test_names_and_words_are_looked_up_in_their_normal_form():
    """As training kept them; words that are known take the short way, and two names of one feature are refused."""
    schema = Schema(
        [Feature("f\u00fcr", "numeric"), Feature("s", "categorical", ("\u00fc", "v"))]
    )
    rows = [{"fu\u0308r": 1.5, " s": "u\u0308 "}, {"f\u00fcr": 2, "s": "V"}]
    X, warnings = schema.encode(rows)
    np.testing.assert_array_equal(X, [[1.5, 0], [2, np.nan]])
    assert warnings == [
        "1 of 2 values of 's' (position 1) were never seen in training (for example 'V') and count as missing"
    ]
    dates = Schema([Feature("day", "numeric", form="date")])
    X, warnings = dates.encode([["1970-01-03\u00a0"], [" "], [""], [None]])
    np.testing.assert_array_equal(X, [[2], [np.nan], [np.nan], [np.nan]])
    with pytest.raises(Invalid) as caught:
        schema.encode([{"fu\u0308r": 1, "f\u00fcr": 1, "s": "v"}])
    assert caught.value.flaws[0].loc == "/0/fu\u0308r"
