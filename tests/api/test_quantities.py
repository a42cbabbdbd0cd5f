"""Numbers over real HTTP: trained, predicted, asked for step by step; quantities and bands decided and recorded."""

import io
import json
import math

import httpx
import joblib
import numpy as np
import pyarrow as pa
import pytest

from tests.api.column_bodies import arrow, npy
from tests.conftest import trained, two_class_rows, uploaded
from tests.messages import says

COSTS, CUTS = {"over": 1, "under": 4}, [2, 4.5, 8]
BANDS = ["below 2", "from 2 to below 4.5", "from 4.5 to below 8", "from 8"]
MATRIX = {name: {"few": -k, "many": k - 2} for k, name in enumerate(BANDS)}
ARROW, NPY = "application/vnd.apache.arrow.stream", "application/x-npy"
FOREST, TREE = {"kind": "random_forest", "task": "regression"}, {"kind": "cost_tree"}


def demand(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The second column says how far numbers lie around the first."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.uniform(0, 10, n), rng.uniform(0, 3, n))).round(3)
    return X, (X[:, 0] + X[:, 1] * rng.exponential(1, n)).round(2)


(X, Y), (NEW, TRUTH) = demand(300, 0), demand(60, 1)
DATA = {"features": ["base", "spread"], "rows": X.tolist(), "labels": Y.tolist()}


@pytest.fixture(scope="module")
def distribution(service: httpx.Client, ward: str):
    trained(service, {"model": "tree", "learner": TREE, "data": DATA})
    trained(
        service, {"model": "stock", "learner": {"kind": "random_forest"}, "data": DATA}
    )  # numbers by themselves
    return joblib.load(
        io.BytesIO(service.get("/models/stock/versions/1/artifact").content)
    ).distribution(NEW)


def asked(service, **fields):
    answer = service.post(
        "/predict", json={"model": "stock", "instances": NEW.tolist(), **fields}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_quantities_are_quantiles_of_the_distribution_in_every_format(
    service, distribution
):
    told = asked(service, unit_costs=COSTS, coverage=0.9)
    quantities = distribution.quantiles(np.array([0.8]))[:, 0]
    assert list(told) == [
        "model",
        "decisions",
        "expected_costs",
        "intervals",
        "values",
        "warnings",
    ]
    np.testing.assert_array_equal(told["decisions"], quantities)
    np.testing.assert_allclose(
        told["expected_costs"], distribution.costs(quantities, 1, 4)
    )
    np.testing.assert_array_equal(
        told["intervals"], distribution.quantiles(np.array([0.05, 0.95]))
    )
    assert (
        told["values"]
        == asked(service)["values"]
        == asked(service, coverage=0.5)["values"]
    )

    query = {"model": "stock", "unit_costs": json.dumps(COSTS), "coverage": "0.9"}
    columns = np.column_stack(
        [told[name] for name in ("decisions", "expected_costs", "intervals", "values")]
    )
    table = arrow(pa.table({"base": NEW[:, 0], "spread": NEW[:, 1]}))
    answer = service.post(
        "/predict",
        params=query,
        content=table,
        headers={"Content-Type": ARROW, "Accept": ARROW},
    )
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.column_names == ["decision", "expected_cost", "low", "high", "value"]
    np.testing.assert_array_equal(np.column_stack(found.columns), columns)
    answer = service.post(
        "/predict",
        params=query,
        content=npy(NEW),
        headers={"Content-Type": NPY, "Accept": NPY},
    )
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), columns)


def test_a_sum_limits_the_quantities(service, distribution):
    free = asked(service, unit_costs=COSTS)
    most = 0.8 * sum(free["decisions"])
    told, more = (
        asked(service, unit_costs=COSTS, sum_at_most=most + step) for step in (0, 0.001)
    )
    (limit,) = told["limits"]
    assert [limit["used"], sum(told["decisions"])] == pytest.approx(
        [limit["at_most"], most]
    )
    assert told["total"] == pytest.approx(sum(told["expected_costs"]))
    assert told["unlimited_total"] == pytest.approx(sum(free["expected_costs"]))
    assert (told["total"] - more["total"]) / 0.001 == pytest.approx(
        limit["shadow_price"], abs=0.01
    )


