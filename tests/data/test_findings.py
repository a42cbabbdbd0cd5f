"""What an upload reports about columns that look like something else, and how `types` overrides it."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.data.store import DataLimits, DatasetStore
from app.errors import Invalid
from tests.data.keeping import kept
from tests.messages import says

ROWS = 40
LABELS = ["u", "v"] * (ROWS // 2)


@pytest.fixture
def store(tmp_path):
    return DatasetStore(str(tmp_path), DataLimits(1_000_000, 100, 50, 10**8))


def csv(delimiter=",", **columns) -> bytes:
    columns = {"x": [1.5, 2, 2, 3] * (ROWS // 4), **columns, "y": LABELS}
    rows = [delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([delimiter.join(columns), *rows]).encode()


def kinds(found):
    return {feature.name: feature.type for feature in found.features}


def numbers(*odd):
    """Numbers, with something else from row 12 on (the header is row 1)."""
    values = [str(i % 7) for i in range(ROWS)]
    values[10 : 10 + len(odd)] = odd
    return values


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (numbers("n/a"), ("row 12", "'n/a'", '{"a": "number"}')),
        (numbers("."), ("row 12", "'.'")),
        (numbers("12%"), ("row 12", "'12%'", "digits")),
        ([f"{i % 7 + 1}%" for i in range(ROWS)], ("row 2", "'1%'")),
        ([f"{i % 7}.{i % 3}".replace(".", ";") for i in range(ROWS)], None),
        ([f"2026-01-{i % 28 + 1:02}" for i in range(ROWS)], ("row 2", "date")),
        ([f"{i % 28 + 1}.1.2026" for i in range(ROWS)], ("row 2", "date")),
        ([f"p{i}" for i in range(ROWS)], ("different text", "identifier")),
        ([7] * ROWS, None),
        (["ill" if label == "v" else "well" for label in LABELS], ("label 'y'", "copy")),
        ([float(label == "v") for label in LABELS], ("label 'y'", "copy")),
        (["a", "b", "c", "d"] * (ROWS // 4), None),
        (numbers(), None),
    ],
)
def test_columns_that_look_like_something_else_are_named(store, values, words):
    found = kept(store, io.BytesIO(csv(a=values)), ["y"])
    about = [warning for warning in found.warnings if warning.startswith("'a'")]
    assert len(about) == (words is not None), found.warnings
    for word in words or ():
        assert word in about[0]
    assert store.find(found.id).warnings == found.warnings


def test_numbers_with_commas_lead_to_the_setting(store):
    content = csv(";", a=[f"{i % 7},5" for i in range(ROWS)])
    (about,) = kept(store, io.BytesIO(content), ["y"], delimiter=";").warnings
    assert all(part in about for part in ("'0,5'", "decimal=,"))
    (about,) = kept(store, io.BytesIO(content), ["y"], delimiter=";", decimal=",").warnings
    assert all(part in about for part in ("'x', row 2", "'1.5'", "decimal=."))
    found = kept(store, io.BytesIO(content.replace(b"1.5", b"1,5")), ["y"], delimiter=";", decimal=",")
    assert kinds(found) == {"x": "numeric", "a": "numeric"}
    assert store.table(found.id).X[1].tolist() == [2, 1.5]


def test_no_setting_is_advised_that_would_read_thousands_as_fractions(store):
    amounts = [f'"{i % 7 + 1},100"' for i in range(ROWS)]
    (about,) = kept(store, io.BytesIO(csv(a=amounts)), ["y"]).warnings
    assert "without thousands" in about
    assert "decimal=" not in about


def test_a_label_that_looks_like_amounts_is_named(store):
    content = csv(y2=[f'"{i % 5},100.50"' for i in range(ROWS)])
    found = kept(store, io.BytesIO(content), ["y2"])
    assert "'y2', row 2: '0,100.50' is read as a word" in found.warnings[-1]


def test_rows_that_a_quotation_mark_may_have_swallowed_are_named(store):
    words = ['"blue\n1.5,red', 'red"', "green", "green"] * (ROWS // 4)
    found = kept(store, io.BytesIO(csv(a=words)), ["y"])
    assert found.rows < ROWS
    assert "'a' has a value of several lines; is a quotation mark not closed?" in found.warnings


def test_identifiers_of_integers_are_named_across_batches(store):
    n = 100_000
    table = pa.table({"a": np.arange(n), "b": np.arange(n) % 50_000, "y": np.arange(n) % 2})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert [warning[:3] for warning in kept(store, sink, ["y"]).warnings] == ["'a'"]


def test_types_override_what_was_understood(store):
    content = csv(a=numbers("n/a", "."), b=[f"00{i % 3}" for i in range(ROWS)], c=[f"id{i}" for i in range(ROWS)])
    types = {"a": "number", "b": "category", "c": "ignore"}
    found = kept(store, io.BytesIO(content), ["y"], types=types)
    assert kinds(found) == {"x": "numeric", "a": "numeric", "b": "categorical"}
    assert store.table(found.id).schema.features[2].categories == ("000", "001", "002")
    assert found.ignored == ("c",)
    assert [
        warning for warning in found.warnings if "'a'" in warning and "row 12" in warning and "missing: 2" in warning
    ]
    assert np.isnan(store.table(found.id).X[10:12, 1]).all()
    assert store.find(found.id).ignored == ("c",)


def test_a_report_says_how_each_column_was_read(store, tmp_path):
    """With counts of the whole column; a refusal has the same, and names all columns at fault and the label at once."""
    content = csv(
        a=numbers("n/a", "NA"), b=["w", "", "v", "w"] * 10, c=range(ROWS), d=[f"long{i}" for i in range(ROWS)]
    )
    found = kept(store, io.BytesIO(content), ["y"], types={"c": "ignore"})
    assert [dataclasses.astuple(each)[:5] for each in found.columns] == [
        ("x", "numeric", ("1.5", "2", "3"), 0, 3),
        ("a", "categorical", ("0", "4", "n/a"), 1, 8),
        ("b", "categorical", ("w", "v"), 10, 2),
        ("d", "categorical", ("long0", "long20", "long39"), 0, 40),
        ("y", "categorical", ("u", "v"), 0, 2),
    ]
    assert [each.name for each in found.columns if each.advice] == ["a", "d"]
    assert store.find(found.id).columns == found.columns

    few = DatasetStore(str(tmp_path), DataLimits(1000, 100, 20, 10**6))
    sink = io.BytesIO()
    table = pa.table(
        {"day": pa.array([1] * ROWS, pa.date32()), "n": numbers("12%"), "d": [f"{i}w" for i in range(ROWS)]}
    )
    pq.write_table(table.append_column("m", [[*range(39), None]]).append_column("y", [[*LABELS[1:], None]]), sink)
    with pytest.raises(Invalid) as refused:
        kept(few, sink, ["y"], types={"n": "number"})
    places = ["/file/y", "/file/day", "/file/n", "/file/d"]
    assert [flaw.loc for flaw in refused.value.flaws] == places
    report = {each["name"]: each for each in refused.value.columns}
    assert {f"/file/{name}" for name, each in report.items() if each["advice"]} == {*places}
    assert [report[name]["missing"] for name in ("day", "n", "d", "m", "y")] == [None, 1, 0, 1, 1]
    assert [report[name]["distinct"] for name in ("day", "n", "d", "m", "y")] == [None, 7, None, 39, 2]


@pytest.mark.parametrize(
    ("types", "loc"), [({"z": "ignore"}, "/types/z"), ({"y": "ignore"}, "/types/y"), ({"a": "number"}, "/file/a")]
)
def test_types_that_cannot_be_are_refused(store, types, loc):
    with pytest.raises(Invalid) as refused:
        kept(store, io.BytesIO(csv(a=numbers("12%"))), ["y"], types=types)
    assert refused.value.flaws[0].loc == loc


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_and_the_suggestion(store, encoding):
    content = csv(a=["m\u00fcd", "wach"] * (ROWS // 2)).decode().encode(encoding)
    with pytest.raises(Invalid, match=f"encoding={encoding}"):
        kept(store, io.BytesIO(content), ["y"])
    others = [content[2:], content.decode(encoding).encode("utf-16-be")] if encoding == "utf-16" else []
    for sent in (content, *others):  # also without a mark of the order of bytes
        found = kept(store, io.BytesIO(sent), ["y"], encoding=encoding)
        assert store.table(found.id).schema.features[1].categories == ("m\u00fcd", "wach")
    with pytest.raises(Invalid) as refused:
        kept(store, io.BytesIO(b"a,y\n1,0\n2"), ["y"], encoding="utf-16")
    assert refused.value.flaws == (says("/encoding", "utf-16"),)


def test_pandas_index_and_booleans_of_parquet(store):
    columns = {"a": [1.5, 2.0] * 20, "w": ["u", "v", "v", "u"] * 10, "y": [True, False] * 20}
    table = pa.table(columns | {"__index_level_0__": list(range(ROWS)), "day": pa.array([1] * ROWS, pa.date32())})
    metadata = {b"pandas": json.dumps({"index_columns": ["__index_level_0__"]}).encode()}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    with pytest.raises(Invalid, match="ignore"):
        kept(store, sink, ["y"])
    found = kept(store, sink, ["y"], types={"day": "ignore"})
    assert kinds(found) == {"a": "numeric", "w": "categorical"}
    assert found.classes == (0, 1)
    assert set(found.ignored) == {"__index_level_0__", "day"}


def test_a_label_that_cannot_be_read_as_was_ordered_is_refused_with_the_other_columns(store):
    content = csv(a=numbers("inf")).replace(b",u", b",1%").replace(b",v", b",2")
    with pytest.raises(Invalid) as refused:
        kept(store, io.BytesIO(content), ["y"], types={"y": "number", "a": "number"})
    assert refused.value.flaws[0] == says("/file/y", "row 2", "'1%'")
    assert [each["advice"] for each in refused.value.columns if each["name"] == "y"] == [refused.value.flaws[0].msg]
