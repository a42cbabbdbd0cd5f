"""Tables in requests and answers: CSV as spreadsheets write it, categories of Arrow, what comes back, hostile files."""

import csv
import datetime as dt
import io
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import routes
from app.api.codecs.columns import codes_of
from app.api.codecs.media_types import ARROW, CSV, JSON, NPY, PARQUET
from app.api.codecs.tables import Sheet, TableFields
from app.api.exchange import Exchange
from app.api.memory import VALUE
from app.tables.features import Feature, Schema
from app.tables.text import MISSING
from app.tables.values import plain
from payoff.errors import Invalid
from tests.api.column_bodies import WRITERS, arrow, free, npy, parquet
from tests.conftest import trained, two_class_rows
from tests.messages import without_words

STAKES = {
    "benefits": json.dumps([[0, -1], [-10, 5]]),
    "actions": json.dumps(["wait", "treat"]),
}
DATA = two_class_rows(6)
GIVEN = {"classes": '["healthy", "ill"]', **STAKES}


def post(service, kind, content, accept="application/json", **query):
    headers = {"Content-Type": kind, "Accept": accept}
    return service.post(
        "/predict", params=STAKES | query, content=content, headers=headers
    )


def objects():
    return [
        {"patient": i, "ward": "b", **dict(zip(DATA["features"], row, strict=True))}
        for i, row in enumerate(DATA["rows"])
    ]


def columns():
    return pa.Table.from_pylist(objects())


def errors(answer):
    assert answer.status_code == 422, answer.text
    return [(error["loc"], error["msg"]) for error in answer.json()["errors"]]


def test_ids_come_back_as_they_were_sent_or_as_text_in_columns(service, ward):
    ids, stakes = (
        ["a", 2, "c", 4, "e", 6],
        {name: json.loads(text) for name, text in STAKES.items()},
    )
    plain = {"model": ward, "instances": DATA["rows"], **stakes}
    listed = without_words(service.post("/predict", json=plain | {"ids": ids}))
    assert listed == without_words(service.post("/predict", json=plain)) | {"ids": ids}
    answer = service.post(
        "/predict", json=plain | {"ids": ids}, headers={"Accept": ARROW}
    ).content
    assert pa.ipc.open_stream(answer).read_all()["id"].to_pylist() == list(
        map(str, ids)
    )


def test_an_array_of_numbers_has_no_place_for_ids_and_no_dialect(service, ward):
    body = {
        "probabilities": [[0.5, 0.5]],
        "classes": ["healthy", "ill"],
        "benefits": [[0, -1], [-10, 5]],
        "ids": [1],
    }
    assert (
        errors(service.post("/predict", json=body, headers={"Accept": NPY}))[0][0]
        == "/ids"
    )
    assert errors(post(service, NPY, npy([[0.5, 0.5]]), id="a", **GIVEN))[0][0] == "/id"
    for kind, content, asked in (
        (NPY, npy([[0.5, 0.5]]), GIVEN),
        (ARROW, arrow({"age": [1.0]}), {"model": ward}),
    ):
        assert (
            errors(post(service, kind, content, **asked, delimiter=";"))[0][0]
            == "/delimiter"
        )


def test_a_table_has_instances_of_a_model(service, ward):
    for query, place in ((GIVEN, "/model"), (GIVEN | {"model": ward}, "/classes")):
        assert (
            errors(
                post(service, ARROW, arrow({"ill": [0.25], "healthy": [0.75]}), **query)
            )[0][0]
            == place
        )


def test_a_name_that_the_answer_has_itself_is_refused(service, ward):
    table, asked = ROW | {"decision": "x"}, STAKES | {"model": ward}
    body = arrow({name: [value] for name, value in table.items()})
    assert (
        errors(post(service, ARROW, body, ARROW, keep="decision", **asked))[0][0]
        == "/keep"
    )
    assert errors(post(service, ARROW, body, keep="case", **asked))[0][0] == "/keep"
    assert post(service, ARROW, body, keep="decision", **asked).json()["kept"] == {
        "decision": ["x"]
    }


