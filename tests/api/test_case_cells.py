"""Matrices in words, as costs, and with cells that depend on the case: each route answers as with numbers."""

import json
import time

import numpy as np
import pytest

from tests.api.column_bodies import WRITERS, csv, npy
from tests.conftest import trained, two_class_rows, uploaded
from tests.messages import says, without_words
from tests.reference.decisions import written_out

ROWS = [[70, 88, "strong"], [30, 60, "mild"], [50, 75, "mild"]]
ACTIONS = [
    "wait",
    "treat",
]  # in words they have no order, and get one by the numbers of the matrix
FEATURES = ["age", "pulse", "pain"]
AMOUNTS = [3.5, 200.0, -4.0]
MATRIX = {
    "healthy": {"wait": 0, "treat": {"column": "amount", "times": -0.75, "plus": 2}},
    "ill": {"wait": {"column": "age", "times": -0.125}, "treat": 5},
}
CASES = [
    {"amount": amount, "age": row[0]} for amount, row in zip(AMOUNTS, ROWS, strict=True)
]
OBJECTS = [
    dict(zip(FEATURES, row, strict=True), amount=amount)
    for row, amount in zip(ROWS, AMOUNTS, strict=True)
]
TABLE = {name: [one[name] for one in OBJECTS] for name in (*FEATURES, "amount")}
MEMBERS = {"instances": OBJECTS}
BESIDE = {"instances": ROWS, "columns": {"amount": AMOUNTS}}
QUERY = {
    "model": "ward",
    "benefits": json.dumps(MATRIX),
    "actions": json.dumps(ACTIONS),
}


def ask(service, **question):
    return service.post(
        "/predict", json={"model": "ward", "actions": ACTIONS} | question
    )


@pytest.fixture(scope="module")
def expected(service, ward):
    """The answer with the matrices written out."""
    answer = ask(service, instances=ROWS, benefits=written_out(MATRIX, CASES)).json()
    assert len(set(answer["decisions"])) == 2
    return answer


@pytest.mark.parametrize("rows", [MEMBERS, BESIDE])
@pytest.mark.parametrize(
    "options",
    [
        {"explain": True},
        {"limits": {"treat": 1}},
        {"resources": [{"name": "hours", "use": {"treat": 1.5}, "at_most": 2}]},
        {"priors": {"healthy": 0.9, "ill": 0.1}},
        {"rule": "threshold", "threshold": 0.4},
    ],
)
def test_every_option_answers_as_with_the_matrices_written_out(
    service, ward, rows, options
):
    for field in ("benefits", "cost_matrix"):
        for _ in range(2):  # the second time the matrix is known
            found = ask(service, **rows, **options, **{field: MATRIX})
        plain = ask(
            service, instances=ROWS, **options, **{field: written_out(MATRIX, CASES)}
        )
        assert without_words(found) == without_words(plain)


@pytest.mark.parametrize("kind", WRITERS)
def test_tables_have_the_column_beside_the_features(service, ward, expected, kind):
    headers = {"Content-Type": kind, "Accept": "application/json"}
    for keep in ({}, {"keep": "amount"}):
        answer = service.post(
            "/predict",
            params=QUERY | keep,
            content=WRITERS[kind](TABLE),
            headers=headers,
        )
        assert without_words(answer) == expected | (
            {"kept": {"amount": AMOUNTS}} if keep else {}
        )
    gap = WRITERS[kind](TABLE | {"amount": [1, None, 3]})
    errors = service.post(
        "/predict", params=QUERY, content=gap, headers=headers
    ).json()["errors"]
    assert errors == [says("/1/amount", "missing")]


