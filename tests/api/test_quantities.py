"""Quantities and bands over real HTTP, against the distribution of the published model: decided, recorded, compared."""

import io
import json

import httpx
import joblib
import numpy as np
import pyarrow as pa
import pytest

from tests.api.column_bodies import arrow, npy
from tests.conftest import trained, uploaded
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
    trained(service, {"model": "stock", "learner": {"kind": "random_forest"}, "data": DATA})  # numbers by themselves
    return joblib.load(io.BytesIO(service.get("/models/stock/versions/1/artifact").content)).distribution(NEW)


def asked(service, status=200, **fields):
    answer = service.post("/predict", json={"model": "stock", "instances": NEW.tolist(), **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_quantities_are_quantiles_of_the_distribution_in_every_format(service, distribution):
    told = asked(service, unit_costs=COSTS, coverage=0.9)
    quantities = distribution.quantiles(np.array([0.8]))[:, 0]
    assert list(told) == ["model", "decisions", "expected_costs", "intervals", "values", "warnings"]
    np.testing.assert_array_equal(told["decisions"], quantities)
    np.testing.assert_allclose(told["expected_costs"], distribution.costs(quantities, 1, 4))
    np.testing.assert_array_equal(told["intervals"], distribution.quantiles(np.array([0.05, 0.95])))
    assert told["values"] == asked(service)["values"] == asked(service, coverage=0.5)["values"]

    query = {"model": "stock", "unit_costs": json.dumps(COSTS), "coverage": "0.9"}
    columns = np.column_stack([told[name] for name in ("decisions", "expected_costs", "intervals", "values")])
    table = arrow(pa.table({"base": NEW[:, 0], "spread": NEW[:, 1]}))
    answer = service.post("/predict", params=query, content=table, headers={"Content-Type": ARROW, "Accept": ARROW})
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.column_names == ["decision", "expected_cost", "low", "high", "value"]
    np.testing.assert_array_equal(np.column_stack(found.columns), columns)
    answer = service.post("/predict", params=query, content=npy(NEW), headers={"Content-Type": NPY, "Accept": NPY})
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), columns)


def test_a_sum_limits_the_quantities(service, distribution):
    free = asked(service, unit_costs=COSTS)
    most = 0.8 * sum(free["decisions"])
    told, more = (asked(service, unit_costs=COSTS, sum_at_most=most + step) for step in (0, 0.001))
    (limit,) = told["limits"]
    assert [limit["used"], sum(told["decisions"])] == pytest.approx([limit["at_most"], most])
    assert told["total"] == pytest.approx(sum(told["expected_costs"]))
    assert told["unlimited_total"] == pytest.approx(sum(free["expected_costs"]))
    assert (told["total"] - more["total"]) / 0.001 == pytest.approx(limit["shadow_price"], abs=0.01)


def test_bands_decide_as_their_probabilities_do(service, distribution):
    shares = distribution.shares(np.array(CUTS)).tolist()
    case = {**MATRIX, "from 8": {"few": {"column": "spread", "times": -2}, "many": 1}}
    columns = {"columns": {"spread": NEW[:, 1].tolist()}}
    for matrix, more, beside in (
        (MATRIX, {}, {}),
        (MATRIX, {"limits": {"many": 9}}, {}),
        (MATRIX, {"explain": True}, {}),
        (case, {}, columns),
        ([list(MATRIX[name].values()) for name in BANDS], {"actions": ["few", "many"]}, {}),
    ):
        told = asked(service, bands=CUTS, benefits=matrix, **more)
        given = {"probabilities": shares, "classes": BANDS, "benefits": matrix, **more, **beside}
        twin = service.post("/predict", json=given).json()
        assert {name: told[name] for name in twin} == twin


REFUSED = [
    ({"unit_costs": {"over": 1}}, "/unit_costs/under"),
    ({"unit_costs": {"over": -1, "under": 1}}, "/unit_costs/over"),
    ({"unit_costs": {"over": 0, "under": 0}}, "/unit_costs/over"),
    ({"unit_costs": COSTS, "coverage": 1}, "/coverage"),
    ({"unit_costs": COSTS, "bands": [1], "benefits": [[1], [2]], "actions": ["a"]}, "/unit_costs"),
    ({"unit_costs": COSTS, "benefits": MATRIX}, "/benefits"),
    ({"unit_costs": COSTS, "sum_at_most": 1}, "/sum_at_most"),
    ({"sum_at_most": 9}, "/sum_at_most"),
    ({"bands": [3, 3], "benefits": MATRIX}, "/bands"),
    ({"bands": CUTS}, "/benefits"),
    ({"bands": CUTS, "benefits": {**MATRIX, "from 9": {}}}, "/benefits/from 9"),
    ({"bands": CUTS, "benefits": MATRIX, "priors": dict.fromkeys(BANDS, 0.25)}, "/priors"),
    ({"model": "ward", "instances": [[58, 77, "mild"]], "benefits": [[0, 1], [1, 0]], "coverage": 0.9}, "/coverage"),
    ({"model": "tree", "coverage": 0.9}, "/model"),
]