@pytest.mark.parametrize("value", ["[[0, NaN], [1, 2]]", "[[0, -1], [-10"])
@pytest.mark.parametrize("field", ["benefits", "limits", "actions"])
def test_a_list_or_an_object_in_the_query_that_is_not_json(service, ward, field, value):
    """The other checks would say that it is no list."""
    ((place, message),) = errors(
        post(service, ARROW, arrow(columns()), model=ward, **{field: value})
    )
    assert place == f"/{field}"
    assert message.startswith(f"{field!r} is not JSON: ")
    assert ("send null" in message) == ("N" in value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PAR1" + b"\0" * 1000 + b"PAR1",
        parquet({"age": [1.0, 2.0]})[:-20],
        parquet({"age": [[1.0]], "pulse": [1.0], "pain": ["mild"]}),
        parquet({f"c{i}": [1] for i in range(12_000)}),
    ],
    ids=["empty", "zeros", "cut off", "lists", "columns"],
)
def test_what_is_no_table_of_features_is_refused(service, ward, body):
    answer = post(service, PARQUET, body, model=ward)
    assert answer.status_code in (413, 422), answer.text
    assert not any(
        error["loc"].startswith("/file") for error in answer.json().get("errors", [])
    )


def test_booleans_decimals_and_missing_columns_are_numbers(service, ward):
    table = {
        "age": [True, False],
        "pulse": pa.array([1, None], pa.decimal128(10, 2)),
        "pain": pa.nulls(2),
    }
    plain = post(service, CSV, b"age,pulse,pain\n1,1,\n0,,\n", model=ward)
    assert post(service, ARROW, arrow(table), model=ward).json() == plain.json()
    assert post(service, PARQUET, parquet(table), model=ward).json() == plain.json()


@pytest.fixture(scope="module")
def learned(service):
    """A model of an uploaded table."""

    def learn(model, kind, content, **types):
        query = {"label": "y", "types": json.dumps(types)}
        found = service.post(
            "/datasets", params=query, content=content, headers={"Content-Type": kind}
        )
        assert found.status_code == 201, found.text
        data = {"dataset": found.json()["id"]}
        trained(
            service, {"model": model, "learner": {"kind": "logistic"}, "data": data}
        )
        return found.json()

    return learn


N = 60
WORTHS = {
    "grade": [None if i % 9 == 0 else float(i % 4) for i in range(N)],
    "flag": [i % 3 == 0 for i in range(N)],
    "code": pa.array([i % 5 for i in range(N)]).dictionary_encode(),
    "price": pa.array([Decimal(i % 3) / 2 for i in range(N)], pa.decimal128(6, 2)),
    "day": [dt.date(9999 if i % 2 else 2020, 1, 1 + i % 3) for i in range(N)],
    "at": pa.array(
        [-62_135_596_800 + 43_200 * (i % 2) for i in range(N)], pa.timestamp("s")
    ),
    "y": ["u" if i % 7 < 4 else "v" for i in range(N)],
}


