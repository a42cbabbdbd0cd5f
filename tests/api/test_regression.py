"""Numbers over real HTTP: training on them, predicting them, asking for them step by step, and every refusal."""

import io
import json
import math

import httpx
import joblib
import numpy as np
import pyarrow as pa
import pytest

from tests.api.column_bodies import arrow
from tests.conftest import trained, two_class_rows

NAMES = ["sign", "left", "right", "place"]
PRICES = {"sign": 1, "left": 5, "right": 5, "place": 0.5}
TREE = {"kind": "cost_tree", "task": "regression", "depth": 2, "lambda": 0.02}
ARROW, NPY = "application/vnd.apache.arrow.stream", "application/x-npy"


def numbers(n: int = 240, seed: int = 0) -> dict:
    """Rows whose `sign` says which of two other features is the label; some values are missing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).round(2)
    y = np.where(X[:, 0] > 0, 10 + 3 * X[:, 1], 3 * X[:, 2] - 10)
    rows = [[*row, word] for row, word in zip(X.tolist(), random.choice(["in", "out"], n).tolist(), strict=True)]
    for i in range(0, n, 20):
        rows[i][1 + i // 20 % 3] = None
    return {"features": NAMES, "rows": rows, "labels": y.tolist()}


DATA = numbers()


def order(name: str, **changes: object) -> dict:
    return {"model": name, "learner": TREE, "data": DATA, "feature_costs": PRICES, **changes}


@pytest.fixture(scope="module")
def price(service: httpx.Client) -> str:
    trained(service, order("price"))
    return "price"


def test_the_card_says_what_was_learnt_and_how_well(service, price):
    """No classes; errors on the hold-out; the points of the path."""
    card = service.get("/models/price/versions/1").json()
    assert (card["classes"], card["class_priors"], card["labels"]) == (None, {}, ["label"])
    metrics = card["metrics"]
    assert metrics["rows"] == card["data"]["holdout_rows"] == 60
    assert metrics["rmse"] == pytest.approx(math.sqrt(metrics["mse"]))
    assert metrics["r2"] > 0.8
    assert 0 < metrics["mae"] <= metrics["rmse"]
    assert metrics["acquisition"]["measure"] == "mean_squared_error"
    assert metrics["acquisition"]["budgets"][-1]["plain"]["error"] == pytest.approx(metrics["mse"])
    assert card["fitted"]["lambda"] == 0.02
    assert 0 < card["fitted"]["cost"] < 11.5


def test_predict_answers_with_the_estimators_numbers(service, price):
    """As JSON, as an array and as an Arrow stream; a word that training never saw counts as missing, with a warning."""
    rows = [*DATA["rows"][:30], [0.5, None, None, "never"]]
    told = service.post("/predict", json={"model": price, "instances": rows}).json()
    model = joblib.load(io.BytesIO(service.get("/models/price/versions/1/artifact").content))
    places = {"in": 0.0, "out": 1.0}
    X = np.array([[*(math.nan if v is None else v for v in row[:3]), places.get(row[3], math.nan)] for row in rows])
    np.testing.assert_allclose(told["values"], model.predict(X))
    assert told["model"] == {"name": "price", "version": 1}
    assert len(told["warnings"]) == 1
    assert set(told) == {"model", "values", "warnings"}

    columns = {name: [row[j] for row in rows] for j, name in enumerate(NAMES)}
    content, kind = arrow(columns), {"Content-Type": ARROW}
    array = service.post("/predict", params={"model": price}, content=content, headers=kind | {"Accept": NPY})
    np.testing.assert_array_equal(np.load(io.BytesIO(array.content)), told["values"])
    assert json.loads(array.headers["Payoff-Answer"])["warnings"] == told["warnings"]
    stream = service.post("/predict", params={"model": price}, content=content, headers=kind | {"Accept": ARROW})
    table = pa.ipc.open_stream(stream.content).read_all()
    assert table.column("value").to_pylist() == told["values"]
    assert json.loads(table.schema.metadata[b"payoff"])["model"] == told["model"]


ROWS = DATA["rows"][:2]
CLASSES = {"rule": "expected_benefit", "threshold": 0.5, "costs": {"majority": "a", "C_HD": 1, "C_DH": 1}}
CLASSES |= {"priors": {"a": 1}, "limits": {"a": 1}, "resources": [{"name": "b", "use": {"a": 1}, "at_most": 9}]}
WORDS = {"features": ["a"], "rows": [[1], [2]], "labels": [["x"], ["y"]]}
REFUSED = [  # path, body, place of the error: what is for classes, or is no number
    *(("/predict", {"model": "price", "instances": ROWS, name: value}, f"/{name}") for name, value in CLASSES.items()),
    ("/predict", {"model": "price", "instances": ROWS, "record": True}, "/record"),
    ("/models/price/benefit", {"benefits": [[1]]}, "/model"),
    ("/retrieve", {"model": "price", "instances": ROWS, "setting": "binary", "loss": {"name": "am"}}, "/model"),
    ("/acquire", {"model": "price", "known": {}, "benefits": [[1]]}, "/benefits"),
    ("/acquire/simulate", {"model": "price", "rows": ROWS, "labels": [1, 2], "benefits": [[1]]}, "/benefits"),
    ("/acquire/simulate", {"model": "price", "rows": ROWS, "labels": [1.5, "a"]}, "/labels/1"),
    ("/acquire/simulate", {"model": "price", "rows": ROWS, "labels": [1e200, 1.0]}, ""),
    ("/acquire/simulate", {"model": "price", "dataset": "words"}, "/dataset"),
    ("/train", order("nobody", data=two_class_rows(40), feature_costs=None), "/data/labels"),
    ("/train", order("nobody", data=WORDS, feature_costs=None), "/learner/kind"),
    ("/train", order("nobody", data={"dataset": "words"}, feature_costs=None), "/learner/task"),
    ("/train", order("nobody", benefits=[[1.0]]), "/benefits"),
    ("/train", order("nobody", learner=TREE | {"task": "classification"}), "/learner/task"),
    ("/compare", {"dataset": "words", "learners": [TREE], "benefits": [[1, 0], [0, 1]]}, "/learners/0/task"),
]
UPLOAD = {"content": b"a,y\n1,u\n2,v\n3,u\n4,v\n", "headers": {"Content-Type": "text/csv"}}


@pytest.mark.usefixtures("price")
@pytest.mark.parametrize(("path", "body", "place"), REFUSED)
def test_what_is_for_classes_is_refused_at_its_place(service, path, body, place):
    service.post("/datasets?label=y&name=words", **UPLOAD).raise_for_status()
    answer = service.post(path, json=body)
    assert (answer.status_code, place in [flaw["loc"] for flaw in answer.json()["errors"]]) == (422, True), answer.text


def test_a_case_fed_as_asked_ends_in_the_number_of_the_complete_row(service, price):
    """A number at every step, prices that add up; a simulation of the same rows has their cost and error."""
    fresh = numbers(8, 5)
    total, errors = 0.0, []
    for row, truth in zip(fresh["rows"], fresh["labels"], strict=True):
        known: dict[str, object] = {}
        while (now := service.post("/acquire", json={"model": price, "known": known}).json())["status"] == "acquire":
            assert isinstance(now["prediction"], float)
            assert now["probabilities"] is None
            assert (now["trees"], now["trees_resolved"]) == (1, 0)
            known[now["next"]["feature"]] = row[NAMES.index(now["next"]["feature"])]
        whole = service.post("/predict", json={"model": price, "instances": [row]}).json()["values"][0]
        assert now["prediction"] == pytest.approx(whole)
        assert now["reason"] == ("unavailable" if None in known.values() else "resolved")
        total += now["spent"]
        errors.append((now["prediction"] - truth) ** 2)
    asked = {"model": price, "rows": fresh["rows"], "labels": fresh["labels"], "budgets": [2]}
    told = service.post("/acquire/simulate", json=asked).json()
    assert told["measure"] == "mean_squared_error"
    assert told["budgets"][-1]["plain"]["cost"] == pytest.approx(total / 8)
    assert told["budgets"][-1]["plain"]["error"] == pytest.approx(np.mean(errors))
    assert told["budgets"][0]["vote_stopping"] is None
    assert told["nothing"]["error"] > told["everything"]["error"]
    assert service.post("/acquire/simulate", json=asked, headers={"Accept": "image/svg+xml"}).json() == told
