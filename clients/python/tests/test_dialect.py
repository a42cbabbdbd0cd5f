"""One file as a spreadsheet of another country writes it, in every function and command that takes files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from payoff_client import commands

from tests.conftest import two_class_rows

WRITTEN = {"delimiter": ";", "decimal": ",", "encoding": "latin-1"}
OPTIONS = [text for name, value in WRITTEN.items() for text in (f"--{name}", value)]
BENEFITS = {"ill": {"wait": -10, "treat": 5}, "healthy": {"wait": 0, "treat": -1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    data = two_class_rows()
    rows = pd.DataFrame(data["rows"], columns=["größe", "pulse", "schmerz"]).assign(
        ort=["Köln", "Münster"] * 100, zustand=data["labels"]
    )
    rows["pulse"] += 0.5
    rows.to_csv(folder / "plain.csv", index=False)
    for name, encoding in {"written": "cp1252", "utf16": "utf-16"}.items():
        rows.to_csv(folder / f"{name}.csv", index=False, sep=";", decimal=",", encoding=encoding)
    (folder / "benefits.json").write_text(json.dumps(BENEFITS))
    return folder


@pytest.fixture(scope="module")
def model(client, folder):
    options = {"label": "zustand", "name": "umlaut", "learner": "logistic", "holdout": 0}
    types = {"ort": "ignore"}
    dataset = client.datasets.upload(folder / "written.csv", label="zustand", types=types, **WRITTEN)["id"]
    plain = client.datasets.upload(folder / "plain.csv", label="zustand", types=types)
    assert client.datasets.get(dataset)["features"] == plain["features"]
    return client.train(dataset, **options | {"label": None}).name


def test_python_reads_it(client, model, folder, tmp_path):
    model = client.model(model)
    expected = model.decide_file(folder / "plain.csv", tmp_path / "plain.csv", benefits=BENEFITS)
    for name, encoding in {"written": "latin-1", "utf16": "utf-16"}.items():
        options = WRITTEN | {"encoding": encoding}
        found = model.decide_file(folder / f"{name}.csv", tmp_path / f"{name}.csv", benefits=BENEFITS, **options)
        assert found == expected
        assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()
    trained = client.train(folder / "written.csv", label="zustand", name="umlaut2", learner="logistic", **WRITTEN)
    types = {feature["name"]: feature["type"] for feature in trained.card()["features"]}
    assert types["größe"] == types["pulse"] == "numeric"
    options = {"label": "zustand", "learners": ["logistic"], "benefits": BENEFITS, "folds": 2}
    found = client.compare(folder / "written.csv", **options, **WRITTEN)
    assert found.table == client.compare(folder / "plain.csv", **options).table


def test_commands_read_it(service, client, model, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))

    def run(*arguments):
        assert commands.main(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    plain, written = ["plain.csv"], ["written.csv", *OPTIONS]
    decided = [run("predict", model, *file, "--benefits", "benefits.json") for file in (plain, written)]
    assert decided[0] == decided[1]
    assert "Köln" in decided[0]
    retrieved = [run("retrieve", *file, "--model", model, "--json") for file in (plain, written)]
    assert json.loads(retrieved[0]) == json.loads(retrieved[1])
    (folder / "p.csv").write_text("p;q\n0,9;0,1\n0,2;0,8\n")
    assert "selected" in run("retrieve", "p.csv", "--setting", "multilabel", *OPTIONS[:4])
    order = ("--label", "zustand", "--learner", "logistic")
    assert "umlaut3:1" in run("train", *written, *order, "--name", "umlaut3")
    assert "benefit" in run("compare", *written, *order, "--benefits", "benefits.json", "--folds", "2")
    recorded = client.model(model).decide(
        [{"größe": 1, "pulse": 2, "schmerz": "mild"}], record=True, rule="most_probable"
    )
    (folder / "outcomes.csv").write_bytes(f"id;truth;benefit\n{recorded[0]['id']};ill;2,5\n".encode("cp1252"))
    assert json.loads(run("outcomes", "--send", "outcomes.csv", "--json", *OPTIONS))["accepted"] == 1


def test_where_it_has_no_effect_or_is_unknown_it_is_refused(client, model, tmp_path):
    rows = pd.DataFrame({"a": np.arange(3), "y": list("aba")})
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv")
    calls = [
        lambda data, **options: client.train(data, label="y", name="n", **options),
        lambda data, **options: client.compare(data, label="y", learners=["tree"], benefits={}, **options),
        lambda data, **options: client.datasets.upload(data, label="y", **options),
        lambda data, **options: client.model(model).decide_file(data, tmp_path / "out.csv", **options),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"delimiter is for CSV files; 'rows.parquet'"):
            call(tmp_path / "rows.parquet", delimiter=";")
        with pytest.raises(ValueError, match="encoding is 'klingon'; must be one of utf-8"):
            call(tmp_path / "rows.csv", encoding="klingon")
    with pytest.raises(ValueError, match="decimal is for CSV files; a frame"):
        client.train(rows, label="y", name="n", decimal=",")
    (tmp_path / "rows.csv").write_bytes(b"\x81\n")
    with pytest.raises(ValueError, match="the file is not latin-1"):
        calls[-1](tmp_path / "rows.csv", encoding="latin-1")
