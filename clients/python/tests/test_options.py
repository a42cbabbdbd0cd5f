"""Commands against a service that answers validly: each option has an effect, and what is said is
printed.
"""

import argparse
import io
import json
import re
import sys

import httpx
import pytest
from payoff_client import Payoff, commands, terminal

from tests.client_answers import VALID, of_path

FILES = {
    "cases.csv": "age,pain\n1,légère\n2,none\n",
    "rows.csv": "age,pain,label\n1,légère,a\n2,none,b\n",
    "numbers.csv": "p\n0.5\n0.25\n",
    "outcomes.csv": "id,truth,benefit\n1,é,2.5\n",
    "benefits.json": json.dumps({"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}),
    "costs.json": json.dumps({"age": 1}),
    "texts.json": json.dumps({"age": {"any": "Age"}}),
    "sure.json": json.dumps(
        {"benefits": {"a": {"x": 1}}, "guarantee": {"action": "x"}}
    ),
}
READ = (
    "--type a=ignore|--header none|--drop-unlabelled|--drop-class a|--label-type number"
)
DIALECT = "--delimiter ;|--decimal ,|--encoding latin-1|"
GLOBAL = "--json|--url http://other"
OPTIONS = {  # commands, and options that each change what they do
    "predict m:1 cases.csv": "--benefits benefits.json|--rule minimax|--guarantee careful|"
    "--out o.csv.gz|"
    f"{DIALECT}--url http://other",
    "predict m:1 cases.csv --out o.csv": "--json",
    "train rows.csv --label label --name m": "--label pain|--name other|"
    "--learner tree|--benefits benefits.json"
    "|--holdout-by time:day"
    f"|--feature-costs costs.json|--holdout 0.5|--seed 7|--unit EUR|{READ}|{DIALECT}{GLOBAL}",
    "retrieve numbers.csv": f"--setting multilabel|--loss f1|--beta 2|{GLOBAL}",
    "acquire m:1 --next": f"--known age=1|--budget 3|--benefits benefits.json|{GLOBAL}",
    "acquire m:1": "--next",
    "compare rows.csv --label label --learner tree --benefits benefits.json": "--label pain|"
    "--learner forest"
    "|--holdout 0.5|--holdout-by group:ward"
    f"|--benefits winter|--folds 3|--chart c.svg|{READ}|{DIALECT}{GLOBAL}",
    "models": GLOBAL,
    "models m": "--alias best=1|--matrix autumn=benefits.json|--guarantee careful=sure.json"
    f"|--reasons texts.json|{GLOBAL}",
    "outcomes m": f"--since 2026-01-01|--until 2026-01-01|--by x|--dataset n|{GLOBAL}",
    "review m": f"--action x|--order time|{GLOBAL}",
    "outcomes --send outcomes.csv": f"{DIALECT}{GLOBAL}",
}
REFUSED = {
    "outcomes": "give a model",
    "models --alias best=1": "need a model",
    "predict m:1 cases.csv --json": "--out",
    "predict m:1 cases.csv --delimiter ;;": "1-character string",
    "train ds_1 --name m --holdout-by day": "time:COLUMN or group:COLUMN, not 'day'",
    "acquire m:1 --known age": "--known takes FEATURE=VALUE, not 'age'",
}


class Server:
    """Answers validly, and keeps what was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, request):
        request.read()
        key = {
            name: value
            for name, value in request.headers.items()
            if name != "idempotency-key"
        }
        self.asked.append((request.method, str(request.url), key, request.content))
        return of_path(request)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own; returns its code, all that it sent, printed and
    wrote, and its errors.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda: "1")

    def run(line, answer=None):
        for each in tmp_path.iterdir():
            each.unlink()
        for name, text in FILES.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        server = Server()
        transport = httpx.MockTransport(answer or server)
        monkeypatch.setattr(
            commands,
            "Payoff",
            lambda url, **given: Payoff(url, **given, transport=transport),
        )
        code = commands.main(line.split())
        output, errors = capsys.readouterr()
        files = {
            path.name: path.read_bytes()
            for path in tmp_path.iterdir()
            if path.name not in FILES
        }
        return code, (server.asked, output, files), errors

    return run


@pytest.mark.parametrize(
    "case",
    [(line, one) for line, options in OPTIONS.items() for one in options.split("|")],
    ids=str,
)
def test_each_option_has_an_effect(run, case):
    line, option = case
    code, *plain = run(line)
    assert code == (
        3 if line == "acquire m:1" else 0
    )  # which asks for the same feature again and again
    _, *found = run(f"{line} {option}")
    assert found != plain


def test_all_options_are_tried(capsys):
    for name in {line.split()[0] for line in OPTIONS}:
        with pytest.raises(SystemExit):
            commands.main([name, "--help"])
        tried = {
            word
            for line, more in OPTIONS.items()
            if line.startswith(name)
            for word in f"{line} {more}".split()
        }
        tried = {option for word in tried for option in word.split("|")}
        assert (
            set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"} <= tried
        ), name


@pytest.mark.parametrize("line", REFUSED)
def test_an_option_without_effect_is_refused(run, line):
    code, (_, output, files), errors = run(line)
    assert (code, output, files) == (2, "", {})
    assert REFUSED[line] in errors


def test_a_service_that_is_stopped_is_named_before_it_is_waited_for(run, monkeypatch):
    said = []
    monkeypatch.setattr("time.sleep", lambda _: said.append(sys.stderr.getvalue()))
    answers = [httpx.ConnectError("refused"), httpx.ConnectError("refused")]

    def answer(request):
        if answers:
            raise answers.pop()
        return of_path(request)

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert run("models", answer=answer)[0] == 0
    assert len(said) == 2
    assert "cannot be reached: refused; it is tried again for at most 60 s\n" in said[0]
    assert said[1] == said[0]


@pytest.mark.parametrize(
    "line",
    [
        "predict m:1 cases.csv",
        "predict m:1 cases.csv --out out.csv",
        "train ds_1 --name m",
        "acquire m:1 --next",
        "compare ds_1 --learner tree --benefits benefits.json",
        "models m --alias best=1",
        "outcomes m --dataset known",
    ],
)
def test_warnings_of_an_answer_are_printed(run, line):
    result = {"table": [{}], "warnings": ["w"]}
    documents = {
        path: {**each, "warnings": ["w"], "result": result}
        for path, each in VALID.items()
    }
    code, (_, output, _), errors = run(
        line,
        lambda request: of_path(request, documents | {"/best": {"warnings": ["w"]}}),
    )
    assert code == 0, errors
    assert "warning: w\n" in errors
    assert "warning: " not in output


def test_known_values_are_numbers_text_or_cannot_be_had(run):
    for given, known in {
        "age= --known pain=": {"age": None, "pain": None},
        "age=63": {"age": 63.0},
    }.items():
        _, (asked, *_), _ = run(f"acquire m:1 --next --known {given}")
        assert json.loads(asked[-1][-1])["known"] == known


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--holdout 0.5", 0.5),
        ("--holdout-by time:a:b", {"by": "time", "column": "a:b"}),
        (
            "--holdout 0.5 --holdout-by group:ward",
            {"part": 0.5, "by": "group", "column": "ward"},
        ),
    ],
)
def test_a_hold_out_is_a_part_or_by_a_column(run, options, expected):
    _, (asked, *_), _ = run(f"train ds_1 --name m {options}")
    assert json.loads(asked[0][-1])["holdout"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("p\n0.5\n.25\n", [0.5, 0.25]), ("0.5,1\n1e-3,0\n", [[0.5, 1], [0.001, 0]])],
)
def test_probabilities_are_read_from_csv(tmp_path, text, expected):
    (tmp_path / "p.csv").write_text(text)
    assert terminal.probabilities_of(str(tmp_path / "p.csv")).tolist() == expected


def test_names_of_a_service_do_not_command_a_terminal(capsys):
    name = "mild\x1b]0;owned\x07\u202e"
    terminal.show(argparse.Namespace(json=False), {}, f"decision: {name}\nspent: 1")
    terminal.print_to_stderr(name)
    found = capsys.readouterr()
    assert found.out == "decision: mild]0;owned\nspent: 1\n"
    assert found.err == "mild]0;owned\n"
