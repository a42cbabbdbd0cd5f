"""Columns that are no features stay in the table, for hold-outs and segments."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.tables.columns import MOST_WORDS_KEPT, code_of
from tests.tables.keeping import kept

ROWS = 60
CUSTOMERS = [f"c{i % 57}" for i in range(ROWS)]  # too many words for a feature
REGIONS = ["north", "south", "", "west"] * (ROWS // 4)
DAYS = [f"2026-03-{i % 28 + 1:02}" for i in range(ROWS)]
IGNORED = {"day": "ignore", "region": "ignore"}


def table(format_):
    columns = {
        "x": [i % 7 + 0.5 for i in range(ROWS)],
        "customer": CUSTOMERS,
        "region": REGIONS,
        "day": DAYS,
        "y": ["u", "v", "v"] * (ROWS // 3),
    }
    if format_ == "csv":
        lines = [",".join(columns)]
        lines += [
            ",".join(map(str, row)) for row in zip(*columns.values(), strict=True)
        ]
        return io.BytesIO("\n".join(lines).encode())
    sink = io.BytesIO()
    days = pa.array(np.array(DAYS, dtype="datetime64[D]"))
    pq.write_table(pa.table(columns | {"day": days}), sink)
    return sink


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_numbers_days_and_words_are_kept_beside_the_features(store, format_):
    dataset = kept(store, table(format_), ["y"], types=IGNORED)
    assert [feature.name for feature in dataset.features] == ["x"]
    types = {
        name: (column.type, column.form, column.words)
        for name, column in dataset.kept.items()
    }
    assert types == {
        "customer": ("categorical", "", tuple(sorted(set(CUSTOMERS)))),
        "region": ("categorical", "", ("north", "south", "west")),
        "day": ("numeric", "date", ()),
    }
    plain = store.table(dataset.id)
    assert not plain.kept
    assert plain.schema.ignored == {"customer", "region", "day"}
    read = store.table(dataset.id, kept=["region", "day"])
    assert (read.X == plain.X).all()
    assert (read.y == plain.y).all()
    first = np.datetime64("2026-03-01").astype(int)
    assert read.column("day").tolist() == [first + i % 28 for i in range(ROWS)]
    codes = read.column("region")
    assert codes[[0, 1, 3]].tolist() == [0, 1, 2]
    assert np.isnan(codes[2::4]).all()
    assert (read.column("x") == read.X[:, 0]).all()
    with pytest.raises(KeyError):
        read.column("customer")
    assert store.find(dataset.id).kept == dataset.kept


def test_of_many_words_there_are_codes_alone_whatever_the_batches(store):
    n = 40_000
    words = np.array([f"customer {i}" for i in range(2 * MOST_WORDS_KEPT)])
    customers = words[np.random.default_rng(0).integers(len(words), size=n)]
    columns = {"x": np.arange(n) % 7, "customer": customers, "y": np.arange(n) % 2}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    dataset = kept(store, sink, ["y"])
    assert dataset.kept["customer"].words == ()
    column = store.table(dataset.id, kept=["customer"]).column("customer")
    assert column.tolist() == [code_of(word) for word in customers]
    report = dataset.columns[-1]
    assert (report.missing, report.distinct) == (0, len(words))


def test_tables_that_differ_in_a_kept_column_alone_are_two(store):
    first = kept(store, table("csv"), ["y"], types=IGNORED)
    other = table("csv").getvalue().replace(b"west", b"east")
    assert kept(store, io.BytesIO(other), ["y"], types=IGNORED).id != first.id
    assert kept(store, table("csv"), ["y"], types=IGNORED).id == first.id
    assert kept(store, table("parquet"), ["y"], types=IGNORED).id == first.id


def test_lists_keep_what_is_ignored(store):
    rows = [[float(i % 7), f"c{i % 5}", None if i == 3 else i] for i in range(12)]
    draft = store.draft_inline(
        ["x", "customer", "number"],
        rows,
        ["u", "v"] * 6,
        types={"customer": "ignore", "number": "ignore"},
    )
    dataset = store.keep(draft)
    assert [feature.name for feature in dataset.features] == ["x"]
    read = store.table(dataset.id, kept=["customer", "number"])
    assert read.column("customer").tolist() == [i % 5 for i in range(12)]
    assert np.flatnonzero(np.isnan(read.column("number"))).tolist() == [3]
    assert [(report.name, report.type) for report in dataset.columns] == [
        ("x", "numeric"), ("label", "categorical"), ("customer", "categorical"),
        ("number", "numeric"),
    ]  # fmt: skip


def test_what_cannot_be_read_is_not_kept(store):
    sink = io.BytesIO()
    columns = {
        "x": [1.5, 2, 3, 3] * 10,
        "lists": [[1]] * 40,
        "day": [f"0{i % 9 + 1}/04/2026" for i in range(40)],
        "y": ["u", "v"] * 20,
    }
    pq.write_table(pa.table(columns), sink)
    dataset = kept(store, sink, ["y"], types={"lists": "ignore", "day": "ignore"})
    assert dataset.kept == {}
    assert dict(dataset.ignored) == {"lists": "ordered", "day": "ordered"}