def test_rows_of_the_file_that_trained_are_decided(service, learned):
    """Columns of every type that was ordered to be a category, and as other formats have these."""
    table = pa.table(WORTHS)
    types = dict.fromkeys(("grade", "flag", "code", "price", "day", "at"), "category")
    found = learned("declared", PARQUET, parquet(table), **types)
    assert sorted(found["columns"][3]["examples"]) == ["0", "0.5", "1"]
    assert sorted(found["columns"][5]["examples"]) == [
        "0001-01-01",
        "0001-01-01 12:00:00",
    ]
    rows = table.drop_columns(["y"]).slice(0, 20)
    expected = post(service, PARQUET, parquet(rows), model="declared").json()
    assert not any("never seen" in warning for warning in expected["warnings"])
    assert len({json.dumps(row) for row in expected["probabilities"]}) > 5
    other = rows.set_column(0, "grade", rows["grade"].cast(pa.float32()))
    other = other.set_column(2, "code", rows["code"].cast(pa.int64()).cast(pa.uint8()))
    for body in (arrow(rows), arrow(other)):
        assert post(service, ARROW, body, model="declared").json() == expected
    objects = [
        {**row, "price": float(row["price"]), "day": str(row["day"]), "at": text}
        for row, text in zip(
            rows.to_pylist(), ["0001-01-01", "0001-01-01 12:00:00"] * 10, strict=True
        )
    ]
    body = {"model": "declared", "instances": objects, "benefits": [[0, -1], [-10, 5]]}
    answer = service.post("/predict", json=body | {"actions": ["wait", "treat"]})
    assert answer.json()["probabilities"] == expected["probabilities"]
    text = csv_of([{**row, "flag": str(row["flag"])} for row in objects])
    assert post(service, CSV, text, model="declared").json() == expected


def csv_of(rows):
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


@pytest.mark.parametrize("kind", [CSV, PARQUET])
def test_a_boolean_is_one_value_in_all_formats(service, learned, kind):
    name, flags = f"flags-{kind[-3:]}", [i % 3 == 0 for i in range(N)]
    table = {"flag": flags, "x": [i % 7 + 0.5 for i in range(N)], "y": WORTHS["y"]}
    rows = [
        dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)
    ]
    learned(name, kind, csv_of(rows) if kind == CSV else parquet(table))
    expected = post(service, CSV, b"flag,x\nTrue,1\nFalse,2\n,3\n", model=name).json()
    body = {"flag": pa.array([True, False, None]), "x": [1, 2, 3]}
    for media_type, content in (
        (CSV, b"flag,x\ntrue,1\nFALSE,2\nNA,3\n"),
        (CSV, b"flag,x\n1,1\n0.0,2\n,3\n"),
        (ARROW, arrow(body)),
        (ARROW, arrow(body | {"flag": body["flag"].dictionary_encode()})),
        (ARROW, arrow(body | {"flag": pa.array(["TRUE", "false", None])})),
        (ARROW, arrow(body | {"flag": pa.array([" True\u00a0", "false", ""])})),
        (
            PARQUET,
            parquet(
                body | {"flag": pa.array(["True", "false", " "]).dictionary_encode()}
            ),
        ),
        (PARQUET, parquet(body)),
    ):
        assert post(service, media_type, content, model=name).json() == expected
    wrong = post(service, CSV, b"flag,x\nyes,1\n", model=name)
    assert errors(wrong)[0][0] == "/0/0"
    for flag, status in ((True, 200), ("True", 200), (1, 200), ("yes", 422)):
        request = {"model": name, "rule": "most_probable", "instances": [[flag, 1]]}
        answer = service.post("/predict", json=request)
        assert answer.status_code == status
        if status == 200:
            assert answer.json()["probabilities"] == expected["probabilities"][:1]
    refused = {"model": name, "rule": "most_probable", "instances": [[True, True]]}
    assert errors(service.post("/predict", json=refused))[0][0] == "/instances/0/1"


@pytest.mark.parametrize(
    ("types", "column"),
    [
        ({"a": "date"}, pa.array([True])),
        ({"a": "number:1.234,5"}, pa.array([dt.date(2026, 1, 1)])),
        ({"a": "category"}, pa.array([1.5])),
    ],
    ids=["boolean", "date", "number"],
)
def test_a_column_of_another_type_is_refused(service, learned, types, column):
    words = {"date": "2026-01-0{}", "category": "u{}"}.get(types["a"], '"{},5"')
    rows = "".join(f"{words.format(i % 5 + 1)},{i % 2}\n" for i in range(N))
    learned(f"typed-{types['a'][:4]}", CSV, f"a,y\n{rows}".encode(), **types)
    answer = post(service, ARROW, arrow({"a": column}), model=f"typed-{types['a'][:4]}")
    assert errors(answer)[0][0] == "/a"


