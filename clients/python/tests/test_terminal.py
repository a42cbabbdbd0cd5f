"""What the command line reads is what the service reads; what it has to say it says."""

from __future__ import annotations

import argparse
import gzip
import json

import httpx
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payoff_client import terminal
from payoff_client.terminal import cases_of, probabilities_of

from tests.client_answers import VALID, of_path
from tests.conftest import trained

FEATURES = [{"name": "x", "type": "numeric"}, {"name": "s", "type": "categorical", "categories": ["NA", "u"]}]
CARD = {"name": "m", "version": 1, "classes": ["a", "b"], "features": FEATURES}
CELLS = st.sampled_from(
    ["1", "-2.5", " 3 ", "4e2", "1_0", "inf", "nan", "NA", "N/A", "None", "?", "", "1,5", "u", "é", '"u"', '" a""b "'],
) | st.sampled_from(
    ['5" x', "0x1", "1.", ".5", "u\u2028v", '"a\nb"', "++1", "1 0", "Infinity", "null", "NULL", "\u0661", "+1", "1e999"]
)


@pytest.fixture(scope="module")
def mixed(service) -> str:
    """A model of a number and of a category of which NA is one."""
    rows = [[i % 7, ["NA", "u", "v"][i % 3]] for i in range(60)]
    data = {"features": ["x", "s"], "rows": rows, "labels": [i % 2 for i in range(60)]}
    trained(service, {"model": "words", "learner": {"kind": "logistic"}, "data": data, "holdout": 0})
    return "words"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4),
    st.sampled_from([",", ";"]),
    st.sampled_from([".", ","]),
    st.sampled_from(["utf-8", "utf-16"]),
    st.booleans(),
)
def test_cases_are_read_as_the_service_reads_them(tmp_path, client, mixed, rows, delimiter, decimal, encoding, packed):
    """What the cases are decided from is what the file is decided from, unless the command line refuses it."""
    text = "\n".join([f"x{delimiter} s ", *(delimiter.join(row) for row in rows), ""]).encode(encoding)
    path = tmp_path / ("in.csv.gz" if packed else "in.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    written, model = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}, client.model(mixed)
    try:
        cases = cases_of(path, model.card(), written)
    except ValueError:
        return
    model.decide_file(path, tmp_path / "out.parquet", rule="most_probable", **written)
    decided = pd.read_parquet(tmp_path / "out.parquet").drop(columns="decision").to_numpy()
    assert decided.tolist() == model.answer(cases, rule="most_probable").probabilities.tolist()


def test_parquet_has_its_own_missing_values(tmp_path):
    rows = [{"x": 1, "s": "None"}, {"x": None, "s": "u\u2028v"}, {"x": None, "s": "NA"}]
    pd.DataFrame(rows).astype({"x": "Int64"}).to_parquet(tmp_path / "in.parquet")
    assert cases_of(tmp_path / "in.parquet", CARD, {}) == rows


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
        assert probabilities_of(str(path), options) == expected
    else:
        with pytest.raises(ValueError, match=expected or "is not utf-8"):
            probabilities_of(str(path), options)


@pytest.fixture
def run(tmp_path, mocked):
    """Runs a command against a service that adds a warning to all its answers; returns also what was sent."""
    (tmp_path / "cases.csv").write_text("age,pain\n1,none\n")
    (tmp_path / "p.csv").write_text("0.5\n")
    (tmp_path / "benefits.json").write_text(json.dumps({"a": {"x": 1}, "b": {"x": 0}}))
    sent = []

    def answer(request):
        request.read()
        sent.append(request)
        warned = {"warnings": ["W"]}
        documents = {path: {**each, **warned} for path, each in VALID.items()}
        documents["/acquire"] = {"status": "decided", "prediction": "a", "spent": 2, **warned}
        documents["/job_1"] = documents["/compare"] = {**VALID["/job_1"], "result": {"table": [{}], **warned}}
        documents["/from-outcomes"] = {**VALID["/from-outcomes"], "from": warned}
        documents["/best"] = warned
        if request.url.path == "/acquire" and "age" not in json.loads(request.content)["known"]:
            documents["/acquire"] = {"status": "acquire", "next": {"feature": "age", "cost": 1}}
        return of_path(documents | {"header": documents["/predict"]}, request)

    return lambda line: (*mocked(line, answer), sent)


@pytest.mark.parametrize(
    "line",
    [
        "predict m:1 cases.csv",
        "predict m:1 cases.csv --out out.csv",
        "predict m:1 cases.csv --json",
        "retrieve p.csv",
        "acquire m:1 --known age=1",
        "compare cases.csv --label pain --learner tree --benefits benefits.json",
        "train ds_1 --name m",
        "models m:1",
        "models m --alias best=1",
        "outcomes m",
        "outcomes m --dataset known",
    ],
)
def test_warnings_of_an_answer_are_printed(run, line):
    code, output, errors, _ = run(line)
    assert code == 0, errors
    assert "warning: W\n" in errors
    assert "warning: " not in output


@pytest.mark.parametrize("answer", ["inf", "1_0", "1e999", "old", "--"])
def test_an_answer_that_is_no_number_is_asked_for_again(run, monkeypatch, answer):
    answers = ["63", answer]
    monkeypatch.setattr("builtins.input", answers.pop)
    code, _, errors, sent = run("acquire m:1")
    assert (code, answers) == (0, [])
    assert f"'{answer}' is not a number" in errors
    assert json.loads(sent[-1].content)["known"] == {"age": 63.0}


def test_a_known_value_needs_its_feature(run):
    """Without a value it cannot be had, as an empty answer."""
    assert json.loads(run("acquire m:1 --known age= --known pain=")[3][-1].content)["known"] == {
        "age": None,
        "pain": None,
    }
    code, _, errors, _ = run("acquire m:1 --known age")
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
    code, output, errors, sent = run(line)
    assert (code, output) == (2, "")
    assert f"stakes.json: '{name}' has no effect here; the fields are benefits, cost_matrix, actions" in errors
    assert [request for request in sent if request.method != "GET"] == []


@pytest.mark.parametrize("document", [{"benefits": {"a": {"x": 1}}}, {"a": {"x": 1}}])
def test_a_file_of_fields_or_of_a_matrix_is_used(run, tmp_path, document):
    (tmp_path / "stakes.json").write_text(json.dumps(document))
    sent = run("acquire m:1 --known age=1 --benefits stakes.json")[3]
    assert json.loads(sent[-1].content)["benefits"] == {"a": {"x": 1}}


def test_line_breaks_in_values_are_printed_as_they_are(tmp_path, mocked):
    text = 'note,decision\n"a\r\nb","t"\n"c\rd","t"\n'
    answer = httpx.Response(200, content=text.encode(), headers={"Payoff-Answer": json.dumps({"warnings": []})})
    (tmp_path / "cases.csv").write_text("x,s\n1,u\n")
    card = httpx.Response(200, json=CARD)
    assert mocked("predict m:1 cases.csv", lambda asked: card if asked.method == "GET" else answer)[:2] == (0, text)


def test_names_of_a_service_do_not_command_a_terminal(capsys):
    name = "mild\x1b]0;owned\x07\u202e"
    terminal.show(argparse.Namespace(json=False), {}, f"decision: {name}\nspent: 1")
    terminal.say(name)
    found = capsys.readouterr()
    assert found.out == "decision: mild]0;owned\nspent: 1\n"
    assert found.err == "mild]0;owned\n"