def test_bands_decide_as_their_probabilities_do(service, distribution):
    shares = distribution.shares(np.array(CUTS)).tolist()
    case = {**MATRIX, "from 8": {"few": {"column": "spread", "times": -2}, "many": 1}}
    columns = {"columns": {"spread": NEW[:, 1].tolist()}}
    for matrix, more, beside in (
        (MATRIX, {}, {}),
        (MATRIX, {"limits": {"many": 9}}, {}),
        (MATRIX, {"explain": True}, {}),
        (case, {}, columns),
        (
            [list(MATRIX[name].values()) for name in BANDS],
            {"actions": ["few", "many"]},
            {},
        ),
    ):
        told = asked(service, bands=CUTS, benefits=matrix, **more)
        given = {
            "probabilities": shares,
            "classes": BANDS,
            "benefits": matrix,
            **more,
            **beside,
        }
        twin = service.post("/predict", json=given).json()
        assert {name: told[name] for name in twin} == twin


REFUSED = [
    ({"unit_costs": {"over": 1}}, "/unit_costs/under"),
    ({"unit_costs": {"over": -1, "under": 1}}, "/unit_costs/over"),
    ({"unit_costs": {"over": 0, "under": 0}}, "/unit_costs/over"),
    ({"unit_costs": COSTS, "coverage": 1}, "/coverage"),
    (
        {"unit_costs": COSTS, "bands": [1], "benefits": [[1], [2]], "actions": ["a"]},
        "/unit_costs",
    ),
    ({"unit_costs": COSTS, "benefits": MATRIX}, "/benefits"),
    ({"unit_costs": COSTS, "sum_at_most": 1}, "/sum_at_most"),
    ({"sum_at_most": 9}, "/sum_at_most"),
    ({"bands": [3, 3], "benefits": MATRIX}, "/bands"),
    ({"bands": CUTS}, "/benefits"),
    ({"bands": CUTS, "benefits": {**MATRIX, "from 9": {}}}, "/benefits/from 9"),
    (
        {"bands": CUTS, "benefits": MATRIX, "priors": dict.fromkeys(BANDS, 0.25)},
        "/priors",
    ),
    (
        {
            "model": "ward",
            "instances": [[58, 77, "mild"]],
            "benefits": [[0, 1], [1, 0]],
            "coverage": 0.9,
        },
        "/coverage",
    ),
    ({"model": "tree", "coverage": 0.9}, "/model"),
]


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        (25_001, {"coverage": "0.9"}),
        (6_251, {"unit_costs": '{"over":1,"under":4}', "sum_at_most": "1e9"}),
    ],
)
def test_more_distributions_than_a_request_may_ask_for_are_refused(
    service, rows, fields
):
    """A limited sum takes four times as long: 24,000 rows took 16.5 s."""
    query = {"model": "stock", **fields}
    body = npy(np.zeros((rows, 2)))
    answer = service.post(
        "/predict", params=query, content=body, headers={"Content-Type": NPY}
    )
    assert answer.status_code == 413


@pytest.mark.usefixtures("distribution")
def test_a_forest_of_numbers_is_not_asked_step_by_step(service):
    answer = service.post("/acquire", json={"model": "stock", "known": {}})
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [says("/model", "train cost_tree")],
    )
    assert "acquire" not in service.get("/models/stock/versions/1").json()["fitted"]


