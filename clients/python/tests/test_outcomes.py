"""Files of outcomes go to the service as they are, which reads them."""

from __future__ import annotations

import gzip
import json

import httpx
import pandas as pd
import pytest
from payoff_client import Invalid, Payoff, outcomes

from app.api.bodies.outcome_bodies import OutcomesTable
from app.errors import Invalid as Refused

IDS = [f"visit {i}" for i in range(40)]


class Taker:
    """Takes outcomes in as the service reads them."""

    def __init__(self):
        self.taken, self.asked = [], []
        self.client = Payoff("http://service", transport=httpx.MockTransport(self), progress=False)

    def __call__(self, request):
        body, kind = request.read(), request.headers["Content-Type"]
        assert len(body) < 400 or "arrow" in kind
        asked = {name: value for name, value in request.url.params.items() if name != "correct"}
        self.asked.append(dict(request.url.params))
        try:
            sent = list(OutcomesTable(**asked).columns(kind, body, lambda _: None))
        except Refused as error:
            flaws = [{"loc": flaw.loc, "msg": flaw.msg} for flaw in error.flaws]
            return httpx.Response(422, json={"title": "Invalid", "detail": error.detail, "errors": flaws})
        self.taken += sent
        known = sum(row[1] is not None for row in sent)
        counts = {"accepted": known, "unchanged": 0, "open": len(sent) - known, "unknown": [], "conflicts": []}
        return httpx.Response(200, json=counts)


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch):
    monkeypatch.setattr(outcomes, "_PART", 200)


def written(folder, suffix, rows: pd.DataFrame):
    path = folder / f"outcomes.{suffix}"
    if suffix == "parquet":
        rows.to_parquet(path)
    else:
        text = rows.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_file_is_sent_in_parts(tmp_path, suffix):
    truths = ["ill", "N", "a\u2028b", None] * 10
    service = Taker()
    path = written(tmp_path, suffix, pd.DataFrame({"id": IDS, "truth": truths, "benefit": [0.1, None] * 20}))
    counts = service.client.send_outcomes(str(path), correct=True)
    assert counts == {"accepted": 30, "unchanged": 0, "open": 10, "unknown": [], "conflicts": []}
    expected = list(zip(IDS, truths, [None] * 40, [0.1, None] * 20, [None] * 40, strict=True))
    assert service.taken == expected
    assert len(service.asked) > 2
    assert {asked["correct"] for asked in service.asked} == {"true"}


def test_words_are_values_where_the_service_takes_them_so(tmp_path):
    """In Parquet, `NA` is a class as any other; of CSV the service knows whether the model has such a class."""
    path = tmp_path / "outcomes.parquet"
    pd.DataFrame({"id": ["a", "b"], "truth": ["NA", "None"]}).to_parquet(path)
    service = Taker()
    service.client.send_outcomes(path)
    assert [row[1] for row in service.taken] == ["NA", "None"]
    (tmp_path / "outcomes.csv").write_bytes(" id; truth;benefit\nNA;é;1,5\n".encode("latin-1"))
    service.client.send_outcomes(tmp_path / "outcomes.csv", delimiter=";", decimal=",", encoding="latin-1")
    assert service.taken[-1][:4] == ("NA", "é", None, 1.5)


@pytest.mark.parametrize(
    ("suffix", "column", "value", "place"),
    [
        ("csv", "benefit", "1_0", "row 33, column 'benefit'"),
        ("csv", "at", "soon", "row 33, column 'at'"),
        ("parquet", "at", "soon", "row 33, column 'at'"),
        ("parquet", "id", None, "row 33, column 'id'"),
    ],
)
def test_what_is_wrong_is_named_by_its_row_in_the_file(tmp_path, suffix, column, value, place):
    rows = pd.DataFrame({"id": IDS, "truth": "ill", column: IDS if column == "id" else None}).astype(object)
    rows.loc[33, column] = value
    with pytest.raises(Invalid, match=place):
        Taker().client.send_outcomes(written(tmp_path, suffix, rows))


@pytest.mark.parametrize("text", ["id,truth,thruth\na,b,c\n", "id\na\n", "id,truth,truth\na,b,c\n", "id,truth\n", ""])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "outcomes.csv").write_text(text)
    with pytest.raises(Invalid):
        Taker().client.send_outcomes(tmp_path / "outcomes.csv")
    with pytest.raises(ValueError, match="decimal is for CSV files"):
        Taker().client.send_outcomes([{"id": "a", "truth": "b"}], decimal=",")


def test_integers_beside_missing_values_are_sent_as_integers():
    sent = []

    def answer(request):
        sent.extend(json.loads(request.read())["outcomes"])
        return httpx.Response(200, json={"accepted": 1, "unchanged": 0, "open": 0, "unknown": [], "conflicts": []})

    frame = pd.DataFrame({"id": [7.0, 8.0], "truth": [1.0, None], "action": [0, 2.5], "benefit": [2.0, None]})
    Payoff("http://service", transport=httpx.MockTransport(answer)).send_outcomes(frame)
    assert sent == [{"id": 7, "truth": 1, "action": 0, "benefit": 2.0}, {"id": 8, "truth": None, "action": 2.5}]
    assert [type(sent[0][name]) for name in ("id", "truth", "benefit")] == [int, int, float]