def test_columns_come_beside_arrays_probabilities_and_tensors(
    service, ward, numeric, expected
):
    P, columns = (
        expected["probabilities"],
        {"amount": AMOUNTS, "age": [row[0] for row in ROWS]},
    )
    given = {
        "probabilities": P,
        "classes": ["healthy", "ill"],
        "benefits": MATRIX,
        "columns": columns,
        "actions": ACTIONS,
    }
    answer = without_words(service.post("/predict", json=given))
    assert answer == {
        name: value for name, value in expected.items() if name != "model"
    } | {"warnings": answer["warnings"]}
    query = {
        name: json.dumps(given[name])
        for name in ("classes", "benefits", "columns", "actions")
    }
    array = service.post(
        "/predict",
        params=query,
        content=npy(P),
        headers={"Content-Type": "application/x-npy"},
    )
    assert without_words(array) == answer
    inputs = [
        {
            "name": "x",
            "datatype": "FP64",
            "shape": [3, 2],
            "data": [row[:2] for row in ROWS],
        }
    ]
    sent = {"benefits": MATRIX, "columns": {"amount": AMOUNTS}, "actions": ACTIONS}
    tensors = service.post(
        f"/v2/models/{numeric}/infer", json={"inputs": inputs, "parameters": sent}
    )
    plain = sent | {"benefits": written_out(MATRIX, CASES), "columns": None}
    written = service.post(
        f"/v2/models/{numeric}/infer", json={"inputs": inputs, "parameters": plain}
    )
    assert without_words(tensors) == without_words(written)


def test_a_saved_matrix_keeps_its_cells(service, ward, expected):
    for field, sign in (("benefits", 1), ("cost_matrix", -1)):
        saved = service.put(
            f"/models/{ward}/matrices/by-amount",
            json={field: MATRIX, "actions": ACTIONS},
        ).json()
        cell = saved["benefits"]["healthy"]["treat"]
        assert cell == {"column": "amount", "times": -0.75 * sign, "plus": 2.0 * sign}
        found = [
            without_words(ask(service, **rows, benefits="by-amount", actions=None))
            for rows in (MEMBERS, MEMBERS, BESIDE)
        ]
        plain = ask(
            service, instances=ROWS, **{field: written_out(MATRIX, CASES)}
        ).json()
        assert found == [plain] * 3
    assert ask(service, instances=ROWS, benefits="by-amount", actions=None).json()[
        "errors"
    ] == [says("/benefits/healthy/treat/column", "unknown column 'amount'", "'age'")]


CELL = "/benefits/healthy/treat/column"
MANY = {"amount": list(range(280))}
BAD = [  # what is sent, and what is wrong with it
    ({"instances": ROWS}, says(CELL, "'amount'", "allowed", "'age'", "'columns'")),
    ({"instances": [one | {"amount": None} for one in OBJECTS]}, says("/instances/0/amount", "missing")),
    ({"instances": [OBJECTS[0], {**OBJECTS[1], "amount": "5"}]}, says("/instances/1/amount", "a number or null")),
    ({"instances": [OBJECTS[0], {**OBJECTS[1], "amount": 1e300}]}, says("/instances/1/amount", "1e+300")),
    ({"instances": [{**OBJECTS[0], "size": 1}]}, says("/instances/0/size", "unknown feature")),
    ({"instances": [{**OBJECTS[0], "age": None}]}, says("/instances/0/age", "missing")),
    ({"instances": [[None, 80, "mild"]], "columns": {"amount": [1]}}, says("/instances/0/0", "'age' is missing")),
    (BESIDE | {"columns": {"amount": AMOUNTS[:2]}}, says("/columns/amount", "a list of 3 numbers")),
    (BESIDE | {"columns": {"amount": [1, None, 2]}}, says("/columns/amount/1", "missing")),
    (BESIDE | {"columns": {"amount": [1, "2", 2]}}, says("/columns/amount/1", "a number or null")),
    (BESIDE | {"columns": {"amount": AMOUNTS, "size": AMOUNTS}}, says("/columns/size", "unknown", "'amount'")),
    (BESIDE | {"columns": {"amount": AMOUNTS, "age": AMOUNTS}}, says("/columns/age", "the instances have 'age'")),
    (MEMBERS | {"columns": {"amount": AMOUNTS}}, says("/columns/amount", "the instances have 'amount'")),
    ({"instances": ROWS, "benefits": [[0, {"column": "pain"}], [1, 2]]}, says("/benefits/0/1/column", "is text")),
    (BESIDE | {"benefits": [[0, 1], [1, 2]]}, says("/columns/amount", "none is allowed")),
    (BESIDE | {"rule": "threshold", "threshold": "posterior"}, says("/benefits", "expected_benefit")),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "flaw"), BAD)
