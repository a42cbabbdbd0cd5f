"""Models that learned from rewards, by the client and the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from payoff_client import commands

LEARNER = {"kind": "rewards", "action": "offer", "propensity": "p"}


@pytest.fixture(scope="module")
def log():
    random = np.random.default_rng(0)
    age = random.uniform(20, 80, 200).round(1)
    offer = random.choice(["call", "none"], 200)
    margin = np.where(offer == "call", (age - 50) / 10, 0) + random.normal(0, 0.3, 200)
    return pd.DataFrame(
        {
            "age": age,
            "region": random.choice(["north", "south"], 200),
            "offer": offer,
            "p": 0.5 + random.choice([-1e-9, 1e-9], 200),
            "margin": margin,
        }
    )


@pytest.fixture(scope="module")
def model(client, log):
    return client.train(
        log, label="margin", learner=LEARNER, name="offers", holdout=0.5, refit=False
    )


def test_frames_get_benefits_and_uplift(model, log):
    cases = log[["age", "region"]].assign(fee=1.5)
    costs = {"call": {"column": "fee"}}
    decided = model.decide(cases, baseline="none", costs=costs)
    assert list(decided.columns) == [
        "fee",
        "decision",
        "benefit:call",
        "benefit:none",
        "uplift:call",
        "uplift:none",
    ]
    uplift = decided["benefit:call"] - decided["benefit:none"]
    np.testing.assert_allclose(decided["uplift:call"], uplift)
    free = model.answer(cases[["age", "region"]])
    np.testing.assert_allclose(
        free.expected_benefits[:, 0] - 1.5, decided["benefit:call"]
    )
    assert free.uplift is None
    assert free.probabilities.shape == (200, 0)
    assert model.card()["metrics"]["verdict"] in ("better", "undecided")


def test_a_file_is_decided_by_costs_in_a_file(
    model, service, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    (tmp_path / "cases.csv").write_text("age,region\n78,north\n22,south\n")
    stakes = {"costs": {"call": 0.1}, "baseline": "none"}
    (tmp_path / "costs.json").write_text(json.dumps(stakes))
    arguments = ["predict", "offers", str(tmp_path / "cases.csv")]
    assert commands.main(arguments) == 0
    assert [
        line.split(",")[0].strip('"') for line in capsys.readouterr().out.split()[1:]
    ] == [
        "call",
        "none",
    ]
    assert commands.main([*arguments, "--benefits", str(tmp_path / "costs.json")]) == 0
    assert "uplift:call" in capsys.readouterr().out


def test_notebooks_show_pictures_of_the_card_and_of_rewards(client, log):
    learner = {**LEARNER, "baseline": "none"}
    model = client.train(
        log, label="margin", learner=learner, name="pictured", holdout=0.5
    )
    metrics = model.card()["metrics"]
    shown = metrics._repr_html_()
    assert shown.count("<svg") == 3
    for words in (
        "always call: ",
        "Uplift, call instead of none",
        "Expected and observed rewards",
    ):
        assert words in shown
    assert f"the policy: {metrics['value']['mean']:.3g}" in shown
    assert "predicted" not in shown  # a table in a cell
    cases = log[["age", "region"]]
    assert model.outcomes()._repr_html_().count("<svg") == 0
    answer = model.answer(cases, explore=0.5, record={"instances": True})
    rewards = [float(call == "call") for call in answer.decisions]
    outcomes = [
        {"id": id_, "benefit": reward}
        for id_, reward in zip(answer.ids, rewards, strict=True)
    ]
    client.send_outcomes(outcomes)
    shown = model.outcomes()._repr_html_()
    assert shown.count("<svg") == 2
    assert "more than always none: " in shown
