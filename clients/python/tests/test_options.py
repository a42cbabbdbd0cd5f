"""Each option of each command changes what is sent or printed, or is refused where it has no effect."""

from __future__ import annotations

import argparse
import io
import json
import sys

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from payoff_client import commands

from tests.client_answers import SHARED, VALID, of_path, servers

FILES = {
    "cases.csv": "age,pain\n1,légère\n2,none\n",
    "rows.csv": "age,pain,label\n1,légère,a\n2,none,b\n",
    "numbers.csv": "p\n0.5\n0.25\n",
    "outcomes.csv": "id,truth,benefit\n1,é,2.5\n",
    "benefits.json": json.dumps({"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}),
    "costs.json": json.dumps({"age": 1}),
}
DIALECT = "--delimiter ;|--decimal ,|--encoding latin-1|"
GLOBAL = "--json|--url http://other"
OPTIONS = {  # commands, and options that each change what they do
    "predict m:1 cases.csv": f"--benefits benefits.json|--rule minimax|--out o.csv.gz|{DIALECT}{GLOBAL}",
    "train rows.csv --label label --name m": "--label pain|--name other|--learner tree|--benefits benefits.json"
    f"|--feature-costs costs.json|--holdout 0.5|--seed 7|{DIALECT}{GLOBAL}",
    "retrieve numbers.csv": f"--setting multilabel|--loss f1|--beta 2|--decimal ,|{GLOBAL}",
    "retrieve cases.csv --model m:1": "--model m|--delimiter ;|--encoding utf-16",
    "acquire m:1 --next": f"--known age=1|--budget 3|--benefits benefits.json|{GLOBAL}",
    "acquire m:1": "--next",
    "compare rows.csv --label label --learner tree --benefits benefits.json": "--label pain|--learner forest"
    f"|--benefits winter|--folds 3|--chart c.svg|{DIALECT}{GLOBAL}",
    "models": f"--names|{GLOBAL}",
    "models m": f"--alias best=1|--matrix autumn=benefits.json|{GLOBAL}",
    "outcomes m": f"--since 2026-01-01|--until 2026-01-01|--by x|--dataset n|{GLOBAL}",
    "outcomes --send outcomes.csv": f"{DIALECT}{GLOBAL}",
}
REFUSED = {
    "outcomes --send outcomes.csv --since 2026-01-01": "--since has no effect with --send",
    "outcomes m --dataset n --by x": "--by has no effect with --dataset",
    "outcomes m --decimal ,": "--decimal has no effect without --send",
    "outcomes": "give a model",
    "models --alias best=1": "--alias has no effect without a model",
    "models --matrix autumn=benefits.json": "--matrix has no effect without a model",
    "models m --names": "--names has no effect with a model",
    "train ds_1 --name m --decimal ,": "decimal is for CSV files",
    "predict m:1 cases.csv --delimiter ;;": "1-character string",
}


class Server:
    """Answers validly, and keeps what was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, request):
        request.read()
        key = {name: value for name, value in request.headers.items() if name != "idempotency-key"}
        self.asked.append((request.method, str(request.url), key, request.content))
        return of_path(VALID | {"header": SHARED}, request)


@pytest.fixture
def run(tmp_path, monkeypatch, mocked):
    """Runs a command; returns its code, and all that it sent, printed and wrote."""
    monkeypatch.setattr("builtins.input", lambda: "1")

    def run(line, answer=None):
        for each in tmp_path.iterdir():
            each.unlink()
        for name, text in FILES.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        server = Server()
        code, output, errors = mocked(line, answer or server)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name not in FILES}
        return code, (server.asked, output, files), errors

    return run


@pytest.mark.parametrize(
    "case", [(line, one) for line, options in OPTIONS.items() for one in options.split("|")], ids=str
)
def test_each_option_has_an_effect(run, case):
    line, option = case
    code, *plain = run(line)
    assert code == (3 if line == "acquire m:1" else 0)  # which asks for the same feature again and again
    _, *found = run(f"{line} {option}")
    assert found != plain


def test_all_options_are_tried():
    for name in commands.COMMANDS:
        parser = argparse.ArgumentParser()
        commands.describe(name, parser)
        described = {word for word in parser.format_help().replace("[", " ").split() if word.startswith("--")}
        tried = {
            word
            for line, options in OPTIONS.items()
            if line.startswith(name)
            for word in f"{line} {options.replace('|', ' ')}".split()
        }
        assert {word.rstrip("],") for word in described} - {"--help"} <= tried, name


@pytest.mark.parametrize("line", REFUSED)
def test_an_option_without_effect_is_refused(run, line):
    code, (_, output, files), errors = run(line)
    assert (code, output, files) == (2, "", {})
    assert REFUSED[line] in errors


def test_decisions_are_one_document(run, monkeypatch):
    answer = b'"bed","decision","p:ill","day"\n"1,""\n2","x",0.1,2026-01-02\n,"NA",7,\n'

    def decide(request):
        if request.method == "GET":
            return of_path(VALID, request)
        assert request.headers["Accept"] == "text/csv"
        assert request.content == b"age,pain\n1,mild\n2,mild\n"
        return httpx.Response(200, content=answer, headers={"Payoff-Answer": json.dumps(SHARED)})

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"age,pain\n1,mild\n2,mild\n")))
    code, (_, output, _), errors = run("predict m:1 - --json", answer=decide)
    assert (code, errors) == (0, "warning: w\n")
    document = json.loads(output)
    assert document["results"] == [
        {"bed": '1,"\n2', "decision": "x", "p:ill": 0.1, "day": "2026-01-02"},
        {"bed": None, "decision": "NA", "p:ill": 7, "day": None},
    ]
    assert (document["rows"], document["model"], document["warnings"]) == (2, "m:1", ["w"])


def test_a_service_that_is_stopped_is_named_before_it_is_waited_for(run, monkeypatch):
    said = []
    monkeypatch.setattr("time.sleep", lambda _: said.append(sys.stderr.getvalue()))
    answers = [httpx.ConnectError("refused"), httpx.ConnectError("refused")]

    def answer(request):
        if answers:
            raise answers.pop()
        return of_path(VALID, request)

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert run("models", answer=answer)[0] == 0
    assert len(said) == 2
    assert "cannot be reached: refused; it is tried again for at most 60 s\n" in said[0]
    assert said[1] == said[0]


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.parametrize("line", [*OPTIONS, "models m:1"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(server=servers())
def test_no_answer_ends_a_command_but_by_an_exit_code(run, monkeypatch, line, server):
    monkeypatch.setattr("payoff_client.transport.FIRST_DELAY", 1000)
    monkeypatch.setattr("payoff_client.transport.LONGEST_DELAY", 1000)
    code, _, errors = run(line, answer=server)
    assert code in (0, 1, 3, 4), errors