def test_what_cannot_be_used_is_named_in_its_place(service, ward, sent, flaw):
    answer = ask(service, **{"benefits": MATRIX} | sent)
    assert answer.status_code == 422
    assert flaw in answer.json()["errors"], answer.text


def test_a_simulation_judges_and_stops_each_row_by_its_own(service, forest):
    """Of rows twice, each time with another amount, the means are those between the two."""
    matrix = MATRIX | {"ill": {"wait": {"column": "amount", "times": -2}, "treat": 5}}
    table = two_class_rows(40)
    order = {
        "model": forest,
        "actions": ACTIONS,
        "feature_costs": {"pulse": 0.2, "pain": 0.1},
        "budgets": [0.2],
    }

    def told(n, **sent):
        sent |= {"rows": table["rows"] * n, "labels": table["labels"] * n}
        answer = service.post("/acquire/simulate", json=order | sent)
        return (
            answer.json()["budgets"][0]
            if answer.status_code == 200
            else answer.json()["errors"]
        )

    small, large = (
        told(1, benefits=own)
        for own in written_out(matrix, [{"amount": 1}, {"amount": 20}])
    )
    found = told(2, benefits=matrix, columns={"amount": [1] * 40 + [20] * 40})
    assert small["worth_stopping"] != large["worth_stopping"]
    for way in ("plain", "worth_stopping"):
        between = {
            name: (value + large[way][name]) / 2 for name, value in small[way].items()
        }
        assert found[way] == pytest.approx(between, abs=1e-12)
    assert "worth_stopping" not in {
        name for name, way in told(7, benefits=matrix, columns=MANY).items() if way
    }
    assert says("/columns/amount/3", "missing") in told(
        1, benefits=matrix, columns={"amount": [1, 2, 3, None] * 10}
    )


def test_acquire_stops_and_decides_each_case_by_its_own(service, forest):
    rng = np.random.default_rng(5)
    cases = [
        {"age": age} if age > 50 else {"pulse": 70, "age": age}
        for age in rng.normal(50, 8, 40).round(1).tolist()
    ]
    amounts = rng.gamma(1, 4, 40).tolist()
    matrix = MATRIX | {
        "ill": {
            "wait": {"column": "amount", "times": -2},
            "treat": {"column": "age", "times": 0.1},
        }
    }
    asked = {
        "model": forest,
        "actions": ACTIONS,
        "benefits": matrix,
        "feature_costs": {"pulse": 0.2, "pain": 0.1},
    }
    found = service.post(
        "/acquire", json=asked | {"instances": cases, "columns": {"amount": amounts}}
    ).json()
    assert len({one["reason"] for one in found["results"]}) > 1
    for case, amount, state in zip(cases, amounts, found["results"], strict=True):
        (own,) = written_out(matrix, [case | {"amount": amount}])
        alone = service.post(
            "/acquire", json=asked | {"known": case, "benefits": own}
        ).json()
        for name in (
            "expected_benefits",
            "expected_gain",
        ):  # one matrix for all cases is multiplied in another order
            assert alone[name] == pytest.approx(state.pop(name), abs=1e-12)
        assert {name: alone[name] for name in state} == state
    wide = {
        "benefits": [[{"column": "amount"}] * 250] * 2,
        "actions": [str(i) for i in range(250)],
    }
    many = {
        "instances": [{"age": 50}] * 101,
        "columns": {"amount": list(range(101))},
    }  # which would take some seconds
    assert (
        "takes up to 100:"
        in service.post("/acquire", json=asked | wide | many).json()["detail"]
    )
    whole = [
        dict(zip(FEATURES, row, strict=True)) for row in ROWS
    ]  # of which nothing more is asked
    began = time.time()
    for instances in ([], whole):
        sent = {
            "instances": instances,
            "columns": {"amount": AMOUNTS[: len(instances)]},
            "record": {"instances": True},
        }
        done = service.post("/acquire", json=asked | sent)
        assert done.status_code == 200, done.text
        assert [one["reason"] for one in done.json()["results"]] == ["resolved"] * len(
            instances
        )
    order = {"benefits": matrix, "actions": ACTIONS, "since": began}
    job = service.post(
        f"/models/{forest}/replay", json=order, headers={"Prefer": "wait=60"}
    ).json()
    assert (job["result"]["decisions"], job["result"]["left_out"]) == (3, {})
    for sent, flaw in (
        (
            {"known": {"pulse": 70}, "columns": {"amount": [1]}},
            says("/known/age", "'age' is missing"),
        ),
        (
            {"known": {"age": 70}},
            says("/benefits/healthy/treat/column", "'amount'", "'age'"),
        ),
        (
            {"known": {"age": 70}, "columns": {"amount": [None]}},
            says("/columns/amount/0", "missing"),
        ),
        (
            {"known": {"age": 7}, "columns": {"amount": [1, 2]}},
            says("/columns/amount", "a list of 1 numbers"),
        ),
    ):
        assert flaw in service.post("/acquire", json=asked | sent).json()["errors"]


