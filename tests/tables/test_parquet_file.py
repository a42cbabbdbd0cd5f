"""Parquet: which types are read as what, and what is refused by metadata alone."""

from __future__ import annotations

import datetime as dt
import decimal
import io

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore
from payoff.errors import Invalid, TooLarge
from tests.messages import says
from tests.tables.keeping import kept

Y = pa.array([0, 1, 0, 1])


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    file.seek(0)
    return file


def test_types(store):
    """Numbers and booleans are numeric, strings and dictionaries of them categorical; null, NaN and blanks missing."""
    columns = {
        "int": pa.array([1, None, 3, 4], pa.int8()),
        "unsigned": pa.array([2**64 - 1, 0, 1, 2], pa.uint64()),
        "half": pa.array(np.array([0.5, 1, 2, 3], np.float16)),
        "nan": pa.array([1.0, float("nan"), 2.0, None]),
        "bool": pa.array([True, False, None, True]),
        "decimal": pa.array([decimal.Decimal("1.25")] * 4),
        "text": pa.array(["u", "", None, "NA"]),
        "large": pa.array(["u", "v", "u", "v"], pa.large_string()),
        "view": pa.array(["u", "v", "u", "v"], pa.string_view()),
        "dictionary": pa.array(["v", "u", None, "v"]).dictionary_encode(),
        "y": Y,
    }

    found = store.table(kept(store, parquet(columns), ["y"]).id)

    assert [feature.type for feature in found.schema.features] == ["numeric"] * 6 + [
        "categorical"
    ] * 4
    assert found.schema.features[6].categories == ("NA", "u")
    nan = np.nan
    np.testing.assert_array_equal(
        found.X.T,
        [
            [1, nan, 3, 4],
            [2.0**64, 0, 1, 2],
            [0.5, 1, 2, 3],
            [1, nan, 2, nan],
            [1, 0, nan, 1],
            [1.25] * 4,
            [1, nan, nan, 0],  # an empty text is missing, as in CSV
            [0, 1, 0, 1],
            [0, 1, 0, 1],
            [1, 0, nan, 1],
        ],
    )


@pytest.mark.parametrize("label", [Y, Y.cast(pa.float64())], ids=["int", "float"])
def test_same_as_csv(store, label):
    """The same table has the same id, whatever it comes in."""
    columns = {
        "a": pa.array([1.5, None, 3, 4]),
        "b": pa.array(["u", "v", None, "u"]),
        "y": label,
    }

    found = kept(store, parquet(columns, row_group_size=3), ["y"])

    assert found == kept(
        store, io.BytesIO(b"a,b,y\n1.5,u,0\n,v,1\n3,,0\n4,u,1\n"), ["y"]
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]] * 4),
        pa.array([{"x": 1}] * 4),
        pa.array([b"u"] * 4),
    ],
    ids=lambda column: str(column.type)[:12],
)
def test_columns_of_other_types_are_left_out(store, column):
    content = parquet({"a": column, "b": [1.5] * 4, "y": Y})
    assert "make it numbers or strings" in kept(store, content, ["y"]).ignored["a"]
    with pytest.raises(Invalid) as caught:
        kept(store, content, ["y"], types={"a": "number"})
    assert caught.value.flaws[0] == says("/file/a", "numbers or strings")


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "Europe/Berlin")],
    ids=str,
)
def test_moments_are_days(store, kind):
    moment = pa.array([dt.datetime(2026, 1, 1, 18, tzinfo=dt.UTC)] * 4).cast(
        kind, safe=False
    )
    found = kept(store, parquet({"a": moment, "y": Y}), ["y"])
    assert found.columns[0].form == "date"
    assert store.table(found.id).X[0, 0] == 20454 + 0.75 * (kind != pa.date32())


FAR = [
    "0001-01-01",
    "1600-02-29",
    "1969-12-31",
    "2262-04-12",
    "2300-01-01",
    "9999-12-31",
]


@pytest.mark.parametrize(
    ("kind", "time"),
    [
        (pa.date32(), ""),
        (pa.timestamp("s"), " 00:00:00"),
        (pa.timestamp("s"), " 23:59:59"),
        (pa.timestamp("ms"), " 05:06:07.001"),
        (pa.timestamp("us"), " 23:59:59.999999"),
        (pa.timestamp("us", "Europe/Berlin"), " 12:00:00.5"),
    ],
    ids=str,
)
def test_dates_of_all_years_are_those_of_csv(store, kind, time):
    """As text is read, to the last bit; INT96, too, which nanoseconds in 64 bits cannot hold."""
    words = [f"{day}{time}" for day in FAR]
    moments = pa.array(map(dt.datetime.fromisoformat, words), pa.timestamp("us")).cast(
        kind
    )
    rows = "".join(f"{word},{i % 2}\n" for i, word in enumerate(words))
    expected = kept(
        store, io.BytesIO(f"a,y\n{rows}".encode()), ["y"], types={"a": "date"}
    )
    for is_int96 in {False, kind != pa.date32()}:
        columns = {"a": moments, "y": [i % 2 for i in range(len(FAR))]}
        content = parquet(columns, use_deprecated_int96_timestamps=is_int96)
        found = kept(store, content, ["y"], types={"a": "date"})
        assert (found.id, found.columns) == (expected.id, expected.columns)


