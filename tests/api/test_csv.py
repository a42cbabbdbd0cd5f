"""CSV goes in and comes out as spreadsheets write it, and its mistakes lead to the fix."""

import csv
import io
import json

import numpy as np
import pytest

from app.api.codecs.tables import Sheet, TableFields
from app.features import Feature, Schema
from app.text import MISSING
from tests.api.column_bodies import free
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


@pytest.mark.parametrize(
    ("body", "query", "loc", "words"),
    [
        (written([[50.5, 70, "mild"]], delimiter=";"), {}, "", "?delimiter=;"),
        (written([[50.5, 70, "mild"]], delimiter="\t"), {}, "", "?delimiter=%09"),
        (written([[50.5, 70, "mild"]], delimiter=";", decimal=","), {"delimiter": ";"}, "/age", "?decimal=,"),
        (written([[50, 70, "mild"], ["old", 70, "mild"]]), {}, "/age", "'old' in column 'age' of line 3"),
        (written([[50, 70]], ["age", "pulse"]), {}, "", "feature 'pain' is absent"),
        (written([[50, 70, "mild", 1]], [*FEATURES, "pane"]), {}, "/pane", "did you mean 'pain'"),
        (written([[50, 70, "mild", 1]], [*FEATURES, "age"]), {}, "/age", "twice"),
        (written([[50, 70, "mild", 1, 2, 7]], [*FEATURES, "x", "x", "no"]), {"id": "no"}, "/x", "unknown"),
        (written([[50, 70, "mild", 1, 2, 7]], [*FEATURES, "x", "x", "no"]), {"keep": '["no"]'}, "/x", "unknown"),
        (written([[50, 70, "mild", 1, 2]], [*FEATURES, "no", "no"]), {"id": "no"}, "/id", "twice"),
        (b"age,pulse,pain\n50,70\n", {}, "", "row 2: the header has 3 values, this row 2"),
        (b"age,pulse,pain\n", {"delimiter": "x"}, "/delimiter", ""),
    ],
)
def test_mistakes_lead_to_the_fix(service, ward, body, query, loc, words):
    answer = post(service, body, model=ward, **query)
    assert answer.status_code == 422
    assert any(error["loc"] == loc and words in error["msg"] for error in answer.json()["errors"]), answer.text


@pytest.mark.parametrize("word", [word for word in MISSING if word])
def test_a_word_for_missing_values_is_a_category_where_the_model_has_it(word):
    schema = Schema([Feature("a", "categorical", (word, "x")), Feature("b", "categorical", ("x", "y"))])
    body = f"a,b\n{word},{word}\nx,x\n{word},\n,y\n".encode()
    sheet = Sheet("text/csv", body, TableFields(), free)

    (X, warnings, *_), _ = sheet.rows(schema)
    np.testing.assert_array_equal(X, [[0, np.nan], [1, 0], [0, np.nan], [np.nan, 1]])
    assert not warnings


def test_ids_come_back_as_they_were_sent(service, ward):
    """Also those that would be a missing value in a feature, and the signs of Windows."""
    rows = [[name, 50, 70, "mild"] for name in ("NA", "null", "5€x", "")]
    body = written(rows, ["patient", *FEATURES], encoding="cp1252")
    answer = post(service, body, model=ward, id="patient", encoding="latin-1").json()
    assert answer["ids"] == ["NA", "null", "5€x", None]
