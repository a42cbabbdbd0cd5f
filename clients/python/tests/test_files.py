"""Files as requests: cut where rows end, once where all rows belong together; outcomes as they
are.
"""

import gzip
import io
import json
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payoff_client import Payoff, files
from pyarrow import parquet

FEATURES = [
    {"name": "x", "type": "numeric"},
    {"name": "s", "type": "categorical", "categories": ["u"]},
]
CARD = {"name": "m", "version": 1, "classes": ["a", "b"], "features": FEATURES}
TOGETHER = [
    {"limits": {"t": 100}},
    {"resources": [{"name": "beds", "at_most": 100, "use": {"t": 1}}]},
]


def rows_read(text: bytes, delimiter=",") -> list[list[str]]:
    """The rows as the service reads them; pa.ArrowInvalid where it does not."""
    options = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    as_text = arrow_csv.ConvertOptions(default_column_type=pa.string())
    unnamed = arrow_csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
    table = arrow_csv.read_csv(io.BytesIO(text), unnamed, options, as_text)
    return [
        list(row)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ][1:]


class Service:
    """Decides each row of a table as it reads it, takes outcomes, and keeps how many there were,
    and the parameters.
    """

    def __init__(self):
        self.asked, self.taken, self.params = [], [], []
        self.client = Payoff(
            "http://service", transport=httpx.MockTransport(self), progress=False
        )
        self.model = self.client.model("m:1")

    def __call__(self, request):
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        body = request.read()
        self.params.append(dict(request.url.params))
        if "arrow" in request.headers["Content-Type"]:
            table = pa.ipc.open_stream(body).read_all()
            rows = [list(row.values()) for row in table.to_pylist()]
        else:
            rows = rows_read(body, self.params[-1].get("delimiter", ","))
        self.asked.append(len(rows))
        self.taken += rows
        if request.url.path == "/outcomes":
            counts = {
                "accepted": len(rows),
                "unchanged": 0,
                "open": 1,
                "unknown": ["x"],
                "conflicts": [],
            }
            return httpx.Response(200, json=counts)
        answer = {"Payoff-Answer": json.dumps({"warnings": []})}
        if "arrow" not in request.headers["Accept"]:
            return httpx.Response(
                200,
                text='"note","decision"\n' + '"a\nb","t"\n' * len(rows),
                headers=answer,
            )
        decided = pa.table({"decision": ["t"] * len(rows)})
        sink = io.BytesIO()
        with pa.ipc.new_stream(
            sink, decided.schema.with_metadata({"payoff": '{"warnings": []}'})
        ) as writer:
            writer.write_table(decided)
        return httpx.Response(200, content=sink.getvalue())


