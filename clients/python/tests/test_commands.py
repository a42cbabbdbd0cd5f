"""The command line against the real service."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from payoff_client import Invalid, commands

from tests.conftest import two_class_rows

DATA = two_class_rows()
BENEFITS = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}


@pytest.fixture
def run(service, capsys, tmp_path, monkeypatch):
    """Runs a command in a folder with a file of cases and one of benefits; returns its code,
    output and errors.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    rows = pd.DataFrame(DATA["rows"], columns=DATA["features"])
    rows.assign(bed=[f"B{i}" for i in range(200)]).to_csv("cases.csv", index=False)
    rows.assign(state=DATA["labels"]).to_parquet("sick.parquet")
    (tmp_path / "benefits.json").write_text(json.dumps(BENEFITS))
    (tmp_path / "limited.json").write_text(
        json.dumps({"benefits": BENEFITS, "limits": {"treat": 5}})
    )

    def run(line):
        code = commands.main([part.replace("\x00", " ") for part in line.split()])
        output, errors = capsys.readouterr()
        return code, output, errors

    return run


def test_a_file_is_decided(run, ward, tmp_path):
    code, output, said = run(f"predict {ward} cases.csv --benefits benefits.json")
    assert code == 0
    assert "ill: wait costs 10, treat brings 5\n" in said
    decided = pd.read_csv(io.StringIO(output))
    assert list(decided.columns)[:2] == ["bed", "decision"]
    assert len(decided) == 200
    code, output, _ = run(
        f"predict {ward} cases.csv --benefits limited.json --out out.parquet --json"
    )
    assert code == 0
    assert json.loads(output)["limits"][0]["used"] == 5
    assert (pd.read_parquet(tmp_path / "out.parquet")["decision"] == "treat").sum() == 5
    assert "200 rows" in run(f"predict {ward} cases.csv --out out.csv.gz")[1]


def test_a_model_is_trained_compared_and_moved(run):
    learner = '{"kind":\x00"logistic","C":2}'
    code, output, _ = run(
        f"train sick.parquet --label state --name typed --learner {learner}"
    )
    assert code == 0
    assert output.splitlines()[-1].startswith("rows ")
    assert "\ntyped:" in f"\n{output}"
    assert run("models typed --alias best=1")[0] == 0
    for file, columns in (
        ("sick.parquet", "age, pulse, pain, state"),
        ("cases.csv", "age, pulse, pain, bed"),
    ):
        code, _, errors = run(f"train {file} --name untold")
        assert (code, errors) == (
            2,
            (
                "payoff-client: label is required: the name of the column to predict, "
                f"one of {columns}\n"
            ),
        )
    order = (
        "train sick.parquet --label state --name unaged --learner logistic "
        "--type age=ignore --json"
    )
    assert run(order)[0] == 0
    assert re.search(
        "^pulse +numeric", run(order.removesuffix("--json"))[1], re.MULTILINE
    )
    code, output, _ = run("models unaged:1 --json")
    assert [one["name"] for one in json.loads(output)["features"]] == ["pulse", "pain"]
    assert "'best': 1" in run("models typed")[1]
    assert (
        json.loads(run("models typed@best --json")[1])["learner"]["parameters"]["C"]
        == 2
    )
    assert "typed" in run("models")[1]
    order = (
        "compare sick.parquet --label state --learner logistic --benefits benefits.json"
    )
    code, output, _ = run(f"{order} --folds 2 --chart chart.svg")
    assert code == 0
    assert "expected_benefit" in output


def test_of_a_refused_file_each_column_is_reported(run, client):
    lines = [
        "age;visit;state",
        *(f"{40 + i};v{i % 3};{'ill' if i % 2 else ''}" for i in range(40)),
    ]
    Path("messy.csv").write_text("\n".join(lines))
    with pytest.raises(Invalid) as caught:
        client.train("messy.csv", label="state", name="messy", delimiter=";")
    named = {each["name"]: each["advice"] for each in caught.value.columns}
    assert (named["age"], "label is missing" in named["state"]) == (None, True)
    code, _, errors = run("train messy.csv --label state --name messy --delimiter ;")
    told = str(caught.value).replace("send drop_unlabelled", "give --drop-unlabelled")
    assert (code, told in errors) == (3, True)
    head, state, *others = [line.split() for line in errors.splitlines()[1:]]
    assert head[:3] == ["column", "read", "as"]
    assert state[:4] == ["state", "categorical", "ill", "20"]
    assert others == [
        ["age", "numeric", "40,", "60,", "79", "0", "40"],
        ["visit", "categorical", "v0,", "v1,", "v2", "0", "3"],
    ]