def test_recorded_decisions_have_their_own_matrices_and_replay_with_cells(service):
    """Of two models that are the same the one records by cells, the other by the matrices written out."""
    rows = two_class_rows(60)
    amounts = np.random.default_rng(1).gamma(2, 3, 60).round(2).tolist()
    cases = [
        {"amount": amount, "age": row[0]}
        for amount, row in zip(amounts, rows["rows"], strict=True)
    ]
    results = []
    for model, benefits in (
        ("by-cells", MATRIX),
        ("by-written", written_out(MATRIX, cases)),
    ):
        trained(
            service,
            {
                "model": model,
                "learner": {"kind": "logistic"},
                "data": two_class_rows(),
                "holdout": 0,
            },
        )
        ids = [f"{model}-{i}" for i in range(60)]
        asked = {
            "model": model,
            "instances": rows["rows"],
            "benefits": benefits,
            "actions": ACTIONS,
        }
        asked |= {"columns": {"amount": amounts}} if model == "by-cells" else {}
        recorded = service.post(
            "/predict", json=asked | {"record": {"ids": ids, "instances": True}}
        )
        assert recorded.status_code == 200, recorded.text
        told = [
            {"id": id_, "truth": label}
            for id_, label in zip(ids, rows["labels"], strict=True)
        ]
        assert (
            service.post("/outcomes", json={"outcomes": told}).json()["accepted"] == 60
        )
        rules = {
            "rules": [
                {"rule": "most_probable"},
                {"rule": "expected_benefit", "priors": {"healthy": 0.2, "ill": 0.8}},
            ]
        }
        orders = [
            rules,
            rules | {"benefits": MATRIX, "actions": ACTIONS, "models": [model]},
        ]
        for order in orders[: 2 if model == "by-cells" else 1]:
            job = service.post(
                f"/models/{model}/replay", json=order, headers={"Prefer": "wait=60"}
            ).json()
            assert job["status"] == "succeeded", job
            assert job["result"]["left_out"] == {}
            results.append(job["result"]["alternatives"][:2])
        if model == "by-written":  # whose instances have no amount
            job = service.post(
                f"/models/{model}/replay", json=orders[1], headers={"Prefer": "wait=60"}
            ).json()
            assert job["result"]["left_out"] == {"without_columns": 60}
    assert results[0] == results[1] == results[2]


