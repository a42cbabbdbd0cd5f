"""The command line against the real service."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pandas as pd
import pytest
import structlog
from payoff_client import commands

from tests.conftest import two_class_rows

DATA = two_class_rows()
BENEFITS = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}


@pytest.fixture
def run(service, capsys, tmp_path, monkeypatch):
    """Runs a command in a folder with a file of cases and one of benefits; returns its code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    rows = pd.DataFrame(DATA["rows"], columns=DATA["features"])
    rows.assign(bed=[f"B{i}" for i in range(200)]).to_csv("cases.csv", index=False)
    rows.assign(state=DATA["labels"]).to_parquet("sick.parquet")
    (tmp_path / "benefits.json").write_text(json.dumps(BENEFITS))
    (tmp_path / "limited.yaml").write_text(json.dumps({"benefits": BENEFITS, "limits": {"treat": 5}}))

    def run(*arguments):
        code = commands.main(arguments)
        output, errors = capsys.readouterr()
        return code, output, errors

    return run


def test_a_file_is_decided(run, ward, tmp_path):
    code, output, _ = run("predict", ward, "cases.csv", "--benefits", "benefits.json")
    assert code == 0
    decided = pd.read_csv(io.StringIO(output))
    assert list(decided.columns)[:2] == ["bed", "decision"]
    assert len(decided) == 200

    code, output, _ = run("predict", ward, "cases.csv", "--benefits", "limited.yaml", "--out", "out.parquet", "--json")
    assert code == 0
    assert json.loads(output)["limits"][0]["used"] == 5
    assert (pd.read_parquet(tmp_path / "out.parquet")["decision"] == "treat").sum() == 5
    assert "200 rows" in run("predict", ward, "cases.csv", "--out", "out.csv.gz")[1]


def test_a_model_is_trained_compared_and_moved(run):
    learner = '{"kind": "logistic", "C": 2}'
    code, output, _ = run("train", "sick.parquet", "--label", "state", "--name", "typed", "--learner", learner)
    assert code == 0
    assert output.splitlines()[-1].startswith("rows ")
    assert "\ntyped:" in f"\n{output}"
    assert run("models", "typed", "--alias", "best=1")[0] == 0
    assert "'best': 1" in run("models", "typed")[1]
    assert json.loads(run("models", "typed@best", "--json")[1])["learner"]["parameters"]["C"] == 2
    assert "typed" in run("models")[1]
    order = ("compare", "sick.parquet", "--label", "state", "--learner", "logistic", "--benefits", "benefits.json")
    code, output, _ = run(*order, "--folds", "2", "--chart", "chart.svg")
    assert code == 0
    assert "expected_benefit" in output


def test_sets_are_retrieved(run, ward, tmp_path):
    (tmp_path / "p.csv").write_text("p\n0.9\n0.2\n0.7\n")
    code, output, _ = run("retrieve", "p.csv", "--beta", "2", "--json")
    assert (code, json.loads(output)["sets"][0]["selected"][:2]) == (0, [0, 2])
    assert run("retrieve", "cases.csv", "--model", ward)[0] == 0
    cases = pd.read_csv(tmp_path / "cases.csv").head(3).assign(age=[60, None, 70])
    (tmp_path / "gaps.csv").write_text(cases.to_csv(index=False, na_rep="N/A"))
    cases.to_parquet(tmp_path / "gaps.parquet")
    found = {run("retrieve", f"gaps.{form}", "--model", ward, "--json")[:2] for form in ("csv", "parquet")}
    assert {code for code, _ in found} == {0}
    assert len(found) == 1


def test_questions_are_asked_in_the_terminal(run, forest, monkeypatch, capsys):
    answers = []

    def answer():
        answers.append("sixty" if not answers else "strong" if "pain" in capsys.readouterr().err else "60")
        return answers[-1]

    monkeypatch.setattr("builtins.input", answer)
    code, output, _ = run("acquire", forest)
    assert code == 0
    assert "prediction: " in output
    assert answers[0] == "sixty"
    assert "costs" not in output
    assert "next: " in run("acquire", forest, "--next")[1]

    def end():
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    assert json.loads(run("acquire", forest, "--json")[1])["status"] == "acquire"


def test_outcomes_are_sent(run, tmp_path):
    (tmp_path / "outcomes.csv").write_text("id,truth,benefit\n007,ill,\nb,healthy,3\n")
    code, output, _ = run("outcomes", "--send", "outcomes.csv", "--json")
    assert (code, json.loads(output)["unknown"]) == (0, ["007", "b"])


@pytest.mark.parametrize(
    ("header", "word"), [("id,truth,actoin,benefit", "'actoin'"), ("id,truth,action,benfit", "'benfit'")]
)
def test_a_misspelt_column_of_outcomes_is_refused(run, tmp_path, header, word):
    (tmp_path / "outcomes.csv").write_text(f"{header}\na,ill,treat,3\n")
    code, output, errors = run("outcomes", "--send", "outcomes.csv", "--json")
    assert (code, output) == (3, "")
    assert word in errors


