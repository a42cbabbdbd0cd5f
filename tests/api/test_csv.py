"""CSV goes in and comes out as spreadsheets write it, and its mistakes lead to the fix."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.conftest import two_class_rows

STAKES = {"benefits": json.dumps([[0, -1], [-10, 5]]), "actions": json.dumps(["wait", "treat"])}
FEATURES = ["age", "pulse", "pain"]


def written(rows, names=FEATURES, delimiter=",", decimal=".", encoding="utf-8") -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(names)
    writer.writerows([str(cell).replace(".", decimal) if cell is not None else "" for cell in row] for row in rows)
    return file.getvalue().encode(encoding)


def post(service, body, accept="application/json", **query):
    headers = {"Content-Type": "text/csv", "Accept": accept}
    return service.post("/predict", params=STAKES | query, content=body, headers=headers)


@pytest.mark.parametrize(
    "dialect",
    [
        {},
        {"delimiter": ";"},
        {"delimiter": "\t"},
        {"delimiter": ";", "decimal": ","},
        {"encoding": "utf-16"},
        {"encoding": "latin-1"},
        {"encoding": "utf-8-sig"},
    ],
)
def test_csv_is_answered_as_json_is(service, ward, dialect):
    rows = two_class_rows(20)["rows"]
    rows[3][0] = rows[4][2] = None
    body = {"model": ward, "instances": rows, **{name: json.loads(text) for name, text in STAKES.items()}}
    plain = service.post("/predict", json=body).json()
    query = {name: value for name, value in dialect.items() if value != "utf-8-sig"}
    answer = post(service, written(rows, **dialect), model=ward, **query)
    assert answer.status_code == 200, answer.text
    assert answer.json() == plain
    turned = written([row[::-1] for row in rows], FEATURES[::-1], **dialect)
    assert post(service, turned, model=ward, **query).json() == plain


def test_an_answer_in_csv_has_the_columns_by_name(service, ward):
    rows = two_class_rows(20)["rows"]
    plain = post(service, written(rows), model=ward).json()
    answer = post(service, written(rows), "text/csv", model=ward)
    assert answer.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(table[0]) == ["decision", "p:healthy", "p:ill", "benefit:wait", "benefit:treat"]
    assert [row["decision"] for row in table] == plain["decisions"]
    assert [[float(row["p:healthy"]), float(row["p:ill"])] for row in table] == plain["probabilities"]
    assert json.loads(answer.headers["payoff-answer"])["model"] == plain["model"]


def test_probabilities_come_as_csv_too(service):
    answer = post(service, b"ill,healthy\n0.25,0.75\n0.01,0.99\n", classes='["healthy", "ill"]')
    assert answer.json()["probabilities"] == [[0.75, 0.25], [0.99, 0.01]]
    assert answer.json()["decisions"] == ["treat", "wait"]


@pytest.mark.parametrize(
    ("body", "query", "loc", "words"),
    [
        (written([[50.5, 70, "mild"]], delimiter=";"), {}, "/delimiter", "?delimiter=;"),
        (written([[50.5, 70, "mild"]], delimiter="\t"), {}, "/delimiter", "?delimiter=%09"),
        (written([[50.5, 70, "mild"]], delimiter=";", decimal=","), {"delimiter": ";"}, "/age", "?decimal=,"),
        (written([[50.5, 70, "m\u00fcd"]], encoding="latin-1"), {}, "/encoding", "?encoding=latin-1"),
        (written([[50.5, 70, "mild"]], encoding="utf-16"), {}, "/encoding", "?encoding=utf-16"),
        (written([[50, 70, "mild"], ["old", 70, "mild"]]), {}, "/age", "'old' in column 'age' of line 3"),
        (written([[50, 70]], ["age", "pulse"]), {}, "", "feature 'pain' is missing"),
        (written([[50, 70, "mild", 1]], [*FEATURES, "pane"]), {}, "/pane", "did you mean 'pain'"),
        (written([[50, 70, "mild", 1]], [*FEATURES, "age"]), {}, "/age", "twice"),
        (b"age,pulse,pain\n50,70\n", {}, "", "not a CSV file"),
        (b"", {}, "", "not a CSV file"),
        (b"age,pulse,pain\n", {"delimiter": "x"}, "/delimiter", ""),
    ],
)
def test_mistakes_lead_to_the_fix(service, ward, body, query, loc, words):
    answer = post(service, body, model=ward, **query)
    assert answer.status_code == 422
    assert any(error["loc"] == loc and words in error["msg"] for error in answer.json()["errors"]), answer.text
