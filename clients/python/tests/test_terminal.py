"""What the command line reads is what the service reads; what it has to say it says."""

from __future__ import annotations

import gzip
import json
import math

import httpx
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payoff_client import Payoff, commands
from payoff_client.dialect import MISSING, Dialect
from payoff_client.terminal import Unusable, cases_of, probabilities_of

from app import numbers_in_text
from app.api.codecs.csv import table_of_csv
from app.data import dialect as service_dialect
from app.errors import Invalid
from tests.client_answers import VALID, of_path

CARD = {
    "name": "m",
    "version": 1,
    "classes": ["a", "b"],
    "features": [{"name": "x", "type": "numeric"}, {"name": "s", "type": "categorical", "categories": ["NA", "u"]}],
}
CELLS = st.sampled_from(
    ["1", "-2.5", " 3 ", "4e2", "1_0", "inf", "nan", "NA", "N/A", "None", "?", "", "1,5", "u", "é", '"u"', '" a""b "'],
) | st.sampled_from(
    ['5" x', "0x1", "1.", ".5", "u\u2028v", '"a\nb"', "++1", "1 0", "Infinity", "null", "NULL", "\u0661", "+1", "1e999"]
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["x{}s", "x{} s ", "s{}y{} x", '"x"{}"s"', "y{}x", "x{}x", "s{}y{}y", "\n\nx{}s"]),
    st.lists(st.lists(CELLS, min_size=2, max_size=3), max_size=4),
    st.sampled_from([",", ";"]),
    st.sampled_from([".", ","]),
    st.sampled_from(["utf-8", "utf-16"]),
    st.booleans(),
)
def test_cases_are_read_as_the_service_reads_them(tmp_path, header, rows, delimiter, decimal, encoding, packed):
    text = "\n".join([header.replace("{}", delimiter), *(delimiter.join(row) for row in rows), ""]).encode(encoding)
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    words = {"s": ["NA", "u"]}
    try:
        sheet = table_of_csv(text, {"x"}, service_dialect.Dialect(delimiter, decimal, encoding), lambda _: None, words)
        sheet = sheet.select([name for name in ("x", "s") if name in sheet.column_names])
    except (Invalid, KeyError):
        sheet = None
    try:
        found = cases_of(str(path), CARD, Dialect(delimiter, decimal, encoding))
    except (Unusable, ValueError):
        assert sheet is None or math.inf in sheet.column("x").to_pylist()
        return
    if sheet is not None:
        assert found == sheet.to_pylist()


def test_words_for_missing_values_are_those_of_the_service():
    assert frozenset(numbers_in_text.MISSING) == MISSING


def test_parquet_has_its_own_missing_values(tmp_path):
    rows = [{"x": 1, "s": "None", "other": 3}, {"x": None, "s": "u\u2028v"}, {"s": "NA"}]
    expected = [{"x": 1, "s": "None"}, {"x": None, "s": "u\u2028v"}, {"x": None, "s": "NA"}]
    pd.DataFrame(rows).astype({"x": "Int64"}).to_parquet(tmp_path / "in.parquet")
    assert cases_of(str(tmp_path / "in.parquet"), CARD) == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("p\n0.5\n.25\n", {}, [0.5, 0.25]),
        ("0.5\n0.25\n", {}, [0.5, 0.25]),
        ("p;q\n 0,5 ;1\n", {"delimiter": ";", "decimal": ","}, [[0.5, 1.0]]),
        ("0.5\n0,25\n", {"decimal": ",", "delimiter": ";"}, "'0.5' is not a number"),
        ("p\n1_0\n", {}, "'1_0' is not a number"),
        ("p\nnan\n", {}, "'nan' is not a number"),
        ("p\ninf\n", {}, "'inf' is not a number"),
        ("p\n0.5\n\xff", {}, None),
    ],
)
def test_probabilities_are_numbers_in_the_dialect(tmp_path, text, options, expected):
    path = tmp_path / "p.csv"
    path.write_bytes(text.encode("latin-1"))
    if isinstance(expected, list):
        assert probabilities_of(str(path), Dialect(**options)) == expected
    else:
        with pytest.raises(Unusable, match=expected or "cannot be read"):
            probabilities_of(str(path), Dialect(**options))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command against a service that adds a warning to all its answers; returns code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text("age,pain\n1,none\n")
    (tmp_path / "p.csv").write_text("0.5\n")
    (tmp_path / "benefits.json").write_text(json.dumps({"a": {"x": 1}, "b": {"x": 0}}))
    sent = []

    def answer(request):
        request.read()
        sent.append(request)
        warned = {"warnings": ["send ?decimal=,"]}
        documents = {path: {**each, **warned} for path, each in VALID.items()}
        documents["/acquire"] = {"status": "decided", "prediction": "a", "spent": 2, **warned}
        documents["/job_1"] = documents["/compare"] = {**VALID["/job_1"], "result": {"table": [{}], **warned}}
        documents["/from-outcomes"] = {**VALID["/from-outcomes"], "from": warned}
        documents["/best"] = warned
        if request.url.path == "/acquire" and "age" not in json.loads(request.content)["known"]:
            documents["/acquire"] = {"status": "acquire", "next": {"feature": "age", "cost": 1}}
        return of_path(documents | {"header": documents["/predict"]}, request)

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(commands, "Payoff", lambda url, **given: Payoff(url, **given, transport=transport))

    def run(*arguments):
        code = commands.main(arguments)
        return code, *capsys.readouterr(), sent

    return run


