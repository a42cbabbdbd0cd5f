"""From a file as people export it to decisions, by the command line and by the client, in a few
lines.
"""

import json

import pandas as pd
import pyarrow as pa
import pytest
from payoff_client import Invalid, commands

from app.tables.text import is_number
from tests.tables.messy import EXPORTS, N, rows_of


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_trained_on_and_decided(
    service, client, tmp_path, monkeypatch, capsys, name
):
    """By the client with objects of the file's text and with pandas, by the command line as a
    file: all alike.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    export = EXPORTS[name]
    (tmp_path / "export.csv").write_bytes(export.content)
    read = {
        key: json.loads(value)
        for key, value in export.asked.items()
        if key in {"types", "drop_unlabelled"}
    }
    asked = export.asked | read
    if export.refused_without:
        with pytest.raises(Invalid) as refused:
            client.datasets.upload("export.csv", label=export.label)
        assert all(part in str(refused.value) for part in export.refused_without)
    model = client.train(
        "export.csv", label=export.label, name="exported", learner="logistic", **asked
    )
    benefits = {
        label: {"call": 5 * k - 1, "wait": 0}
        for k, label in enumerate(model.card()["classes"])
    }
    rows = [*rows_of(export)]
    sent = [
        {
            key: float(word) if is_number(word) else word or None
            for key, word in row.items()
        }
        for row in rows
    ]
    decided = [row["decision"] for row in model.decide(sent, benefits=benefits)]
    assert {*decided} == {"call", "wait"}
    assert (
        model.decide(pd.DataFrame(sent), benefits=benefits)["decision"].tolist()
        == decided
    )
    options = [
        f"--type={column}={order}" for column, order in asked.pop("types", {}).items()
    ]
    options += ["--drop-unlabelled"] if asked.pop("drop_unlabelled", False) else []
    options += [f"--{key}={value}" for key, value in asked.items()]
    order = [
        "train",
        "export.csv",
        "--label",
        export.label,
        "--name",
        "ordered",
        "--learner",
        "logistic",
        *options,
    ]
    assert commands.main(order) == 0, capsys.readouterr()
    dialect = [f"--{key}={value}" for key, value in asked.items() if key != "header"]
    (tmp_path / "benefits.json").write_text(json.dumps(benefits))
    if "header" not in asked:
        order = [
            "predict",
            "ordered",
            "export.csv",
            "--benefits",
            "benefits.json",
            "--out",
            "out.csv",
            *dialect,
        ]
        assert commands.main(order) == 0, capsys.readouterr()
        separator = asked.get("delimiter", ",")
        assert len(pd.read_csv("out.csv", sep=separator)) == N


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_a_value_in_a_form_is_taken_from_frames(client):
    stakes, text = (
        [1234.5 + i for i in range(40)],
        [f"{1234.5 + i:,.2f}" for i in range(40)],
    )
    table = {"x": list(range(40)), "y": ["ill", "healthy"] * 20}
    types = {"stake": "value"}
    model = client.train(
        pa.table(table | {"stake": text}),
        label="y",
        learner="logistic",
        name="stakes",
        types=types,
    )
    benefits = {
        "ill": {"treat": {"column": "stake"}, "wait": 0},
        "healthy": {"treat": -9, "wait": 0},
    }
    expected = model.answer(pa.table(table | {"stake": stakes}), benefits=benefits)
    for frame in (
        pa.table(table | {"stake": text}),
        [{"x": i, "stake": text[i]} for i in range(40)],
    ):
        assert (
            model.answer(frame, benefits=benefits).expected_benefits
            == expected.expected_benefits
        ).all()