@pytest.mark.parametrize("indexed", [False, True])
def test_a_stream_states_no_more_values_than_it_has_bits(service, ward, indexed):
    """Texts of a fixed length of 0, and nulls, take no bytes."""
    count = 200_000
    none = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(0), count, [None, pa.py_buffer(b"")]
    )
    column = (
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), none)
        if indexed
        else none
    )
    body = arrow(pa.table({"pain": column, "age": pa.nulls(len(column))}))
    assert len(body) < 2_000
    answer = post(service, ARROW, body, model=ward)
    assert answer.status_code == 413
    assert "values in" in answer.json()["detail"]


READING = {
    "/predict": {"model": "woods", **STAKES},
    "/retrieve": {"setting": "multilabel", "loss": json.dumps({"name": "f_beta"})},
}
KINDS = [
    (module.route.path, kind)
    for module in routes.modules()
    if hasattr(module, "route")
    and module.route.path != "/outcomes"  # in test_outcomes.py
    for kind in sorted(
        module.route.openapi_extra["requestBody"]["content"].keys() - {JSON}
    )
    if (module.route.path, kind) != ("/predict", NPY)  # the model has words
]


def sent_in(kind):
    """A body with 1,000 rows, and how many numbers it holds."""
    n = 1000
    if kind == NPY:
        return npy(np.full((n, 2), 0.5, np.float16)), 2 * n
    table = {"age": np.ones(n), "pulse": np.ones(n), "pain": ["mild"] * n}
    return WRITERS[kind](table), 2 * n


@pytest.mark.parametrize(("path", "kind"), KINDS)
def test_every_format_is_charged_on_every_route(
    service, forest, monkeypatch, path, kind
):
    """The matrix at least; the body and the answer are counted apart."""
    held: list[int] = []
    charge = Exchange.charge
    monkeypatch.setattr(
        Exchange,
        "charge",
        lambda self, n, each=VALUE: (held.append(n * each), charge(self, n, each))[1],
    )
    body, numbers = sent_in(kind)
    answer = service.post(
        path, params=READING[path], content=body, headers={"Content-Type": kind}
    )
    assert answer.status_code == 200, (kind, answer.text)
    assert sum(held) >= 8 * numbers, kind


ROW = {"age": 50.0, "pulse": 70.0, "pain": "mild"}


@pytest.mark.parametrize(("field", "most"), [("id", 128), ("keep", 1000), (None, 1000)])
@pytest.mark.parametrize("kind", [CSV, ARROW, PARQUET])
def test_what_comes_back_is_measured_in_characters(service, ward, kind, field, most):
    """In every format, not in bytes, of which a character has up to four; so are words of a feature."""
    for length, status in ((most, 200), (most + 1, 422)):
        row = ROW | {"w" if field else "pain": "\U0001f600" * length}
        asked = {field: "w"} if field else {}
        answer = post(
            service,
            kind,
            WRITERS[kind](pa.Table.from_pylist([row])),
            model=ward,
            **asked,
        )
        assert answer.status_code == status, (length, answer.text[:300])


def test_of_a_member_that_is_named_twice_the_last_one_counts(service, ward):
    """As in every JSON service, at any depth, on the way of plain requests and on that of all others."""
    for extra in ("", ', "explain": false'):
        body = '{"model": "no", "model": "%s", "instances": [{"age": 1, "age": 50, "pulse": 70, "pain": "mild"}], %s%s}'
        stakes = '"benefits": [[0, -1], [-10, 5]]'
        twice = service.post(
            "/predict",
            content=body % (ward, stakes, extra),
            headers={"Content-Type": JSON},
        )
        once = {
            "model": ward,
            "instances": [{"age": 50, "pulse": 70, "pain": "mild"}],
            "benefits": [[0, -1], [-10, 5]],
        }
        assert twice.status_code == 200, twice.text
        assert without_words(twice) == without_words(
            service.post("/predict", json=once)
        )