@pytest.mark.usefixtures("distribution")
def test_recorded_quantities_are_reported_with_what_they_cost(service):
    """By the unit costs, or as told; bands take numbers as truths, too, in each request their own."""

    def tell(ids, **changes):
        outcomes = [
            {"id": id_, "truth": truth, **changes}
            for id_, truth in zip(ids, TRUTH.tolist(), strict=False)
        ]
        return service.post("/outcomes", json={"outcomes": outcomes}).json()

    ids = [f"shelf-{i}" for i in range(60)]
    told = asked(service, unit_costs=COSTS, coverage=0.8, record={"ids": ids})
    assert (
        "POST /outcomes" in service.get("/models/stock/outcomes").json()["warnings"][0]
    )
    assert (told["ids"], tell(ids)["accepted"], tell(ids)["unchanged"]) == (ids, 60, 60)
    assert tell(ids[:1], benefit=-7.5)["accepted"] == 1
    (conflict,) = tell(ids[:1], truth=1.25)["conflicts"]
    assert (conflict["stored"]["truth"], conflict["sent"]["truth"]) == (TRUTH[0], 1.25)
    assert tell(ids[:1], truth="much")["errors"][0]["loc"] == "/outcomes/0/truth"

    quantities, expected = np.array(told["decisions"]), np.array(told["expected_costs"])
    costs = np.where(quantities > TRUTH, quantities - TRUTH, 4 * (TRUTH - quantities))
    costs[0] = 7.5
    report = service.get("/models/stock/outcomes").json()
    assert set(report) == {
        "model",
        "since",
        "until",
        "maturing",
        "quantities",
        "rewards",
        "warnings",
    }
    found, (low, high) = report["quantities"], np.array(told["intervals"]).T
    assert (found["decisions"], found["known"], found["intervals"]["cases"]) == (
        60,
        60,
        60,
    )
    assert found["expected"]["total"] == pytest.approx(expected.sum())
    assert found["realised"]["mean"] == pytest.approx(costs.mean())
    assert (
        found["difference"]["low"]
        < found["difference"]["mean"]
        == pytest.approx((costs - expected).mean())
    )
    assert found["intervals"]["mean"] == pytest.approx(
        ((low <= TRUTH) & (high >= TRUTH)).mean()
    )
    assert found["intervals"]["promised"] == pytest.approx(0.8)

    earned = 0
    for cuts, matrix in (
        (CUTS, MATRIX),
        ([5], {"below 5": {"few": 1, "many": 0}, "from 5": {"few": 0, "many": 1}}),
    ):
        banded = asked(service, bands=cuts, benefits=matrix, record=True)
        assert tell(banded["ids"])["accepted"] == 60
        names = np.array(list(matrix))[np.searchsorted(cuts, TRUTH, side="right")]
        earned += sum(
            matrix[name][action]
            for name, action in zip(names, banded["decisions"], strict=True)
        )
    report = service.get("/models/stock/outcomes").json()
    assert (
        report["decisions"],
        report["known"],
        report["quantities"]["decisions"],
    ) == (
        120,
        120,
        60,
    )
    assert report["realised"]["total"] == pytest.approx(earned)


def test_regressors_are_ranked_by_what_their_quantities_cost(service):
    order = {
        "dataset": uploaded(service, DATA),
        "learners": [FOREST, TREE],
        "unit_costs": COSTS,
        "folds": 3,
    }
    answer = service.post("/compare", json=order, headers={"Prefer": "wait=60"}).json()
    result = answer["result"]
    assert [(row["learner"] or "", row["rule"]) for row in result["table"]] == [
        ("random_forest", "unit_costs"),
        ("random_forest", "value"),
        ("cost_tree", "value"),
        ("", "same_for_all"),
    ]
    beyond = result["same_for_all"]["action"] - Y
    assert np.mean(beyond >= 0) == pytest.approx(0.8, abs=0.01)
    assert -result["same_for_all"]["benefit"] == pytest.approx(
        np.where(beyond > 0, beyond, -4 * beyond).mean(), 0.05
    )
    assert (result["best"]["learner"], result["best"]["rule"]) == (
        "random_forest",
        "unit_costs",
    )
    assert (
        service.get(
            f"/compare/{answer['id']}", headers={"Accept": "image/svg+xml"}
        ).status_code
        == 200
    )
    few = FOREST | {"n_estimators": 20, "min_samples_leaf": 5}
    rare = order | {
        "learners": [few],
        "folds": 2,
        "unit_costs": {"over": 1, "under": 19},
    }
    lead = service.post("/compare", json=rare, headers={"Prefer": "wait=60"}).json()[
        "result"
    ]["best"]
    assert lead["interval"][0] > 0
    assert not lead["significant"]  # fewer than 30 numbers are above the quantities
    logistic = {"learners": [FOREST, {"kind": "logistic"}]}
    for changes, place in (
        ({"benefits": [[1]]}, "/benefits"),
        (logistic, "/learners/1/kind"),
    ):
        assert [
            flaw["loc"]
            for flaw in service.post("/compare", json=order | changes).json()["errors"]
        ] == [place]


NAMES = ["sign", "left", "right", "place"]
PRICES = {"sign": 1, "left": 5, "right": 5, "place": 0.5}
PRICED_TREE = {"kind": "cost_tree", "task": "regression", "depth": 2, "lambda": 0.02}