def test_training_and_reports_count_each_case_by_its_own_matrix(service):
    """The metrics of the card, the report on the hold-out and that on probabilities sent: all as by hand."""
    rng = np.random.default_rng(0)
    amount = np.exp(rng.normal(3, 1, 700)).round(2)
    signal = rng.normal(size=700).round(3)
    fraud = rng.random(700) < 1 / (1 + np.exp(2 - 2 * signal))
    data = {
        "features": ["amount", "signal"],
        "rows": np.column_stack((amount, signal)).tolist(),
        "labels": np.where(fraud, "fraud", "fine").tolist(),
    }
    matrix = {
        "fine": {"pass": 0, "check": -4},
        "fraud": {"pass": {"column": "amount", "times": -1}, "check": -4},
    }
    quick = {"kind": "auto", "max_seconds": 1e-9}
    order = {"model": "transfers", "learner": quick, "data": data, "benefits": matrix}
    job = trained(service, order)
    report = service.post("/models/transfers/benefit", json={"benefits": matrix}).json()
    assert report["expected_benefit"]["benefit"] == pytest.approx(
        job["metrics"]["benefit"], abs=1e-12
    )
    card = service.get("/models/transfers/versions/1").json()
    assert card["benefits"][1] == pytest.approx([-amount.mean(), -4])
    assert card["case_benefits"][1][0] == {
        "column": "amount",
        "times": -1.0,
        "plus": 0.0,
    }

    asked = {"model": "transfers", "instances": data["rows"], "benefits": matrix}
    answer = service.post("/predict", json=asked).json()
    passed = np.array(answer["decisions"]) == "pass"
    earned = np.where(passed, np.where(fraud, -amount, 0.0), -4.0)
    given = {name: answer[name] for name in ("probabilities", "classes")} | {
        "labels": data["labels"]
    }
    columns = {"columns": {"amount": amount.tolist()}}
    report = service.post(
        "/benefit", json=given | columns | {"benefits": matrix}
    ).json()
    assert report["expected_benefit"]["benefit"] == pytest.approx(
        earned.mean(), abs=1e-12
    )
    assert report["upper_bound"] == pytest.approx(
        np.where(fraud, -np.minimum(amount, 4), 0.0).mean(), abs=1e-12
    )
    ruled = next(one for one in report["rules"] if one["rule"] == "threshold_holdout")[
        "request"
    ]
    assert ruled == {"rule": "threshold", "threshold": report["threshold"]}
    assert report["posterior_threshold"] is None

    cell = "/benefits/fraud/pass/column"
    asked = {
        "dataset": uploaded(service, data),
        "learners": [{"kind": "logistic"}, quick],
        "benefits": matrix,
    }
    job = service.post("/compare", json=asked, headers={"Prefer": "wait=60"}).json()
    table = job["result"]
    assert table["upper_bound"] == pytest.approx(report["upper_bound"], abs=1e-12)
    checked = next(one for one in table["table"] if one["rule"] == "same_for_all")
    assert checked["benefit"] == pytest.approx(
        max(np.where(fraud, -amount, 0).mean(), -4), abs=1e-12
    )
    assert table["best"]["rule"] in ("expected_benefit", "threshold_holdout")
    unknown = matrix | {"fraud": {"pass": {"column": "sum"}, "check": 0}}
    for path, body in (
        ("/train", order),
        ("/models/transfers/benefit", {}),
        ("/compare", asked),
    ):
        errors = service.post(path, json=body | {"benefits": unknown}).json()["errors"]
        assert errors == [says(cell, "unknown column 'sum'", "'amount'")]
    data["rows"][3][0] = None
    assert service.post("/train", json=order).json()["errors"] == [
        says(cell, "'amount'", "missing in 1 row")
    ]


