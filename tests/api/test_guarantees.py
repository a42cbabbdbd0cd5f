"""A guarantee over HTTP: certified on the hold-out, saved, decided by, recorded, and reported on."""

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows, uploaded
from tests.messages import says

MATRIX = {
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -4, "treat": 5}}
}
LIMIT = {"action": "treat", "otherwise": "wait", "wrong": ["healthy"], "at_most": 0.3}
DATA = two_class_rows(1_600)
TABLE = {**MATRIX, "guarantee": LIMIT}
DECIDED = {"rule": "guaranteed", "guarantee": "careful"}


@pytest.fixture(scope="module")
def client(service):
    for model, refit in (("guarded", False), ("guarded", False), ("refitted", True)):
        order = {"learner": {"kind": "logistic"}, "data": DATA, "holdout": 0.5}
        trained(service, {"model": model, "refit": refit, **order})
    return service


@pytest.fixture(scope="module")
def saved(client):
    answer = client.put("/models/guarded:1/guarantees/careful", json=TABLE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def predicted(client, model="guarded:1", **fields):
    body = {"model": model, "instances": DATA["rows"][:300], **fields}
    return client.post("/predict", json=body)


def test_the_report_certifies_the_share_that_is_taken(client, saved):
    answer = client.post("/models/guarded:1/benefit", json=TABLE)
    certified = answer.json()["guarantee"]
    assert certified.items() <= saved.items()
    assert certified["risk"] < certified["bound"] <= 0.3
    assert certified["cases"] == round(certified["share"] * 800)
    assert 0 < certified["cases"] < certified["unrestricted_cases"]
    assert certified["benefit"] < certified["unrestricted_benefit"]
    assert certified["unrestricted_benefit"] == pytest.approx(
        answer.json()["expected_benefit"]["benefit"]
    )
    assert saved["model"] == {"name": "guarded", "version": 1}
    assert saved["request"] == {"rule": "guaranteed", "guarantee": "careful:1"}


def test_the_action_is_taken_from_the_cut_on(client, saved):
    free = predicted(client, **MATRIX).json()
    answer = predicted(client, **DECIDED).json()
    assert (answer["rule"], answer["guarantee"]) == ("guaranteed", "careful:1")
    assert answer["expected_benefits"] == free["expected_benefits"]
    ill = np.array(free["probabilities"])[:, free["classes"].index("ill")]
    refused = (np.array(free["decisions"]) == "treat") & (ill < saved["cut"])
    expected = np.where(refused, "wait", free["decisions"])
    assert answer["decisions"] == expected.tolist()
    assert 0 < refused.sum() < (np.array(free["decisions"]) == "treat").sum()
    again = predicted(client, **DECIDED).json()
    assert again["decisions"] == answer["decisions"]
    as_table = client.post(
        "/predict",
        params={"model": "guarded:1", **DECIDED},
        content="age,pulse,pain\n80,99,strong\n",
        headers={"Content-Type": "text/csv"},
    )
    assert as_table.json()["decisions"] == ["treat"]
    columns = [
        {"name": name, "datatype": kind, "shape": [1], "data": [value]}
        for name, kind, value in (
            ("age", "FP64", 80.0),
            ("pulse", "FP64", 99.0),
            ("pain", "BYTES", "strong"),
        )
    ]
    inferred = client.post(
        "/v2/models/guarded/versions/1/infer",
        json={"inputs": columns, "parameters": DECIDED},
    )
    assert inferred.json()["outputs"][0]["data"] == ["treat"], inferred.text


def test_the_name_means_the_guarantee_of_the_version_that_decides(client, saved):
    strict = TABLE | {"guarantee": LIMIT | {"at_most": 0.2}}
    client.put("/models/guarded:2/guarantees/careful", json=strict).raise_for_status()
    assert predicted(client, **DECIDED).json()["guarantee"] == "careful:1"
    second = predicted(client, "guarded:2", **DECIDED).json()
    assert second["guarantee"] == "careful:2"
    other = predicted(client, rule="guaranteed", guarantee="careful:2")
    assert other.status_code == 422
    assert says(other.json()["errors"][0]["msg"], "careful:2", "version 1", "PUT")
    [listed] = client.get("/models/guarded/guarantees").json()["guarantees"]
    assert (listed["version"], listed["versions"]) == (2, [1, 2])
    first = client.get("/models/guarded/guarantees/careful:1").json()
    assert first == saved | {"versions": [1, 2]}


def test_the_outcome_report_says_whether_it_is_kept(client, saved):
    fields = {"record": True, **DECIDED}
    ids = predicted(client, **fields).json()["ids"]
    outcomes = [
        {"id": id_, "truth": truth}
        for id_, truth in zip(ids, DATA["labels"], strict=False)
    ]
    sent = client.post("/outcomes", json={"outcomes": outcomes})
    assert sent.status_code == 200, sent.text
    report = client.get("/models/guarded:1/outcomes").json()
    [line] = report["guarantees"]
    assert (line["guarantee"], line["version"], line["at_most"]) == (
        "careful:1",
        1,
        0.3,
    )
    decisions = np.array(predicted(client, **DECIDED).json()["decisions"])
    treated = decisions == "treat"
    wrong = np.array(DATA["labels"][:300])[treated] == "healthy"
    assert line["decisions"] == line["known"] == treated.sum()
    assert line["risk"] == pytest.approx(wrong.mean())
    assert line["low"] < line["risk"] < line["high"]


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        (MATRIX, "/benefits", ["its own matrix"]),
        ({"actions": ["wait", "treat"]}, "/actions", ["its own matrix"]),
        ({"priors": {"healthy": 0.5, "ill": 0.5}}, "/priors", ["leave out"]),
        ({"limits": {"treat": 3}}, "/limits", ["expected_benefit"]),
        ({"explain": True}, "/explain", ["expected_benefit"]),
        ({"explore": 0.1, "record": True}, "/explore", ["expected_benefit"]),
        ({"guarantee": None}, "/guarantee", ["needs"]),
        ({"guarantee": "carefull"}, "/guarantee", ["'careful'"]),
        ({"rule": "expected_benefit"}, "/guarantee", ["guaranteed"]),
        ({"model": "refitted"}, "/guarantee", ["PUT /models/refitted/guarantees"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.usefixtures("saved")
def test_what_does_not_go_with_a_guarantee_is_refused(client, fields, place, words):
    refused = predicted(client, **(DECIDED | fields))
    assert refused.status_code == 422, refused.text
    messages = {error["loc"]: error["msg"] for error in refused.json()["errors"]}
    assert says(messages[place], *words), messages


@pytest.mark.parametrize(
    ("limit", "place", "words"),
    [
        ({"action": "operate"}, "/guarantee/action", ["operate"]),
        ({"otherwise": "treat"}, "/guarantee/otherwise", ["another"]),
        ({"wrong": ["dead"]}, "/guarantee/wrong/0", ["dead"]),
        ({"loss_at_most": 0.5}, "/guarantee", ["alone"]),
        ({"wrong": None}, "/guarantee", ["alone"]),
        (
            {"wrong": None, "at_most": None, "loss_at_most": 2},
            "/guarantee/loss_at_most",
            ["more than 1"],
        ),
    ],
)
def test_a_guarantee_that_does_not_fit_is_refused(client, limit, place, words):
    for path in ("benefit", "guarantees/wrong"):
        method = "PUT" if path.startswith("guarantees") else "POST"
        body = TABLE | {"guarantee": LIMIT | limit}
        refused = client.request(method, f"/models/guarded:1/{path}", json=body)
        assert refused.status_code == 422, refused.text
        [error] = refused.json()["errors"]
        assert error["loc"] == place
        assert says(error["msg"], *words)


def test_the_evaluated_model_alone_has_guarantees(client):
    for path in ("benefit", "guarantees/careful"):
        method = "PUT" if path.startswith("guarantees") else "POST"
        refused = client.request(method, f"/models/refitted/{path}", json=TABLE)
        assert refused.status_code == 422
        [error] = refused.json()["errors"]
        assert error["loc"] == "/guarantee"
        assert says(error["msg"], "fitted again", '"refit": false')


def test_new_rows_certify_a_model_that_was_fitted_again(client):
    """By a data set that is named, what `/benefit` says of the probabilities of its rows."""
    new = two_class_rows(1_000, seed=7)
    table = TABLE | {"dataset": uploaded(client, new)}
    answer = client.put("/models/refitted/guarantees/new", json=table)
    assert answer.status_code == 200, answer.text
    saved = answer.json()
    assert (
        saved["rows_in_words"] == f"the 1,000 rows of the data set {table['dataset']}"
    )
    report = client.post("/models/refitted/benefit", json=table).json()
    assert report["guarantee"].items() <= saved.items()
    assert report["evaluation"] == "data set"
    body = {"model": "refitted", "instances": new["rows"], **MATRIX}
    predicted = client.post("/predict", json=body).json()
    given = {name: predicted[name] for name in ("probabilities", "classes")}
    given |= {"labels": new["labels"], "guarantee": LIMIT, **MATRIX}
    expected = client.post("/benefit", json=given).json()
    same = ("guarantee", "curve", "expected_benefit", "threshold", "rules")
    assert {name: report[name] for name in same} == {
        name: expected[name] for name in same
    }


def test_rows_that_the_model_learned_from_certify_nothing(client):
    card = client.get("/models/refitted/versions/1").json()
    for dataset, place, words in (
        (card["data"]["dataset"], "/dataset", "learned from"),
        ("nothing", "/dataset", "'nothing'"),
        (
            uploaded(
                client,
                {
                    "features": ["age"],
                    "rows": [[i] for i in range(9)],
                    "labels": [*"abababbab"],
                },
            ),
            "/dataset",
            "'pulse'",
        ),
    ):
        table = TABLE | {"dataset": dataset}
        for method, path in (("PUT", "guarantees/x"), ("POST", "benefit")):
            answer = client.request(method, f"/models/refitted/{path}", json=table)
            assert answer.status_code in (404, 422)
            assert says(place, words) in answer.json()["errors"]


@pytest.mark.parametrize("size", [40, 500, 1_000])
def test_training_rows_among_new_ones_are_found_in_any_order(client, size):
    """A part of them, or with new ones: a model that fits them closely would look safe."""
    new = two_class_rows(1_000, seed=8)
    rows = [*reversed(DATA["rows"][:size]), *new["rows"][: 1_000 - size]]
    labels = [*reversed(DATA["labels"][:size]), *new["labels"][: 1_000 - size]]
    data = DATA | {"rows": rows, "labels": labels}
    table = TABLE | {"dataset": uploaded(client, data)}
    for method, path in (("PUT", "guarantees/x"), ("POST", "benefit")):
        answer = client.request(method, f"/models/refitted/{path}", json=table)
        assert answer.status_code == 422
        [error] = answer.json()["errors"]
        assert error["loc"] == "/dataset"
        assert says(error["msg"], "rows of it", "learned from")


def test_equal_rows_of_few_values_are_no_sign_of_training(client):
    """Draws of four numbers of five values repeat each other by chance."""
    rng = np.random.default_rng(3)

    def drawn(n):
        X = rng.integers(0, 5, (n, 4))
        y = np.where(rng.random(n) < (1 + X[:, 0]) / 6, "ill", "healthy")
        return {"features": [*"abcd"], "rows": X.tolist(), "labels": y.tolist()}

    order = {"model": "coarse", "learner": {"kind": "logistic"}, "data": drawn(800)}
    trained(client, order)
    report = {**MATRIX, "dataset": uploaded(client, drawn(900))}
    answer = client.post("/models/coarse/benefit", json=report)
    assert answer.status_code == 200, answer.text


def test_rows_of_groups_are_no_independent_draws(client):
    patients = [[*row, f"p{i // 4}"] for i, row in enumerate(DATA["rows"])]
    columns = {"features": [*DATA["features"], "patient"], "rows": patients}
    order = {
        "model": "grouped",
        "learner": {"kind": "logistic"},
        "data": DATA | columns | {"types": {"patient": "ignore"}},
        "holdout": {"part": 0.5, "by": "group", "column": "patient"},
        "refit": False,
    }
    trained(client, order)
    refused = client.post("/models/grouped/benefit", json=TABLE)
    [error] = refused.json()["errors"]
    assert error["loc"] == "/guarantee"
    assert says(error["msg"], "by group", "independent")


def test_nothing_is_saved_where_nothing_is_certified(client):
    body = TABLE | {"guarantee": LIMIT | {"at_most": 0.001}}
    report = client.post("/models/guarded:1/benefit", json=body).json()["guarantee"]
    assert (report["cut"], report["cases"]) == (None, 0)
    assert says(report["reason"], "2995", "fewest")
    refused = client.put("/models/guarded:1/guarantees/none", json=body)
    assert refused.status_code == 409
    assert report["reason"] in refused.json()["detail"]


def test_each_case_may_have_its_own_benefits(client):
    by_age = {"column": "age", "times": -0.02}
    matrix = {
        "healthy": {"wait": 0, "treat": by_age},
        "ill": {"wait": -4, "treat": 5},
    }
    body = {"benefits": matrix, "guarantee": LIMIT}
    saved = client.put("/models/guarded:1/guarantees/by-age", json=body).json()
    free = predicted(client, benefits=matrix).json()
    answer = predicted(client, rule="guaranteed", guarantee="by-age").json()
    assert answer["expected_benefits"] == free["expected_benefits"]
    ill = np.array(free["probabilities"])[:, free["classes"].index("ill")]
    refused = (np.array(free["decisions"]) == "treat") & (ill < saved["cut"])
    expected = np.where(refused, "wait", free["decisions"])
    assert answer["decisions"] == expected.tolist()
    assert refused.any()
    money = {"action": "treat", "otherwise": "wait", "loss_at_most": 0.4}
    unbounded = client.post(
        "/models/guarded:1/benefit", json={"benefits": matrix, "guarantee": money}
    )
    [error] = unbounded.json()["errors"]
    assert error["loc"] == "/guarantee/loss_at_most"


def test_losses_of_money_have_a_limit_too(client):
    limit = {"action": "treat", "otherwise": "wait", "loss_at_most": 0.4}
    body = MATRIX | {"guarantee": limit}
    answer = client.put("/models/guarded:1/guarantees/cheap", json=body)
    document = answer.json()
    assert document["cut"] < 0  # minus the expected loss
    assert document["risk"] < document["bound"] <= 0.4
    decided = predicted(client, rule="guaranteed", guarantee="cheap").json()
    healthy = np.array(decided["probabilities"])[:, decided["classes"].index("healthy")]
    treated = np.array(decided["decisions"]) == "treat"
    assert treated.any()
    assert (-healthy[treated] >= document["cut"] - 1e-9).all()


def test_probabilities_of_another_system_are_certified(client):
    rng = np.random.default_rng(0)
    P = rng.random((400, 1)) ** 3
    body = {
        "probabilities": np.hstack((P, 1 - P)).tolist(),
        "classes": ["bad", "good"],
        "labels": np.where(rng.random(400) < P[:, 0], "bad", "good").tolist(),
        "benefits": {
            "bad": {"approve": -9, "refer": -1},
            "good": {"approve": 2, "refer": -1},
        },
        "guarantee": {
            "action": "approve",
            "otherwise": "refer",
            "wrong": ["bad"],
            "at_most": 0.1,
        },
    }
    certified = client.post("/benefit", json=body).json()["guarantee"]
    assert certified["bound"] <= 0.1
    refused = client.post("/benefit", json=body | {"priors": {"bad": 0.5, "good": 0.5}})
    assert [error["loc"] for error in refused.json()["errors"]] == ["/priors"]


def test_deleting_it_is_in_the_audit_log(client):
    body = TABLE | {"guarantee": LIMIT | {"confidence": 0.9}}
    client.put("/models/guarded:1/guarantees/brief", json=body).raise_for_status()
    assert client.delete("/models/guarded/guarantees/brief").status_code == 204
    assert client.get("/models/guarded/guarantees/brief").status_code == 404
    entries = client.get("/audit").json()["entries"][:2]
    assert [(entry["action"], entry["subject"]) for entry in entries] == [
        ("guarantee.delete", "guarded/brief"),
        ("guarantee.save", "guarded/brief"),
    ]