def numbers(n: int = 240, seed: int = 0) -> dict:
    """Rows whose `sign` says which of two other features is the label; some values are missing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).round(2)
    y = np.where(X[:, 0] > 0, 10 + 3 * X[:, 1], 3 * X[:, 2] - 10)
    rows = [
        [*row, word]
        for row, word in zip(
            X.tolist(), random.choice(["in", "out"], n).tolist(), strict=True
        )
    ]
    for i in range(0, n, 20):
        rows[i][1 + i // 20 % 3] = None
    return {"features": NAMES, "rows": rows, "labels": y.tolist()}


PRICED = numbers()


def priced(name: str, **changes: object) -> dict:
    return {
        "model": name,
        "learner": PRICED_TREE,
        "data": PRICED,
        "feature_costs": PRICES,
        **changes,
    }


@pytest.fixture(scope="module")
def price(service: httpx.Client) -> str:
    trained(service, priced("price"))
    return "price"


def test_the_card_says_what_was_learnt_and_how_well(service, price):
    """No classes; errors on the hold-out; the points of the path."""
    card = service.get("/models/price/versions/1").json()
    assert (card["classes"], card["class_priors"], card["labels"]) == (
        None,
        {},
        ["label"],
    )
    metrics = card["metrics"]
    assert metrics["rows"] == card["data"]["holdout_rows"] == 60
    assert metrics["rmse"] == pytest.approx(math.sqrt(metrics["mse"]))
    assert metrics["r2"] > 0.8
    assert 0 < metrics["mae"] <= metrics["rmse"]
    assert metrics["acquisition"]["measure"] == "mean_squared_error"
    assert metrics["acquisition"]["budgets"][-1]["plain"]["error"] == pytest.approx(
        metrics["mse"]
    )
    assert card["fitted"]["lambda"] == 0.02
    assert 0 < card["fitted"]["cost"] < 11.5


def test_predict_answers_with_the_estimators_numbers(service, price):
    """As JSON, as an array and as an Arrow stream; a word that training never saw counts as missing, with a warning."""
    rows = [*PRICED["rows"][:30], [0.5, None, None, "never"]]
    told = service.post("/predict", json={"model": price, "instances": rows}).json()
    model = joblib.load(
        io.BytesIO(service.get("/models/price/versions/1/artifact").content)
    )
    places = {"in": 0.0, "out": 1.0}
    X = np.array(
        [
            [
                *(math.nan if v is None else v for v in row[:3]),
                places.get(row[3], math.nan),
            ]
            for row in rows
        ]
    )
    np.testing.assert_allclose(told["values"], model.predict(X))
    assert told["model"] == {"name": "price", "version": 1}
    assert len(told["warnings"]) == 1
    assert set(told) == {"model", "values", "warnings"}

    columns = {name: [row[j] for row in rows] for j, name in enumerate(NAMES)}
    content, kind = arrow(columns), {"Content-Type": ARROW}
    array = service.post(
        "/predict",
        params={"model": price},
        content=content,
        headers=kind | {"Accept": NPY},
    )
    np.testing.assert_array_equal(np.load(io.BytesIO(array.content)), told["values"])
    assert json.loads(array.headers["Payoff-Answer"])["warnings"] == told["warnings"]
    stream = service.post(
        "/predict",
        params={"model": price},
        content=content,
        headers=kind | {"Accept": ARROW},
    )
    table = pa.ipc.open_stream(stream.content).read_all()
    assert table.column("value").to_pylist() == told["values"]
    assert json.loads(table.schema.metadata[b"payoff"])["model"] == told["model"]


ROWS = PRICED["rows"][:2]
CLASSES = {
    "rule": "expected_benefit",
    "threshold": 0.5,
    "costs": {"majority": "a", "C_HD": 1, "C_DH": 1},
}
CLASSES |= {
    "priors": {"a": 1},
    "limits": {"a": 1},
    "resources": [{"name": "b", "use": {"a": 1}, "at_most": 9}],
}
WORDS = {"features": ["a"], "rows": [[1], [2]], "labels": [["x"], ["y"]]}
FOR_CLASSES = [  # path, body, place of the error: what is for classes, is no number, or does not fit
    *(
        ("/predict", {"model": "stock", "instances": NEW.tolist()} | fields, place)
        for fields, place in REFUSED
    ),
    *(
        ("/predict", {"model": "price", "instances": ROWS, name: value}, f"/{name}")
        for name, value in CLASSES.items()
    ),
    ("/predict", {"model": "price", "instances": ROWS, "record": True}, "/record"),
    ("/models/price/benefit", {"benefits": [[1]]}, "/model"),
    (
        "/retrieve",
        {
            "model": "price",
            "instances": ROWS,
            "setting": "binary",
            "loss": {"name": "am"},
        },
        "/model",
    ),
    ("/acquire", {"model": "price", "known": {}, "benefits": [[1]]}, "/benefits"),
    (
        "/acquire/simulate",
        {"model": "price", "rows": ROWS, "labels": [1, 2], "benefits": [[1]]},
        "/benefits",
    ),
    (
        "/acquire/simulate",
        {"model": "price", "rows": ROWS, "labels": [1.5, "a"]},
        "/labels/1",
    ),
    ("/acquire/simulate", {"model": "price", "rows": ROWS, "labels": [1e200, 1.0]}, ""),
    ("/acquire/simulate", {"model": "price", "dataset": "words"}, "/dataset"),
    (
        "/train",
        priced("nobody", data=two_class_rows(40), feature_costs=None),
        "/data/labels",
    ),
    ("/train", priced("nobody", data=WORDS, feature_costs=None), "/learner/kind"),
    (
        "/train",
        priced("nobody", data={"dataset": "words"}, feature_costs=None),
        "/learner/task",
    ),
    ("/train", priced("nobody", benefits=[[1.0]]), "/benefits"),
    (
        "/train",
        priced("nobody", learner=PRICED_TREE | {"task": "classification"}),
        "/learner/task",
    ),
    (
        "/compare",
        {"dataset": "words", "learners": [PRICED_TREE], "benefits": [[1, 0], [0, 1]]},
        "/learners/0/task",
    ),
]
UPLOAD = {
    "content": b"a,y\n1,u\n2,v\n3,u\n4,v\n",
    "headers": {"Content-Type": "text/csv"},
}


@pytest.mark.usefixtures("price", "distribution")
@pytest.mark.parametrize(("path", "body", "place"), FOR_CLASSES)
def test_what_is_for_classes_or_does_not_fit_is_refused_at_its_place(
    service, path, body, place
):
    service.post("/datasets?label=y&name=words", **UPLOAD).raise_for_status()
    answer = service.post(path, json=body)
    assert (
        answer.status_code,
        place in [flaw["loc"] for flaw in answer.json()["errors"]],
    ) == (
        422,
        True,
    ), answer.text


def test_a_case_fed_as_asked_ends_in_the_number_of_the_complete_row(service, price):
    """A number at every step, prices that add up; a simulation of the same rows has their cost and error."""
    fresh = numbers(8, 5)
    total, errors = 0.0, []
    for row, truth in zip(fresh["rows"], fresh["labels"], strict=True):
        known: dict[str, object] = {}
        while (
            now := service.post(
                "/acquire", json={"model": price, "known": known}
            ).json()
        )["status"] == "acquire":
            assert isinstance(now["prediction"], float)
            assert now["probabilities"] is None
            assert (now["trees"], now["trees_resolved"]) == (1, 0)
            known[now["next"]["feature"]] = row[NAMES.index(now["next"]["feature"])]
        whole = service.post(
            "/predict", json={"model": price, "instances": [row]}
        ).json()["values"][0]
        assert now["prediction"] == pytest.approx(whole)
        assert now["reason"] == (
            "unavailable" if None in known.values() else "resolved"
        )
        total += now["spent"]
        errors.append((now["prediction"] - truth) ** 2)
    asked = {
        "model": price,
        "rows": fresh["rows"],
        "labels": fresh["labels"],
        "budgets": [2],
    }
    told = service.post("/acquire/simulate", json=asked).json()
    assert told["measure"] == "mean_squared_error"
    assert told["budgets"][-1]["plain"]["cost"] == pytest.approx(total / 8)
    assert told["budgets"][-1]["plain"]["error"] == pytest.approx(np.mean(errors))
    assert told["budgets"][0]["vote_stopping"] is None
    assert told["nothing"]["error"] > told["everything"]["error"]
    assert (
        service.post(
            "/acquire/simulate", json=asked, headers={"Accept": "image/svg+xml"}
        ).json()
        == told
    )
