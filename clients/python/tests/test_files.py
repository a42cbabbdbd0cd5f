"""Files as requests: cut where rows end, once where all rows belong together, counted by their answers."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from payoff_client import Payoff, csv_rows, file_parts, files
from payoff_client.dialect import Dialect
from pyarrow import parquet

from app.data import dialect as service_dialect
from app.data.csv_text import CsvText
from app.errors import Invalid

FEATURES = [{"name": "x", "type": "numeric"}, {"name": "s", "type": "categorical", "categories": ["u"]}]
CARD = {"name": "m", "version": 1, "classes": ["a", "b"], "features": FEATURES}
TOGETHER = [
    {"limits": {"t": 100}},
    {"resources": [{"name": "beds", "at_most": 100, "use": {"t": 1}}]},
    {"priors": "estimate"},
]


def rows_read(text: bytes, delimiter=",") -> list[list[str]]:
    """The rows as the service reads them."""
    blocks = CsvText(io.BytesIO(text), service_dialect.Dialect(delimiter)).blocks()
    return [list(row) for block in blocks for row in zip(*(column.to_pylist() for column in block), strict=True)]


class Decider:
    """Decides each row of a table as it reads it, and keeps how many there were."""

    def __init__(self):
        self.asked = []
        self.model = Payoff("http://service", transport=httpx.MockTransport(self), progress=False).model("m")

    def __call__(self, request):
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        body, kind = request.read(), request.headers["Content-Type"]
        if "arrow" in kind:
            table = pa.ipc.open_stream(body).read_all()
        elif "csv" in kind:
            table = pa.table([pa.array(rows_read(body))], ["row"])
        else:
            table = pa.Table.from_pylist([json.loads(line) for line in body.splitlines()])
        self.asked.append(table.num_rows)
        answer = {"Payoff-Answer": json.dumps({"warnings": []})}
        if "arrow" not in request.headers["Accept"]:
            return httpx.Response(200, text='"note","decision"\n' + '"a\nb","t"\n' * table.num_rows, headers=answer)
        decided = pa.table({"decision": ["t"] * table.num_rows})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, decided.schema.with_metadata({"payoff": '{"warnings": []}'})) as writer:
            writer.write_table(decided)
        return httpx.Response(200, content=sink.getvalue())


def write(path: Path, rows: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        rows.to_parquet(path, row_group_size=250)
    else:
        path.write_text(rows.to_csv(index=False))
    return path


@pytest.mark.parametrize("options", TOGETHER, ids=str)
@pytest.mark.parametrize("kind", ["number", "text", "category"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_that_are_decided_together_are_one_request(monkeypatch, tmp_path, suffix, kind, options):
    """A reader of Parquet has a batch for each group of rows where a column has a dictionary."""
    monkeypatch.setattr(files, "_PART", 300)
    column = {"number": 1.5, "text": "u", "category": pd.Categorical(["u", "v"] * 500)}[kind]
    source = write(tmp_path / f"in.{suffix}", pd.DataFrame({"x": range(1000), "s": column}))
    service = Decider()
    report = service.model.decide_file(source, tmp_path / "out.csv", **options)
    assert (service.asked, report["rows"]) == ([1000], 1000)
    service.model.decide_file(source, tmp_path / "out.csv")
    assert len(service.asked) > 4
    assert sum(service.asked) == 2000


PIECES = st.lists(
    st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"a", b"b", b'5" ', b'"x,\ny"', b";"]), max_size=60
)


@given(PIECES.map(b"".join), st.integers(1, 30), st.sampled_from([",", ";"]))
def test_parts_of_a_file_have_the_rows_of_the_whole(text, size, delimiter):
    """A quotation mark opens a value at its start alone, as the service reads it."""
    mark = delimiter.encode()
    text = b"p" + mark + b'"q\n' + b'""r"' + b"\n" + text
    try:
        whole = rows_read(text, delimiter)
    except Invalid:
        return
    file, header = io.BytesIO(text), text[: csv_rows.first_end(text, delimiter)]
    assert (
        Dialect(delimiter=delimiter).header(header)
        == CsvText(io.BytesIO(text), service_dialect.Dialect(delimiter)).names
    )
    first, *others = file_parts._pieces(file, delimiter, size)
    assert first + b"".join(others) == text
    assert first.startswith(header)
    found = []
    for piece in (first[len(header) :], *others):
        try:
            found += rows_read(header + piece, delimiter)
        except Invalid as error:  # the service refuses a last value of several lines
            assert "several lines" in error.detail  # noqa: PT017 - no other one
            return
    assert found == whole


@given(st.lists(st.lists(st.text("a\"\n,'", max_size=4), min_size=1, max_size=1), max_size=20))
def test_rows_of_an_answer_are_counted(rows):
    from app.api.codecs.csv import csv_response  # noqa: PLC0415 - with pyarrow

    table = pa.table({"note": [row[0] for row in rows]}, pa.schema([("note", pa.string())]))
    content = csv_response(table, {}).body
    assert csv_rows.count(content) == len(rows) + 1


@pytest.mark.parametrize("text", ['5" pipe,1,u\nb,2,u\n3" x,1,u\n', '"a\nb",1,u\n\nc,1,u\n\nd,1,u\n\n'])
@pytest.mark.parametrize("lead", ["", "\ufeff", "\n\n", "\ufeff\r\n"])
@pytest.mark.parametrize("size", [20, 1000])
def test_rows_are_counted_as_they_are_decided(monkeypatch, tmp_path, lead, text, size):
    monkeypatch.setattr(files, "_PART", size)
    (tmp_path / "in.csv").write_text(f"{lead}size,x,s\n{text}", encoding="utf-8", newline="")
    service = Decider()
    assert service.model.decide_file(tmp_path / "in.csv", tmp_path / "out.csv")["rows"] == sum(service.asked) == 3
    assert len(rows_read((tmp_path / "out.csv").read_bytes())) == 3


def test_a_file_without_rows_is_sent_too(tmp_path):
    """Parquet so has the columns of the answer; an empty file is refused by the service."""
    table = pa.table({"x": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
    parquet.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "in.csv").write_text("x,s\n")
    for source in ("in.parquet", "in.csv"):
        service = Decider()
        report = service.model.decide_file(tmp_path / source, tmp_path / "out.parquet")
        assert (report["rows"], service.asked) == (0, [0])
        assert parquet.read_table(tmp_path / "out.parquet").column_names == ["decision"]


def test_empty_lines_at_the_end_are_no_part_and_empty_values_are(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_PART", 4)
    for text, rows in {"s\n1\n2\n\n\n\n\n\n\n\n\n": 2, "s\n1\n \n \n \n \n \n \n": 7}.items():
        (tmp_path / "in.csv").write_text(text)
        service = Decider()
        assert service.model.decide_file(tmp_path / "in.csv", tmp_path / "out.csv")["rows"] == rows
        assert 0 not in service.asked


@pytest.mark.parametrize("damage", ["middle", "end", "start"])
def test_a_damaged_archive_is_named(tmp_path, damage):
    packed = bytearray(gzip.compress(b"x,s\n" + b"1,u\n2,v3q\n" * 500, mtime=0))
    start = {"start": 0, "middle": 20, "end": len(packed) - 20}[damage]
    packed[start : start + 20] = b"" if damage == "end" else b"\xff" * 20
    (tmp_path / "in.csv.gz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"'in.csv.gz' is damaged"):
        Decider().model.decide_file(tmp_path / "in.csv.gz", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_parquet_that_pyarrow_does_not_read_is_named(monkeypatch, tmp_path):
    pd.DataFrame({"x": range(100), "s": "u"}).to_parquet(tmp_path / "in.parquet")

    def read(*_):
        raise pa.ArrowNotImplementedError("lists of structs")

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", read)
    with pytest.raises(ValueError, match=r"'in.parquet' cannot be read: lists of structs"):
        Decider().model.decide_file(tmp_path / "in.parquet", tmp_path / "out.csv")
    (tmp_path / "in.parquet").write_text("PAR1")
    with pytest.raises(ValueError, match=r"'in.parquet' cannot be read"):
        Decider().model.decide_file(tmp_path / "in.parquet", tmp_path / "out.csv")