def test_a_report_on_the_hold_out_takes_numeric_features_that_no_matrix_named(service):
    """It is that of the same model which was trained with the matrix."""
    order = {
        "learner": {"kind": "logistic"},
        "data": two_class_rows(),
        "actions": ACTIONS,
    }
    age = MATRIX | {"healthy": {"wait": 0, "treat": {"column": "age", "times": -0.01}}}
    cells = {"benefits": age, "actions": ACTIONS}
    reports = []
    for model, benefits in (
        ("age-named", {"benefits": age}),
        ("age-unnamed", {"actions": None}),
    ):
        trained(service, order | {"model": model} | benefits)
        report = service.post(f"/models/{model}/benefit", json=cells)
        assert report.status_code == 200, report.text
        reports.append(
            {name: value for name, value in report.json().items() if name != "model"}
        )
    assert reports[0] == reports[1]


def test_a_value_is_kept_beside_the_features(service):
    """Of a file with amounts in text: in the data set, on the hold-out, and in instances, where it is no feature."""
    rng = np.random.default_rng(1)
    amount, signal = (
        np.exp(rng.normal(8, 1, 600)).round(2),
        rng.normal(size=600).round(3),
    )
    label = np.where(
        rng.random(600) < 1 / (1 + np.exp(2 - 2 * signal)), "fraud", "fine"
    )
    text = [f"{value:,.2f} €" for value in amount]
    file = csv({"amount": text, "signal": signal.tolist(), "label": label.tolist()})
    sent = {"label": "label", "types": json.dumps({"amount": "value"})}
    dataset = service.post(
        "/datasets", files={"file": ("t.csv", file)}, data=sent
    ).json()
    assert [feature["name"] for feature in dataset["features"]] == ["signal"]
    assert "cells" in dataset["ignored"]["amount"]
    assert [column["type"] for column in dataset["columns"]] == [
        "numeric",
        "value",
        "categorical",
    ]
    refused = service.post(
        "/datasets",
        files={"file": ("t.csv", file)},
        data=sent | {"types": '{"label": "value"}'},
    )
    assert refused.json()["errors"] == [says("/types/label", "is the label")]

    matrix = {
        "fine": {"pass": 0, "check": -40},
        "fraud": {"pass": {"column": "amount", "times": -1}, "check": -40},
    }
    order = {
        "model": "payments",
        "learner": {"kind": "logistic"},
        "data": {"dataset": dataset["id"]},
    }
    job = trained(service, order | {"benefits": matrix})
    assert service.get("/models/payments/versions/1").json()["benefits"][1][
        0
    ] == pytest.approx(-amount.mean())
    report = service.post("/models/payments/benefit", json={"benefits": matrix}).json()
    inline = {
        "features": ["signal", "amount"],
        "rows": np.column_stack((signal, amount)).tolist(),
    }
    inline |= {"labels": label.tolist(), "types": {"amount": "value"}}
    metrics = trained(
        service, order | {"model": "inline", "data": inline, "benefits": matrix}
    )["metrics"]
    assert metrics == job["metrics"]
    assert report["expected_benefit"]["benefit"] == pytest.approx(
        job["metrics"]["benefit"], abs=1e-9
    )
    secret = matrix | {
        "fine": {"pass": {"column": "amount", "times": 1e150}, "check": 0}
    }
    errors = service.post("/models/payments/benefit", json={"benefits": secret}).json()[
        "errors"
    ]
    assert (
        errors
        == [  # which keys that only predict may ask for, but not what a row of the hold-out has
            says(
                f"/benefits/{name}/pass/column",
                "'amount' is missing in a row, or makes",
            )
            for name in ("fine", "fraud")
        ]
    )
    asked = {"model": "payments", "benefits": matrix}
    rows = [{"signal": 0.5, "amount": one} for one in text[:20]]
    found = service.post("/predict", json=asked | {"instances": rows}).json()
    beside = {"instances": [[0.5]] * 20, "columns": {"amount": amount[:20].tolist()}}
    assert found == service.post("/predict", json=asked | beside).json()
    assert (
        service.post(
            "/predict", json=asked | {"instances": rows, "benefits": [[1, 0], [0, 1]]}
        ).status_code
        == 200
    )
    for column, found_wrong in (
        ("amount", "'amount' is absent; send it"),
        ("amuont", "did you mean 'amount'?"),
    ):
        sent = {
            "instances": [[0.5]],
            "benefits": matrix | {"fraud": {"pass": {"column": column}, "check": -40}},
        }
        refused = service.post("/predict", json=asked | sent).json()["errors"]
        assert refused == [says("/benefits/fraud/pass/column", found_wrong)]
    table = csv({"amount": text[:20], "signal": [0.5] * 20})
    query = {"model": "payments", "benefits": json.dumps(matrix)}
    headers = {"Content-Type": "text/csv", "Accept": "application/json"}
    assert (
        service.post("/predict", params=query, content=table, headers=headers).json()
        == found
    )

    ids = [f"payment-{i}" for i in range(20)]
    service.post(
        "/predict", json=asked | beside | {"record": {"ids": ids, "instances": True}}
    )
    told = [{"id": id_, "truth": ("fine", "fraud")[i % 2]} for i, id_ in enumerate(ids)]
    assert service.post("/outcomes", json={"outcomes": told}).json()["accepted"] == 20
    again = service.post("/datasets/from-outcomes", json={"model": "payments"}).json()
    (kept,) = [one for one in again["columns"] if one["name"] == "amount"]
    assert (kept["type"], kept["missing"]) == ("value", 0)