WARNED = [
    "predict m:1 cases.csv",
    "predict m:1 cases.csv --out out.csv",
    "predict m:1 cases.csv --json",
    "retrieve p.csv",
    "retrieve cases.csv --model m:1",
    "acquire m:1 --known age=1",
    "compare cases.csv --label pain --learner tree --benefits benefits.json",
    "train ds_1 --name m",
    "models m:1",
    "models m --alias best=1",
    "outcomes m",
    "outcomes m --dataset known",
]


@pytest.mark.parametrize("line", WARNED)
def test_warnings_of_an_answer_are_printed_in_the_words_of_a_shell(run, line):
    code, output, errors, _ = run(*line.split())
    assert code == 0, errors
    assert "warning: use --decimal ','\n" in errors
    assert "warning: " not in output


@pytest.mark.parametrize("answer", ["inf", "nan", "1_0", "1e999", "old", "--"])
def test_an_answer_that_is_no_number_is_asked_for_again(run, monkeypatch, answer):
    answers = ["63", answer]
    monkeypatch.setattr("builtins.input", answers.pop)
    code, _, errors, sent = run("acquire", "m:1")
    assert (code, answers) == (0, [])
    assert f"'age' takes a number, not '{answer}'" in errors
    assert json.loads(sent[-1].content)["known"] == {"age": 63.0}


def test_a_known_value_needs_its_feature(run):
    """Without a value it cannot be had, as an empty answer."""
    assert run("acquire", "m:1", "--known", "age=", "--known", "pain=")[0] == 0
    assert json.loads(run("acquire", "m:1", "--known", "age=")[3][-1].content)["known"] == {"age": None}
    code, _, errors, _ = run("acquire", "m:1", "--known", "age")
    assert code == 2
    assert "--known takes FEATURE=VALUE, not 'age'" in errors


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("predict m:1 cases.csv --benefits stakes.json", "limit"),
        ("predict m:1 cases.csv --benefits stakes.json", "feature_costs"),
        ("acquire m:1 --benefits stakes.json", "limits"),
        ("train ds_1 --name m --benefits stakes.json", "limits"),
        ("compare ds_1 --learner tree --benefits stakes.json", "feature_costs"),
        ("models m --matrix autumn=stakes.json", "limits"),
    ],
)
def test_a_field_without_effect_is_named_before_anything_is_decided(run, tmp_path, line, name):
    """A misspelt one was taken for a class."""
    (tmp_path / "stakes.json").write_text(json.dumps({"benefits": {"a": {"x": 1}}, name: {"x": 1}}))
    code, output, errors, sent = run(*line.split())
    assert (code, output) == (2, "")
    assert f"stakes.json: '{name}' has no effect here; the fields are benefits, cost_matrix, actions" in errors
    assert [request for request in sent if request.method != "GET"] == []


def test_a_file_of_fields_or_of_a_matrix_is_used(run, tmp_path):
    for document in ({"benefits": {"a": {"x": 1}}}, {"a": {"x": 1}}):
        (tmp_path / "stakes.json").write_text(json.dumps(document))
        assert run("models", "m", "--matrix", "autumn=stakes.json")[0] == 0
        assert json.loads(run("acquire", "m:1", "--known", "age=1", "--benefits", "stakes.json")[3][-1].content)[
            "benefits"
        ] == {"a": {"x": 1}}


def test_line_breaks_in_values_are_printed_as_they_are(run, monkeypatch):
    text = 'note,decision\n"a\r\nb","t"\n"c\rd","t"\n'
    answer = httpx.Response(200, content=text.encode(), headers={"Payoff-Answer": json.dumps({"warnings": []})})
    card = httpx.Response(200, json=CARD)
    transport = httpx.MockTransport(lambda request: card if request.method == "GET" else answer)
    monkeypatch.setattr(commands, "Payoff", lambda url, **given: Payoff(url, **given, transport=transport))
    assert run("predict", "m:1", "cases.csv")[:2] == (0, text)