def test_integers_are_numbers_to_regress_on_by_an_option(run):
    Path("counts.csv").write_text(
        "\n".join(["x,units", *(f"{i % 7},{3 * i}" for i in range(40))])
    )
    order = "train counts.csv --label units --name counts --learner random_forest"
    code, _, errors = run(order)
    assert (code, "give --label-type number" in errors) == (3, True)
    assert run(f"{order} --label-type number")[0] == 0


def test_questions_are_asked_in_the_terminal(run, forest, monkeypatch, capsys):
    answers = []

    def answer():
        answers.append(
            "sixty"
            if not answers
            else "strong"
            if "pain" in capsys.readouterr().err
            else "60"
        )
        return answers[-1]

    monkeypatch.setattr("builtins.input", answer)
    code, output, _ = run(f"acquire {forest}")
    assert code == 0
    assert "prediction: " in output
    assert answers[0] == "sixty"
    assert "costs" not in output
    assert "next: " in run(f"acquire {forest} --next")[1]

    def end():
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    assert json.loads(run(f"acquire {forest} --json")[1])["status"] == "acquire"


WRONG = [
    ("predict nobody cases.csv", 3, "nobody"),
    ("predict ward missing.csv", 2, "missing.csv"),
    ("predict ward cases.csv --benefits cases.csv", 2, "is not JSON"),
    ("predict ward cases.csv --delimiter |", 3, "delimiter"),
    ("train sick.parquet --label bed --name n", 3, "bed"),
    ("train semi.csv --label state --name n", 3, "give --delimiter ;"),
    ("train sick.parquet --label state --name n --learner {", 2, "--learner"),
    (
        "train sick.parquet --label state --name n --benefits winter",
        3,
        "send the matrix",
    ),
    ("train - --label state --name n", 2, "none of the supported files"),
    ("models ward --alias best", 2, "ALIAS=VERSION"),
    ("models ward --alias best=two", 2, "two"),
    ("models ward --matrix winter", 2, "NAME=FILE, not 'winter'"),
    ("models wrad", 3, "there is no model 'wrad'"),
    ("models --url {url}/docs", 3, "/docs is no Payoff service"),
    ("models --url http://127.0.0.1:1", 4, "http://127.0.0.1:1/ cannot be reached"),
    ("models --url localhost:8917", 2, "http://localhost:8917"),
    ("retrieve empty.npy", 2, "empty.npy cannot be read"),
    ("retrieve cases.csv", 2, "cases.csv cannot be read"),
    ("acquire woods --known age=old", 2, "'old' is not a number"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG)
def test_what_goes_wrong_has_an_exit_code_and_one_line(
    run, ward, forest, monkeypatch, line, code, words
):
    monkeypatch.setattr("payoff_client.transport.FIRST_DELAY", 1000)
    monkeypatch.setattr("payoff_client.transport.LONGEST_DELAY", 1000)
    Path("empty.npy").touch()
    Path("semi.csv").write_text("age;state\n1;ill\n2;healthy\n")
    found, output, errors = run(line.replace("{url}", os.environ["PAYOFF_URL"]))
    assert (found, output) == (code, "")
    assert words in errors
    assert "Traceback" not in errors


def test_a_report_on_outcomes_begins_with_its_first_numbers(run, ward, client):
    decided = client.model(ward).decide(
        DATA["rows"][:30], record=True, benefits=BENEFITS
    )
    pairs = zip(decided["id"], DATA["labels"], strict=False)
    client.send_outcomes([{"id": id_, "truth": truth} for id_, truth in pairs])
    code, output, _ = run(f"outcomes {ward}")
    report = client.model(ward).outcomes()
    assert (
        code,
        [line.split()[0].strip(":") for line in output.splitlines()[1:5]],
    ) == (
        0,
        list(report)[:4],
    )
    assert output.splitlines()[1].split()[:2] == [
        "promised",
        f"{report['promised']['mean']:.4g}",
    ]


def test_a_reader_that_has_enough_ends_it_quietly(service, monkeypatch):
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    line = f"set -o pipefail; {sys.executable} -m payoff_client.commands models | exec 0<&-"
    assert (
        subprocess.run(["bash", "-c", line], capture_output=True, check=True).stderr
        == b""
    )


def test_a_file_of_benefits_that_is_not_there_is_missing(capsys, tmp_path):
    """It cannot be the name of a saved matrix, so nothing is asked of the service."""
    missing = tmp_path / "nofile.json"
    for name in (str(missing), "nofile.json"):
        command = [
            "predict",
            "ward",
            "cases.csv",
            "--benefits",
            name,
            "--url",
            "http://127.0.0.1:9",
        ]

        assert commands.main(command) == 2
        assert f"there is no file {name}" in capsys.readouterr().err
