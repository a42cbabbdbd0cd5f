"""Tables as polars, DuckDB and pandas' Parquet write them, unchanged, in and out of the service."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import two_class_rows
from tests.messages import without_words

STAKES = {
    "benefits": json.dumps([[0, -1], [-10, 5]]),
    "actions": json.dumps(["wait", "treat"]),
}
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
CSV = "text/csv"
WRITER = Path(__file__).with_name("duckdb_writer.py")
DATA = two_class_rows(30)


def table() -> pl.DataFrame:
    rows = [[f"p{i}", *row] for i, row in enumerate(DATA["rows"])]
    frame = pl.DataFrame(rows, schema=["patient", *DATA["features"]], orient="row")
    return frame.with_columns(
        day=pl.date(2026, 1, 2),
        stay=pl.lit(3),
        age=pl.when(pl.arange(0, 30) != 4).then("age"),
    )


def in_memory(write, **casts) -> bytes:
    sink = io.BytesIO()
    getattr(table().cast(casts), write)(sink)
    return sink.getvalue()


def duck(
    folder: Path, columns: str = "*", options: str | None = None, **settings: object
) -> bytes:
    """The table as DuckDB writes it, by `options` of its COPY or as a stream of Arrow."""
    source, target = folder / "patients.arrow", folder / "written"
    table().write_ipc(source, compat_level=pl.CompatLevel.oldest())
    terms = json.dumps({"settings": settings, "columns": columns, "options": options})
    command = [sys.executable, WRITER, source, target, terms]
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    return target.read_bytes()


STREAM = "write_ipc_stream"
WRITERS = {
    "polars stream": (ARROW, lambda _: in_memory(STREAM)),
    "polars categorical": (ARROW, lambda _: in_memory(STREAM, pain=pl.Categorical)),
    "polars enum": (
        ARROW,
        lambda _: in_memory(STREAM, pain=pl.Enum(["mild", "strong"])),
    ),
    "polars decimal": (ARROW, lambda _: in_memory(STREAM, pulse=pl.Decimal(10, 1))),
    "polars parquet": (PARQUET, lambda _: in_memory("write_parquet")),
    "polars csv": (CSV, lambda _: in_memory("write_csv")),
    "duckdb arrow": (ARROW, duck),
    "duckdb views": (
        ARROW,
        lambda folder: duck(
            folder, produce_arrow_string_view=True, arrow_output_version="1.4"
        ),
    ),
    "duckdb large": (ARROW, lambda folder: duck(folder, arrow_large_buffer_size=True)),
    "duckdb enum": (
        ARROW,
        lambda folder: duck(folder, "* REPLACE (pain::ENUM('mild', 'strong') AS pain)"),
    ),
    "duckdb decimal": (
        ARROW,
        lambda folder: duck(folder, "* REPLACE (pulse::DECIMAL(10,1) AS pulse)"),
    ),
    "duckdb parquet": (PARQUET, lambda folder: duck(folder, options="FORMAT parquet")),
    "duckdb csv": (CSV, lambda folder: duck(folder, options="FORMAT csv")),
}


@pytest.fixture(scope="module")
def plain(service, ward):
    """What the same rows are answered as JSON."""
    rows = [list(row) for row in DATA["rows"]]
    rows[4][0] = None
    stakes = {name: json.loads(text) for name, text in STAKES.items()}
    return without_words(
        service.post("/predict", json={"model": ward, "instances": rows, **stakes})
    )


@pytest.mark.parametrize("name", WRITERS)
def test_what_they_write_is_decided_as_json_is(service, ward, plain, tmp_path, name):
    kind, write = WRITERS[name]
    query = STAKES | {"model": ward, "id": "patient", "keep": "day,stay"}
    answer = service.post(
        "/predict",
        params=query,
        content=write(tmp_path),
        headers={"Content-Type": kind},
    )
    assert answer.status_code == 200, answer.text
    answer = without_words(answer)
    assert answer.pop("ids") == [f"p{i}" for i in range(30)]
    kept = answer.pop("kept")
    assert kept["day"] == ["2026-01-02"] * 30
    assert list(map(int, kept["stay"])) == [3] * 30
    assert answer == plain


def read_back(kind: str, content: bytes) -> pl.DataFrame:
    readers = {ARROW: pl.read_ipc_stream, PARQUET: pl.read_parquet, CSV: pl.read_csv}
    return readers[kind](io.BytesIO(content))


@pytest.mark.parametrize("kind", [ARROW, PARQUET, CSV])
def test_answers_are_read_back_with_ids_and_columns(service, ward, plain, kind):
    query = STAKES | {"model": ward, "id": "patient", "keep": '["stay", "day"]'}
    content = in_memory(STREAM)
    answer = service.post(
        "/predict",
        params=query,
        content=content,
        headers={"Content-Type": ARROW, "Accept": kind},
    )
    assert answer.headers["content-type"].partition(";")[0] == kind
    found = read_back(kind, answer.content)
    assert found.columns == [
        "patient",
        "stay",
        "day",
        "decision",
        "p:healthy",
        "p:ill",
        "benefit:wait",
        "benefit:treat",
    ]
    assert found["patient"].to_list() == [f"p{i}" for i in range(30)]
    assert found["decision"].cast(pl.String).to_list() == plain["decisions"]
    assert found.select("p:healthy", "p:ill").rows() == [
        tuple(row) for row in plain["probabilities"]
    ]


def test_the_index_of_a_pandas_table_is_left_out(service, ward, plain):
    columns = {name: table()[name].to_arrow() for name in DATA["features"]} | {
        "__index_level_0__": pa.array(range(30))
    }
    metadata = {
        b"pandas": json.dumps({"index_columns": ["__index_level_0__"]}).encode()
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), sink)
    for query, more in (
        ({}, {}),
        ({"id": "__index_level_0__"}, {"ids": list(range(30))}),
    ):
        asked = {
            "params": STAKES | {"model": ward} | query,
            "headers": {"Content-Type": PARQUET},
        }
        answer = service.post("/predict", content=sink.getvalue(), **asked)
        assert without_words(answer) == plain | more
