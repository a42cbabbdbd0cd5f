"""The report on outcomes over HTTP: against a client's own ledger, as a chart, and where truth is selected."""

from __future__ import annotations

import numpy as np
import pytest

from app.database import Database
from app.outcomes.decision import Terms
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.outcomes.records import decided, told
from tests.usecases.outcome_worlds import money

MATRIX = [[0, -1], [-10, 5]]
DAY = 20_000
LOANS = Terms("predict", "loans", 1, "expected_benefit", ("0", "1"), ("grant", "refuse"), ((1.0, 0.0), (-8.0, 0.0)))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A service with the models `ward`, which is asked over HTTP, and `loans`, whose decisions are in the database."""
    folder = tmp_path_factory.mktemp("reports")
    data = two_class_rows()
    numbers = {**data, "features": ["age", "pulse"], "rows": [row[:2] for row in data["rows"]]}
    with serving(settings_for(folder)) as client:
        trained(
            client, {"model": "ward", "learner": {"kind": "logistic"}, "data": data, "holdout": 0.6, "refit": False}
        )
        trained(client, {"model": "loans", "learner": {"kind": "logistic"}, "data": numbers})
        client.data = data
        database = Database(f"sqlite:///{folder / 'home' / 'payoff.db'}")
        selected(database)
        database.close()
        yield client


def selected(database):
    """Loans that are granted where that is expected to earn; the others are never repaid."""
    rng = np.random.default_rng(1)
    for day in range(DAY, DAY + 4):
        share = rng.beta(1, 5, 200)
        P = np.column_stack((1 - share, share))
        choice = (P @ np.array(LOANS.benefits)).argmax(axis=1).tolist()
        ids = decided(
            database, 200, terms=LOANS, at=day * 86_400.0 + 5, probabilities=P.tolist(), choice=choice, client="bank"
        )
        granted = [i for i in range(200) if choice[i] == 0]
        truths = (rng.random(len(granted)) < share[granted]).astype(int).tolist()
        told(database, [ids[i] for i in granted], truths, terms=LOANS, day=day)


def get(client, path="loans", status=200, headers=None, **query):
    response = client.get(f"/models/{path}/outcomes", params=query, headers=headers)
    assert response.status_code == status, response.text
    return response


def test_sums_are_those_of_the_clients_ledger(client):
    rows, labels, actions = client.data["rows"], client.data["labels"], ["wait", "treat"]
    question = {"model": "ward", "instances": rows, "benefits": MATRIX, "actions": actions}
    answer = client.post("/predict", json={**question, "record": {"instances": True}}).json()
    outcomes, received = [], 0.0
    for i, (id_, truth, decision) in enumerate(zip(answer["ids"], labels, answer["decisions"], strict=True)):
        if i % 3 == 0:
            continue
        outcomes.append({"id": id_, "truth": truth})
        taken = actions.index(decision)
        if i % 10 == 1:
            taken = 1 - taken
            outcomes[-1]["action"] = actions[taken]
        benefit = MATRIX[truth == "ill"][taken]
        if i % 20 == 2:
            outcomes[-1]["benefit"] = benefit = benefit - 0.5
        received += benefit
    assert client.post("/outcomes", json={"outcomes": outcomes}).json()["accepted"] == len(outcomes)

    report = get(client, "ward").json()

    assert (report["decisions"], report["known"]) == (len(rows), len(outcomes))
    assert report["realised"]["total"] == pytest.approx(received)
    assert report["model"] == {"name": "ward", "version": None}
    assert [line["classes"][0]["class"] for line in report["priors"]["versions"]] == ["healthy"]
    assert get(client, "ward:1").json()["realised"] == report["realised"]
    assert get(client, "ward", by="day").json()["groups"][0]["realised"] == report["realised"]


def test_selected_truth_is_said_at_every_amount(client):
    report = get(client, by="action").json()

    assert report["selective"]["is"]
    assert [line["version"] for line in report["drift"]["scores"]] == [1]  # its earlier days against its later ones
    assert {line["action"]: line["coverage"] for line in report["selective"]["actions"]} == {"grant": 1, "refuse": 0}
    for path, node in money(report):
        assert "not an estimate for all decisions" in node["basis"] or node["basis"].startswith("all decisions"), path
    svg = {"Accept": "image/svg+xml"}
    assert get(client, headers=svg, by="action").json() == report, "there is no picture of it"


def test_a_period_leaves_out_what_was_decided_before_and_after(client):
    day = "2024-10-05T00:00:00Z"  # the second of the four days
    assert get(client, since=day).json()["decisions"] == 600
    assert get(client, until=day).json()["decisions"] == 200
    assert get(client, since="2024-10-05", until="2024-10-06").json()["decisions"] == 200
    report = get(client, since=str(DAY * 86_400 + 86_400)).json()
    assert report["since"].startswith("2024-10-05")
    assert [group["group"] for group in get(client, by="day", until=day).json()["groups"]] == ["2024-10-04"]
    assert get(client, since="2030-01-01").json()["decisions"] == 0


def test_what_cannot_be_reported_is_refused(client):
    get(client, by="colour", status=422)
    for reference, status in (("nobody", 404), ("ward:99", 404), ("ward@nowhere", 404), ("Not_A_Name!", 422)):
        get(client, reference, status=status)
    assert get(client, since="0001-01-01", until="9999-12-31").json()["decisions"] == 800


def test_an_empty_report_names_the_versions_that_have_decisions_and_how_to_ask(client):
    data = two_class_rows()
    trained(client, {"model": "moved", "learner": {"kind": "logistic"}, "data": data})
    assert get(client, "moved").json()["warnings"] == [
        'no decision of moved is recorded in this period: send "record": true to /predict'
    ]
    question = {"model": "moved", "instances": data["rows"][:5], "benefits": MATRIX, "record": True}
    assert client.post("/predict", json=question).status_code == 200
    assert "POST /outcomes" in get(client, "moved").json()["warnings"][0]
    trained(client, {"model": "moved", "learner": {"kind": "logistic"}, "data": data})
    assert client.put("/models/moved/aliases/champion", json={"version": 2}).status_code == 200

    for reference in ("moved@champion", "moved:2"):
        report = get(client, reference).json()
        assert report["decisions"] == 0
        (warning,) = report["warnings"]
        assert warning.startswith(f"no decision of {reference} is recorded in this period: ask for moved, which")
    (warning,) = get(client, "loans", since="2025-01-01").json()["warnings"]
    assert warning.startswith("no decision of loans is recorded in this period: send")
    assert get(client, "loans").json()["decisions"] == 800