def test_escapes_are_counted_before_they_are_parsed(service):
    """66 MB of them, in any string, held the interpreter for two seconds."""
    body = b'{"model": "' + b"\\u0041" * 1_100_000 + b'"}'
    answer = service.post("/predict", content=body, headers={"Content-Type": JSON})

    assert answer.status_code == 413
    assert "backslashes" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("form", "values", "kind", "status"),
    [(PARQUET, 0, pa.timestamp("us", "Europe/Paris"), 200), (ARROW, 0, pa.timestamp("us", "Foo/Bar"), 422),
     (PARQUET, 2**62, pa.timestamp("s"), 422)],
    ids=["moments", "no such zone", "no such year"],
)  # fmt: skip
def test_moments_come_back_or_are_refused(service, ward, form, values, kind, status):
    sent = arrow(columns().to_pydict() | {"when": pa.array([values] * 6, kind)})
    assert (
        post(
            service, ARROW, sent, form, model=ward, id="patient", keep="ward,when"
        ).status_code
        == status
    )


FEATURES = ["age", "pulse", "pain"]


def written(
    rows, names=FEATURES, delimiter=",", decimal=".", encoding="utf-8"
) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(names)
    writer.writerows(
        [str(cell).replace(".", decimal) if cell is not None else "" for cell in row]
        for row in rows
    )
    return file.getvalue().encode(encoding)


def posted(service, body, accept="application/json", **query):
    headers = {"Content-Type": "text/csv", "Accept": accept}
    return service.post(
        "/predict", params=STAKES | query, content=body, headers=headers
    )


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
    body = {
        "model": ward,
        "instances": rows,
        **{name: json.loads(text) for name, text in STAKES.items()},
    }
    plain = without_words(service.post("/predict", json=body))
    query = {name: value for name, value in dialect.items() if value != "utf-8-sig"}
    answer = posted(service, written(rows, **dialect), model=ward, **query)
    assert answer.status_code == 200, answer.text
    assert without_words(answer) == plain
    turned = written([row[::-1] for row in rows], FEATURES[::-1], **dialect)
    assert without_words(posted(service, turned, model=ward, **query)) == plain


@pytest.mark.parametrize(
    ("body", "query", "loc", "words"),
    [
        (written([[50.5, 70, "mild"]], delimiter=";"), {}, "", "?delimiter=;"),
        (written([[50.5, 70, "mild"]], delimiter="\t"), {}, "", "?delimiter=%09"),
        (
            written([[50.5, 70, "mild"]], delimiter=";", decimal=","),
            {"delimiter": ";"},
            "/age",
            "?decimal=,",
        ),
        (
            written([[50, 70, "mild"], ["old", 70, "mild"]]),
            {},
            "/age",
            "'old' in column 'age' of line 3",
        ),
        (written([[50, 70]], ["age", "pulse"]), {}, "", "feature 'pain' is absent"),
        (
            written([[50, 70, "mild", 1]], [*FEATURES, "pane"]),
            {},
            "/pane",
            "did you mean 'pain'",
        ),
        (written([[50, 70, "mild", 1]], [*FEATURES, "age"]), {}, "/age", "twice"),
        (
            written([[50, 70, "mild", 1, 2, 7]], [*FEATURES, "x", "x", "no"]),
            {"id": "no"},
            "/x",
            "unknown",
        ),
        (
            written([[50, 70, "mild", 1, 2, 7]], [*FEATURES, "x", "x", "no"]),
            {"keep": '["no"]'},
            "/x",
            "unknown",
        ),
        (
            written([[50, 70, "mild", 1, 2]], [*FEATURES, "no", "no"]),
            {"id": "no"},
            "/id",
            "twice",
        ),
        (
            b"age,pulse,pain\n50,70\n",
            {},
            "",
            "row 2: the header has 3 values, this row 2",
        ),
        (b"age,pulse,pain\n", {"delimiter": "x"}, "/delimiter", ""),
    ],
)
def test_mistakes_lead_to_the_fix(service, ward, body, query, loc, words):
    answer = posted(service, body, model=ward, **query)
    assert answer.status_code == 422
    assert any(
        error["loc"] == loc and words in error["msg"]
        for error in answer.json()["errors"]
    ), answer.text