NUMBERS = [[0, -1], [-10, 5]]
WORDS = {"ill": {"treat": 5, "wait": -10}, "healthy": {"treat": -1, "wait": 0}}


def requests(model):
    rows = two_class_rows(40)["rows"]
    known = dict(zip(two_class_rows()["features"], rows[0], strict=True))
    yield "/predict", {"model": model, "instances": rows[:3]}
    yield "/acquire", {"model": model, "known": dict(list(known.items())[:1])}
    yield (
        "/acquire/simulate",
        {"model": model, "rows": rows, "labels": two_class_rows(40)["labels"]},
    )
    yield f"/models/{model}/benefit", {}


def test_a_trained_model_keeps_the_matrix(service):
    square = {"ill": {"healthy": -10, "ill": 5}, "healthy": {"ill": -1, "healthy": 0}}
    order = {
        "learner": {"kind": "benefit_logistic"},
        "data": two_class_rows(),
        "holdout": 0.3,
    }
    for name, matrix, actions in (
        ("m-words", {"benefits": square}, ["healthy", "ill"]),
        ("m-costs", {"cost_matrix": [[0, 1], [10, -5]]}, None),
        ("m-named", {"benefits": WORDS, "learner": {"kind": "logistic"}}, ACTIONS),
    ):
        trained(service, order | {"model": name} | matrix)
        card = service.get(f"/models/{name}/versions/1").json()
        assert (card["benefits"], card["actions"]) == (NUMBERS, actions)
    wrong = service.post("/train", json=order | {"model": "m-bad", "benefits": WORDS})
    assert wrong.status_code == 422
    assert "unknown action 'treat'" in wrong.text


TURNED = {
    "cost_matrix": [[0, -1], [-10, 5]]
}  # of costs, so each class's own action is its worst


def test_every_answer_to_an_odd_matrix_has_a_warning(service, forest):
    odd = "in no class the best action is the one of the same name"
    order = {"model": "odd", "learner": {"kind": "logistic"}, "data": two_class_rows()}
    for matrix, is_odd in ((TURNED, True), ({"benefits": NUMBERS}, False)):
        for path, request in requests(forest):
            assert (
                odd in str(service.post(path, json=request | matrix).json()["warnings"])
            ) == is_odd, path
        assert (odd in str(trained(service, order | matrix)["warnings"])) == is_odd