def test_parts_of_a_microsecond_are_left_out_as_of_text(store):
    ticks = pa.array([-1, 1, -1000, -1001], pa.int64()).cast(pa.timestamp("ns"))
    found = store.table(kept(store, parquet({"a": ticks, "y": Y}), ["y"]).id)
    assert (found.X[:, 0] * 86_400e6).round(6).tolist() == [-1, 0, -1, -2]


def test_booleans_are_those_of_csv(store):
    """In any case, beside 1 and 0; a third word makes them categories."""
    expected = kept(store, parquet({"a": [True, False, None, True], "y": Y}), ["y"])
    assert expected.columns[0].examples == ("false", "true")
    for words in (("True", "False", "", "True"), ("TRUE", "false", "NA", "true")):
        rows = "".join(
            f"{word},{label}\n" for word, label in zip(words, Y.tolist(), strict=True)
        )
        assert kept(store, io.BytesIO(f"a,y\n{rows}".encode()), ["y"]).id == expected.id
    content = b"a,y\nTrue,0\nFalse,1\nunknown,0\nTrue,1\n"
    found = kept(store, io.BytesIO(content), ["y"])
    assert (found.features[0].type, found.warnings) == ("categorical", [])


def test_problems(store):
    def flaws(columns):
        with pytest.raises(Invalid) as caught:
            kept(store, parquet(columns), ["y"])
        return list(caught.value.flaws)

    assert flaws({"a": Y[:0], "y": Y[:0]}) == [says("/file", "rows")]
    assert flaws({"a": pa.nulls(4), "y": Y})[0] == says(
        "/file/a", "'a'", "missing", "every row"
    )
    assert flaws({"a": pa.array([1, 2, float("inf"), 4]), "y": Y}) == [
        says("/file/a", "'a'", "row 3", "inf")
    ]
    assert flaws({"a": Y, "y": pa.nulls(4)})[0].loc == "/file/y"
    assert flaws({"": Y, "y": Y})[0].loc == "/file"
    twice = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([Y, Y, Y], ["a", "a", "y"]), twice)
    with pytest.raises(Invalid, match=r"'a'.* 1 .* 2"):
        kept(store, twice, ["y"])


def test_refused_by_metadata(tmp_path):
    """A file of a few kilobytes may hold very many equal values, or very long ones: it is never decoded."""
    store = DatasetStore(str(tmp_path), DataLimits(100_000, 5, 10, 100_000))
    many = np.zeros(60_000)
    wide = dict.fromkeys("abcdey", Y)
    for columns, message in [
        ({"a": many, "y": many}, "accepts"),
        ({"a": np.zeros(100_001), "y": np.zeros(100_001)}, "at most 100,000 rows"),
        (wide, "at most 5"),
        ({"a": ["x" * 200_000] * 4, "y": Y}, "accepts"),
    ]:
        file = parquet(columns, compression="zstd")
        assert len(file.getvalue()) < 5_000
        with pytest.raises(TooLarge, match=message):
            kept(store, file, ["y"])


def test_text_that_is_not_utf8_is_refused(store):
    content = parquet(
        {"a": ["uuuu", "vvvv"] * 2, "y": Y}, compression="none"
    ).getvalue()
    with pytest.raises(Invalid):
        kept(store, io.BytesIO(content.replace(b"uuuu", b"u\x80uu")), ["y"])


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
def test_a_type_that_arrow_lacks_leaves_out_its_column_alone(store, kind):
    frame = pl.DataFrame(
        {"a": [1, 2, 3, 4], "y": [0, 1, 0, 1], "huge": pl.Series(range(4), dtype=kind)}
    )
    sink = io.BytesIO()
    frame.write_parquet(sink)

    found = kept(store, sink, ["y"])

    assert (store.table(found.id).schema.names, list(found.ignored)) == (
        ("a",),
        ["huge"],
    )
    assert "the type of 'huge' is not supported" in found.ignored["huge"]
    with pytest.raises(Invalid) as caught:
        kept(store, sink, ["y"], types={"huge": "number"})
    assert caught.value.flaws[0].loc == "/file/huge"