@pytest.mark.usefixtures("distribution")
def test_more_distributions_than_a_request_may_ask_for_are_refused(service):
    query = {"model": "stock", "coverage": "0.9"}
    answer = service.post("/predict", params=query, content=npy(np.zeros((25_001, 2))), headers={"Content-Type": NPY})
    assert answer.status_code == 413


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(("fields", "place"), REFUSED)
def test_what_does_not_fit_is_refused_at_its_place(service, fields, place):
    assert place in [flaw["loc"] for flaw in asked(service, 422, **fields)["errors"]]


@pytest.mark.usefixtures("distribution")
def test_a_forest_of_numbers_is_not_asked_step_by_step(service):
    answer = service.post("/acquire", json={"model": "stock", "known": {}})
    assert (answer.status_code, answer.json()["errors"]) == (422, [says("/model", "train cost_tree")])
    assert "acquire" not in service.get("/models/stock/versions/1").json()["fitted"]


@pytest.mark.usefixtures("distribution")
def test_recorded_quantities_are_reported_with_what_they_cost(service):
    """By the unit costs, or as told; bands take numbers as truths, too, in each request their own."""

    def tell(ids, **changes):
        outcomes = [{"id": id_, "truth": truth, **changes} for id_, truth in zip(ids, TRUTH.tolist(), strict=False)]
        return service.post("/outcomes", json={"outcomes": outcomes}).json()

    ids = [f"shelf-{i}" for i in range(60)]
    told = asked(service, unit_costs=COSTS, coverage=0.8, record={"ids": ids})
    assert "POST /outcomes" in service.get("/models/stock/outcomes").json()["warnings"][0]
    assert (told["ids"], tell(ids)["accepted"], tell(ids)["unchanged"]) == (ids, 60, 60)
    assert tell(ids[:1], benefit=-7.5)["accepted"] == 1
    (conflict,) = tell(ids[:1], truth=1.25)["conflicts"]
    assert (conflict["stored"]["truth"], conflict["sent"]["truth"]) == (TRUTH[0], 1.25)
    assert tell(ids[:1], truth="much")["errors"][0]["loc"] == "/outcomes/0/truth"

    quantities, expected = np.array(told["decisions"]), np.array(told["expected_costs"])
    costs = np.where(quantities > TRUTH, quantities - TRUTH, 4 * (TRUTH - quantities))
    costs[0] = 7.5
    report = service.get("/models/stock/outcomes").json()
    assert set(report) == {"model", "since", "until", "maturing", "quantities", "warnings"}
    found, (low, high) = report["quantities"], np.array(told["intervals"]).T
    assert (found["decisions"], found["known"], found["intervals"]["cases"]) == (60, 60, 60)
    assert found["expected"]["total"] == pytest.approx(expected.sum())
    assert found["realised"]["mean"] == pytest.approx(costs.mean())
    assert found["difference"]["low"] < found["difference"]["mean"] == pytest.approx((costs - expected).mean())
    assert found["intervals"]["mean"] == pytest.approx(((low <= TRUTH) & (high >= TRUTH)).mean())
    assert found["intervals"]["promised"] == pytest.approx(0.8)

    earned = 0
    for cuts, matrix in ((CUTS, MATRIX), ([5], {"below 5": {"few": 1, "many": 0}, "from 5": {"few": 0, "many": 1}})):
        banded = asked(service, bands=cuts, benefits=matrix, record=True)
        assert tell(banded["ids"])["accepted"] == 60
        names = np.array(list(matrix))[np.searchsorted(cuts, TRUTH, side="right")]
        earned += sum(matrix[name][action] for name, action in zip(names, banded["decisions"], strict=True))
    report = service.get("/models/stock/outcomes").json()
    assert (report["decisions"], report["known"], report["quantities"]["decisions"]) == (120, 120, 60)
    assert report["realised"]["total"] == pytest.approx(earned)


def test_regressors_are_ranked_by_what_their_quantities_cost(service):
    order = {"dataset": uploaded(service, DATA), "learners": [FOREST, TREE], "unit_costs": COSTS, "folds": 3}
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
    assert -result["same_for_all"]["benefit"] == pytest.approx(np.where(beyond > 0, beyond, -4 * beyond).mean(), 0.05)
    assert (result["best"]["learner"], result["best"]["rule"]) == ("random_forest", "unit_costs")
    assert service.get(f"/compare/{answer['id']}", headers={"Accept": "image/svg+xml"}).status_code == 200
    few = FOREST | {"n_estimators": 20, "min_samples_leaf": 5}
    rare = order | {"learners": [few], "folds": 2, "unit_costs": {"over": 1, "under": 19}}
    lead = service.post("/compare", json=rare, headers={"Prefer": "wait=60"}).json()["result"]["best"]
    assert lead["interval"][0] > 0
    assert not lead["significant"]  # fewer than 30 numbers are above the quantities
    logistic = {"learners": [FOREST, {"kind": "logistic"}]}
    for changes, place in (({"benefits": [[1]]}, "/benefits"), (logistic, "/learners/1/kind")):
        assert [flaw["loc"] for flaw in service.post("/compare", json=order | changes).json()["errors"]] == [place]