def test_costs_that_are_sent_as_benefits_of_named_actions_are_warned_about(service):
    costs = {"healthy": {"wait": 0, "treat": 1}, "ill": {"wait": 10, "treat": 0}}
    given = {"probabilities": [[0.6, 0.4]], "classes": ["healthy", "ill"]}
    labelled = given | {"labels": ["ill"]}
    for path, body in (("/predict", given), ("/benefit", labelled)):
        warned = {
            name: "are these costs?"
            in str(service.post(path, json=body | {name: costs}).json()["warnings"])
            for name in ("benefits", "cost_matrix")
        }
        assert warned == {"benefits": True, "cost_matrix": False}, path
    ordinary = {
        "benefits": {"healthy": {"wait": 1, "treat": 0}, "ill": {"wait": 0, "treat": 5}}
    }
    assert service.post("/predict", json=given | ordinary).json()["warnings"] == []


IN_WORDS = [
    "healthy: wait brings 0, treat costs 1",
    "ill: wait costs 10, treat brings 5",
]


def test_the_first_answer_by_a_matrix_says_it_in_words(service):
    """So that a wrong sign or a transposed list is noticed; equal requests are not told again."""
    order = {"model": "echo", "learner": {"kind": "logistic"}, "data": two_class_rows()}
    trained(service, order)
    asked = {
        "model": "echo",
        "instances": two_class_rows(3)["rows"],
        "actions": ACTIONS,
    }

    def said(path="/predict", **changes):
        answer = service.post(path, json=asked | changes)
        assert answer.status_code == 200, answer.text
        return answer.json().get("matrix_in_words")

    assert said(benefits=NUMBERS) == IN_WORDS
    assert said(benefits=NUMBERS, instances=two_class_rows(5)["rows"]) is None
    assert [said(benefits=NUMBERS, explain=True) for _ in range(2)] == [IN_WORDS] * 2
    swapped = [
        "healthy: wait costs 10, treat brings 5",
        "ill: wait brings 0, treat costs 1",
    ]
    assert said(benefits=NUMBERS[::-1]) == swapped
    negated = [
        "healthy: wait brings 0, treat brings 1",
        "ill: wait brings 10, treat costs 5",
    ]
    assert said(cost_matrix=NUMBERS) == negated
    given = {
        "probabilities": [[0.6, 0.4]],
        "classes": ["healthy", "ill"],
        "benefits": NUMBERS,
    }
    given |= {"model": None, "instances": None}
    assert [said(**given) for _ in range(2)] == [IN_WORDS] * 2
    report = {"benefits": NUMBERS, "model": ..., "instances": ...}
    body = {name: value for name, value in (asked | report).items() if value is not ...}
    answer = service.post("/models/echo/benefit", json=body)
    assert answer.json()["matrix_in_words"] == IN_WORDS


def test_a_cost_matrix_without_costs_is_warned_about_in_its_place(service):
    given = {
        "probabilities": [[0.6, 0.4]],
        "classes": ["healthy", "ill"],
        "actions": ACTIONS,
    }
    for costs, is_odd in (([[0, -1], [-10, 0]], True), ([[0, 1], [10, -5]], False)):
        answer = service.post("/predict", json=given | {"cost_matrix": costs}).json()
        assert (
            "no number of 'cost_matrix' is positive" in str(answer["warnings"])
        ) == is_odd


def test_a_matrix_that_contradicts_the_one_in_training_is_warned_about(service):
    order = {
        "model": "m-before",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(),
        "benefits": WORDS,
    }
    trained(service, order)
    asked = {
        "model": "m-before",
        "instances": two_class_rows(3)["rows"],
        "actions": ACTIONS,
    }
    assert (
        service.post("/predict", json=asked | {"benefits": NUMBERS}).json()["warnings"]
        == []
    )
    for turned in ({"benefits": NUMBERS[::-1]}, {"cost_matrix": NUMBERS}):
        warnings = service.post("/predict", json=asked | turned).json()["warnings"]
        assert any(
            "the one which was the best in training" in warning for warning in warnings
        )
    other = {"benefits": NUMBERS[::-1], "actions": ["leave", "call"]}
    assert service.post("/predict", json=asked | other).json()["warnings"] == []