def write(path: Path, rows: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        rows.to_parquet(path, row_group_size=250)
    else:
        rows.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("options", TOGETHER, ids=str)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_that_are_decided_together_are_one_request(
    monkeypatch, tmp_path, suffix, options
):
    """A reader of Parquet has a batch for each group of rows where a column has a dictionary."""
    monkeypatch.setattr("payoff_client.model.PART_SIZE", 300)
    rows = pd.DataFrame({"x": range(1000), "s": pd.Categorical(["u", "v"] * 500)})
    source = write(tmp_path / f"in.{suffix}", rows)
    service = Service()
    report = service.model.decide_file(source, tmp_path / "out.csv", **options)
    assert (service.asked, report["rows"]) == ([1000], 1000)
    service.model.decide_file(source, tmp_path / "out.csv")
    assert len(service.asked) > 4
    assert sum(service.asked) == 2000


PIECES = st.lists(
    st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", "b", '5" ', '"x,\ny"', ";"]),
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES.map("".join), st.integers(1, 30), st.sampled_from([",", ";"]))
def test_parts_of_a_file_have_the_rows_of_the_whole(tmp_path, text, size, delimiter):
    """A quotation mark opens a value at its start alone, as the service reads it."""
    text = f'p{delimiter}"q\n""r"\n{text}'
    try:
        whole = rows_read(text.encode(), delimiter)
    except pa.ArrowInvalid:
        return
    (tmp_path / "in.csv").write_text(text, newline="")
    try:
        with files.opened(tmp_path / "in.csv", {"delimiter": delimiter}, size) as (
            _,
            names,
            parts,
        ):
            found = list(parts)
    except (
        ValueError
    ):  # a quotation mark is not closed, or a carriage return stands alone
        assert text.count('"') % 2 or "\r" in text
        return
    assert names == ["p", 'q\n"r']
    assert [
        row for part in found for row in rows_read(part.content, delimiter)
    ] == whole
    assert sum(part.rows for part in found) == len(whole)


@pytest.mark.parametrize(
    "text", ['5" pipe,1,u\nb,2,u\n3" x,1,u\n', '"a\nb",1,u\n\nc,1,u\n\nd,1,u\n\n']
)
@pytest.mark.parametrize("lead", ["", "\ufeff", "\n\n", "\ufeff\r\n"])
@pytest.mark.parametrize("size", [20, 1000])
def test_rows_are_counted_as_they_are_decided(monkeypatch, tmp_path, lead, text, size):
    monkeypatch.setattr("payoff_client.model.PART_SIZE", size)
    (tmp_path / "in.csv").write_text(
        f"{lead}size,x,s\n{text}", encoding="utf-8", newline=""
    )
    service = Service()
    assert (
        service.model.decide_file(tmp_path / "in.csv", tmp_path / "out.csv")["rows"]
        == sum(service.asked)
        == 3
    )
    assert len(rows_read((tmp_path / "out.csv").read_bytes())) == 3


def test_a_file_without_rows_is_sent_too(tmp_path):
    """Parquet so has the columns of the answer; an empty file is refused by the service."""
    table = pa.table({"x": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
    parquet.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "in.csv").write_text("x,s\n")
    for source in ("in.parquet", "in.csv"):
        service = Service()
        report = service.model.decide_file(tmp_path / source, tmp_path / "out.parquet")
        assert (report["rows"], service.asked) == (0, [0])
        assert parquet.read_table(tmp_path / "out.parquet").column_names == ["decision"]


def test_empty_lines_at_the_end_are_no_part_and_empty_values_are(monkeypatch, tmp_path):
    monkeypatch.setattr("payoff_client.model.PART_SIZE", 2)
    for text, rows in {
        "s\n1\n2\n\n\n\n\n\n\n\n\n": 2,
        "s\n1\n \n \n \n \n \n \n": 7,
    }.items():
        (tmp_path / "in.csv").write_text(text)
        service = Service()
        assert (
            service.model.decide_file(tmp_path / "in.csv", tmp_path / "out.csv")["rows"]
            == rows
        )
        assert 0 not in service.asked


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("first", ["", "sep=;\n", '"sep=;"\n', "\ufeffsep=;\n"])
def test_a_file_of_a_spreadsheet_is_cut_where_its_rows_end(tmp_path, end, first):
    """Whatever ends its lines, and where its first line names the delimiter; each part begins as
    the file does.
    """
    text = f"{first}x;s\n1;u\n2;v\n3;u\n".replace("\n", end)
    (tmp_path / "in.csv").write_text(text, encoding="utf-8", newline="")
    written = {} if first else {"delimiter": ";"}
    with files.opened(tmp_path / "in.csv", written, 1) as (_, names, parts):
        found = list(parts)
    assert (names, [part.rows for part in found]) == (["x", "s"], [1, 1, 1])
    head = f"{first}x;s\n".replace("\n", end).removeprefix("\ufeff")
    assert found[1].content.decode() == f"{head}2;v{end}"


@pytest.mark.parametrize("damage", ["middle", "end", "start"])
def test_a_damaged_archive_is_named(tmp_path, damage):
    packed = bytearray(gzip.compress(b"x,s\n" + b"1,u\n2,v3q\n" * 500, mtime=0))
    start = {"start": 0, "middle": 20, "end": len(packed) - 20}[damage]
    packed[start : start + 20] = b"" if damage == "end" else b"\xff" * 20
    (tmp_path / "in.csv.gz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"'in.csv.gz' cannot be read"):
        Service().model.decide_file(tmp_path / "in.csv.gz", tmp_path / "out.csv")
    (tmp_path / "in.parquet").write_text("PAR1")
    with pytest.raises(ValueError, match=r"'in.parquet' cannot be read"):
        Service().model.decide_file(tmp_path / "in.parquet", tmp_path / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.csv.gz",
        "in.parquet",
    ]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_outcomes_are_sent_in_parts(monkeypatch, tmp_path, suffix):
    monkeypatch.setattr(files, "OUTCOMES_SIZE", 100)
    truths = ["ill", "N", "a\u2028b", "NA"] * 10
    path = write(
        tmp_path / f"outcomes.{suffix}",
        pd.DataFrame({"id": [f"visit {i}" for i in range(40)], "truth": truths}),
    )
    service = Service()
    counts = service.client.send_outcomes(str(path), correct=True)
    parts = len(service.asked)
    assert parts > 2
    assert counts == {
        "accepted": 40,
        "unchanged": 0,
        "open": parts,
        "unknown": ["x"] * parts,
        "conflicts": [],
    }
    assert [row[1] for row in service.taken] == truths
    assert {params["correct"] for params in service.params} == {"true"}


def test_a_dialect_is_the_service_s_to_read_but_for_the_encoding(tmp_path):
    (tmp_path / "outcomes.csv").write_bytes(
        " id; truth;benefit\nNA;é;1,5\n".encode("latin-1")
    )
    service = Service()
    service.client.send_outcomes(
        tmp_path / "outcomes.csv", delimiter=";", decimal=",", encoding="latin-1"
    )
    assert service.taken == [["NA", "é", "1,5"]]
    assert service.params == [{"correct": "false", "delimiter": ";", "decimal": ","}]
    with pytest.raises(ValueError, match="encoding is 'klingon'; must be one of utf-8"):
        service.client.send_outcomes(tmp_path / "outcomes.csv", encoding="klingon")
    with pytest.raises(ValueError, match=r"'outcomes.csv' cannot be read as utf-8"):
        service.client.send_outcomes(tmp_path / "outcomes.csv")


def test_integers_beside_missing_values_are_sent_as_integers():
    sent = []

    def answer(request):
        sent.extend(json.loads(request.read())["outcomes"])
        return httpx.Response(
            200,
            json={
                "accepted": 1,
                "unchanged": 0,
                "open": 0,
                "unknown": [],
                "conflicts": [],
            },
        )

    frame = pd.DataFrame(
        {
            "id": [7.0, 8.0],
            "truth": [1.0, None],
            "action": [0, 2.5],
            "benefit": [2.0, None],
        }
    )
    Payoff("http://service", transport=httpx.MockTransport(answer)).send_outcomes(frame)
    assert sent == [
        {"id": 7, "truth": 1, "action": 0, "benefit": 2.0},
        {"id": 8, "truth": None, "action": 2.5},
    ]
    assert [type(sent[0][name]) for name in ("id", "truth", "benefit")] == [
        int,
        int,
        float,
    ]