@pytest.mark.parametrize("word", [word for word in MISSING if word])
def test_a_word_for_missing_values_is_a_category_where_the_model_has_it(word):
    schema = Schema(
        [
            Feature("a", "categorical", (word, "x")),
            Feature("b", "categorical", ("x", "y")),
        ]
    )
    body = f"a,b\n{word},{word}\nx,x\n{word},\n,y\n".encode()
    sheet = Sheet("text/csv", body, TableFields(), free)

    rows = sheet.rows(schema)
    np.testing.assert_array_equal(
        rows.X, [[0, np.nan], [1, 0], [0, np.nan], [np.nan, 1]]
    )
    assert not rows.warnings


def test_ids_come_back_as_they_were_sent(service, ward):
    """Also those that would be a missing value in a feature, and the signs of Windows."""
    rows = [[name, 50, 70, "mild"] for name in ("NA", "null", "5€x", "")]
    body = written(rows, ["patient", *FEATURES], encoding="cp1252")
    answer = posted(service, body, model=ward, id="patient", encoding="latin-1").json()
    assert answer["ids"] == ["NA", "null", "5€x", None]


SCHEMA = Schema([Feature("n", "numeric"), Feature("w", "categorical", ("a", "b", "é"))])
WORD = st.sampled_from([None, "", "a", "b", "é", "c", "never seen", "a\0b", "\x01"])


def _plain(column):
    return plain(pa.table({"w": column}), column.nbytes, free)["w"]


def _told(read):
    """Codes, warnings and the flaws' places."""
    try:
        codes, warnings = read()
    except Invalid as error:
        return None, None, [(flaw.loc, flaw.msg) for flaw in error.flaws]
    return codes.tolist(), warnings, []


def _encoded(words):
    X, warnings = SCHEMA.encode([[0.0, word] for word in words])
    return X[:, 1], warnings


@given(
    st.lists(st.lists(WORD, max_size=6), max_size=4),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
    st.sampled_from([None, pa.int8(), pa.uint64()]),
)
def test_the_same_as_encoded_from_json(chunks, kind, index):
    arrays = [
        pa.array(words, kind if index is None else pa.string()) for words in chunks
    ]
    if index is not None:
        arrays = [
            array.dictionary_encode().cast(pa.dictionary(index, pa.string()))
            for array in arrays
        ]
        arrays = [
            pa.DictionaryArray.from_arrays(each.indices, each.dictionary.cast(kind))
            for each in arrays
        ]
    column = pa.chunked_array(
        arrays, kind if index is None else pa.dictionary(index, kind)
    )
    found = _told(lambda: codes_of(_plain(column), SCHEMA, 1))
    expected = _told(lambda: _encoded([word for words in chunks for word in words]))
    if expected[2]:  # a chunk is refused as soon as it is read
        assert found[2] == expected[2][: len(found[2])]
        assert found[2]
    else:
        np.testing.assert_equal(found, expected)


def test_nulls_of_a_dictionary_and_of_its_codes_are_missing():
    words = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 2], pa.int8()), pa.array(["b", None, "z"])
    )
    codes, warnings = codes_of(_plain(pa.chunked_array([words])), SCHEMA, 1)

    np.testing.assert_array_equal(codes, [1, np.nan, np.nan, np.nan, np.nan])
    assert warnings == [SCHEMA.unseen(1, [3, 4], 2, 5, "z")]