def test_a_saved_matrix_stands_for_a_file(run, ward, client):
    try:
        code, _, errors = run("models", ward, "--matrix", "winter=benefits.json")
        reference = f"winter:{client.model(ward).matrices.get('winter')['version']}"
        assert (code, errors) == (0, f"saved as {reference}\n")
        by_name, by_file = (
            run("predict", ward, "cases.csv", "--benefits", each) for each in (reference, "benefits.json")
        )
        assert by_name[:2] == (0, by_file[1])
        code, output, errors = run("predict", ward, "cases.csv", "--benefits", "spring")
        assert (code, output) == (3, "")
        assert "spring" in errors
    finally:
        client.model(ward).matrices.delete("winter")


def test_outcomes_become_a_data_set(run, ward, client):
    decided = client.model(ward).decide(DATA["rows"][:30], record={"instances": True}, benefits=BENEFITS)
    pairs = zip(decided["id"], DATA["labels"], strict=False)
    client.send_outcomes([{"id": id_, "truth": truth} for id_, truth in pairs])

    code, output, _ = run("outcomes", ward, "--dataset", "known", "--json")
    assert (code, json.loads(output)["name"]) == (0, "known")
    assert client.datasets.get("known")["rows"] >= 30


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("predict", "nobody", "cases.csv"), 3, "nobody"),
        (("predict", "ward", "missing.csv"), 2, "missing.csv"),
        (("predict", "ward", "cases.xls"), 2, "cases.xls"),
        (("predict", "ward", "cases.csv", "--benefits", "cases.csv"), 2, "is not JSON"),
        (("predict", "ward", "cases.csv", "--delimiter", "|"), 3, "delimiter"),
        (("train", "sick.parquet", "--label", "bed", "--name", "n"), 3, "bed"),
        (("train", "sick.parquet", "--label", "state", "--name", "n", "--learner", "{"), 2, "--learner"),
        (("models", "ward", "--alias", "best"), 2, "ALIAS=VERSION"),
        (("models", "ward", "--alias", "best=\u00b2"), 2, "ALIAS=VERSION"),
        (("retrieve", "empty.npy"), 2, "empty.npy cannot be read"),
        (("models", "ward", "--matrix", "winter"), 2, "NAME=FILE, not 'winter'"),
        (("models", "ward", "--matrix", "=benefits.json"), 2, "NAME=FILE"),
        (("models", "wrad"), 3, "there is no model 'wrad'"),
        (("models", "PD 1"), 3, "--name: String should match pattern"),
        (("models", "--url", "{url}/docs"), 3, "/docs is no Payoff service"),
        (("predict", "ward", "sheet.csv"), 3, "use --delimiter ';'"),
        (("train", "sick.parquet", "--label", "state", "--name", "n", "--benefits", "winter"), 3, "send the matrix"),
        (("acquire", "woods", "--known", "age=old"), 2, "'age' takes a number"),
        (("outcomes",), 2, "--send"),
        (("models", "--url", "http://127.0.0.1:1"), 4, "http://127.0.0.1:1/ cannot be reached"),
        (("train", "/dev/stdin", "--label", "state", "--name", "n"), 2, "standard input is not read"),
    ],
)
def test_what_goes_wrong_has_an_exit_code_and_one_line(run, ward, forest, monkeypatch, arguments, code, words):
    monkeypatch.setattr("payoff_client.wire._FIRST_DELAY", 1000)
    monkeypatch.setattr("payoff_client.wire._LONGEST_DELAY", 1000)
    Path("sheet.csv").write_text("a;b\n1;2\n")
    Path("empty.npy").touch()
    found, output, errors = run(*(each.replace("{url}", os.environ["PAYOFF_URL"]) for each in arguments))

    assert (found, output) == (code, "")
    assert words in errors
    assert "Traceback" not in errors


def test_the_log_of_the_service_is_not_in_what_commands_print(run):
    structlog.get_logger("payoff").error("of the service")
    assert "of the service" not in "".join(run("models", "--names")[1:])


def test_an_option_that_needs_a_model_is_refused_without_one(run):
    for option, value in (("--alias", "champion=1"), ("--matrix", "winter=benefits.json")):
        code, output, errors = run("models", option, value)
        assert (code, output) == (2, "")
        assert "need a model" in errors


@pytest.mark.parametrize("url", ["127.0.0.1:8917", "localhost:8917", "payoff.example"])
def test_a_url_without_its_scheme_is_refused_at_once(run, url):
    code, _, errors = run("models", "--url", url)
    assert code == 2
    assert f"http://{url}" in errors
