"""`POST /predict` over real HTTP: rules, forms of bodies, and every way to get it wrong."""

from __future__ import annotations

import io
import json

import httpx
import numpy as np
import pyarrow as pa
import pytest

from tests.api.column_bodies import arrow, npy
from tests.conftest import trained, two_class_rows
from tests.messages import says

ROWS = [[70, 88, "strong"], [30, 60, "mild"], [50, None, "mild"]]
BENEFITS = [[0, -1], [-10, 5]]
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def plain(service: httpx.Client) -> str:
    """A model whose two features are numbers."""
    data = two_class_rows(120)
    data["features"] = data["features"][:2]
    data["rows"] = [row[:2] for row in data["rows"]]
    trained(service, {"model": "plain-predict", "learner": {"kind": "logistic"}, "data": data, "holdout": 0})
    return "plain-predict"


def ask(service: httpx.Client, **question: object) -> httpx.Response:
    return service.post("/predict", json={"model": "ward", "instances": ROWS, **question})


def test_expected_benefit_decides_by_the_matrix(service, ward):
    """The decision is the action of the largest expected benefit, which is probabilities times benefits."""
    answer = ask(service, benefits=BENEFITS, actions=["wait", "treat"]).json()

    P, E = np.array(answer["probabilities"]), np.array(answer["expected_benefits"])
    assert np.allclose(P @ np.array(BENEFITS), E, atol=1e-12)
    assert answer["decisions"] == [["wait", "treat"][a] for a in E.argmax(axis=1)]
    assert answer["classes"] == ["healthy", "ill"]
    assert answer["model"] == {"name": "ward", "version": 1}
    assert np.allclose(P.sum(axis=1), 1)


def test_objects_and_rows_mean_the_same(service, ward):
    """An instance may be an object by feature name, in any order of names."""
    objects = [dict(zip(["pain", "age", "pulse"], [row[2], row[0], row[1]], strict=True)) for row in ROWS]

    assert ask(service, instances=objects, benefits=BENEFITS).json() == ask(service, benefits=BENEFITS).json()


def test_one_matrix_per_instance(service, ward):
    """Each instance may have its own matrix, and is then decided by its own."""
    matrices = [BENEFITS, [[1, 0], [1, 0]], [[0, 1], [0, 1]]]

    together = ask(service, benefits=matrices).json()

    alone = [ask(service, instances=[row], benefits=B).json() for row, B in zip(ROWS, matrices, strict=True)]
    assert together["decisions"] == [answer["decisions"][0] for answer in alone]
    assert together["decisions"][1:] == ["healthy", "ill"]


@pytest.mark.parametrize("threshold", ["posterior", "holdout", 0.3])
def test_thresholds(service, ward, threshold):
    """The second action is taken where the second class's probability exceeds the threshold in the answer."""
    answer = ask(service, benefits=BENEFITS, rule="threshold", threshold=threshold).json()

    cut = answer["threshold"]
    expected = ["ill" if p[1] > cut else "healthy" for p in answer["probabilities"]]
    assert answer["decisions"] == expected
    if threshold == "posterior":
        assert cut == pytest.approx(1 / 16)
    if threshold == 0.3:
        assert cut == 0.3


COSTS = {"majority": "healthy", "C_DD": 1, "C_HD": 2, "C_DH": 10}
AMONG_CLASSES = (
    {"rule": "most_probable"},
    {"rule": "beta_delta", "costs": COSTS},
    {"rule": "hierarchical", "costs": COSTS},
)


WORDS = {name: {"wait": 0, "treat": j} for j, name in enumerate(("healthy", "ill"))}
STATED = {
    "benefits": {"benefits": WORDS},
    "costs": {"cost_matrix": WORDS},
    "one for each": {"benefits": [WORDS] * len(ROWS)},
    "saved": {"benefits": "words"},
    "a class and another": {"benefits": {name: {"ill": 0, "treat": 1} for name in WORDS}},
}


@pytest.mark.parametrize("rule", AMONG_CLASSES, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize("form", STATED)
def test_rules_that_decide_among_classes_refuse_other_actions(service, ward, rule, form):
    """A class must not be answered by the name of an action that has its place in the matrix."""
    if form == "saved":
        assert service.put("/models/ward/matrices/words", json={"benefits": WORDS}).is_success
    answer = ask(service, **STATED[form], **rule)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == [says("/" + next(iter(STATED[form])), "among the classes", "treat")]


@pytest.mark.parametrize("rule", AMONG_CLASSES, ids=lambda rule: rule["rule"])
def test_rules_that_decide_among_classes_take_a_matrix_of_classes_in_any_order(service, ward, rule):
    turned = {"ill": {"ill": 5, "healthy": -10}, "healthy": {"ill": -1, "healthy": 0}}

    assert ask(service, benefits=turned, **rule).json() == ask(service, benefits=[[0, -1], [-10, 5]], **rule).json()


def test_cost_rules(service, ward):
    """With costs, beta_delta is the least expected cost and hierarchical reports p*."""
    costs = {"majority": "healthy", "C_DD": 1, "C_HD": 2, "C_DH": 10}
    beta_delta = ask(service, rule="beta_delta", costs=costs).json()
    hierarchical = ask(service, rule="hierarchical", costs=costs).json()
    by_benefit = ask(service, benefits=[[0, -2], [-10, 0]]).json()

    assert beta_delta["decisions"] == by_benefit["decisions"]
    assert (beta_delta["beta"], beta_delta["delta"]) == (11, 9)
    assert hierarchical["threshold"] == pytest.approx(2 / 12)


def test_priors_at_request_time(service, ward):
    """Given class priors, posteriors are corrected for them: a class with prior 0 gets probability 0."""
    answer = ask(service, rule="most_probable", priors={"healthy": 0, "ill": 1}).json()

    assert answer["decisions"] == ["ill"] * 3
    assert answer["probabilities"] == [[0, 1]] * 3


def test_numpy_and_arrow_say_the_same_as_json(service, plain):
    """The same rows as an array or a stream give the same figures."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(55, 10, 500), rng.normal(75, 10, 500)])
    X[3, 1] = np.nan
    rows = [[None if np.isnan(cell) else cell for cell in row] for row in X.tolist()]
    plainly = service.post("/predict", json={"model": plain, "instances": rows, "benefits": BENEFITS}).json()
    query = {"model": plain, "benefits": json.dumps(BENEFITS)}

    array = service.post("/predict", params=query, content=npy(X), headers={"Content-Type": NPY, "Accept": NPY})
    stream = service.post(
        "/predict",
        params=query,
        content=arrow({"pulse": X[:, 1], "age": X[:, 0]}),
        headers={"Content-Type": ARROW, "Accept": ARROW},
    )

    assert array.status_code == 200, array.text
    answer = np.load(io.BytesIO(array.content))
    rest = json.loads(array.headers["payoff-answer"])
    assert [rest["actions"][int(a)] for a in answer[:, 0]] == plainly["decisions"]
    assert np.array_equal(answer[:, 1:3], plainly["probabilities"])
    assert np.array_equal(answer[:, 3:], plainly["expected_benefits"])
    table = pa.ipc.open_stream(stream.content).read_all()
    assert table["decision"].to_pylist() == plainly["decisions"]
    assert table["p:ill"].to_pylist() == [p[1] for p in plainly["probabilities"]]
    assert json.loads(table.schema.metadata[b"payoff"])["model"] == {"name": "plain-predict", "version": 1}


@pytest.mark.parametrize("content", [b"", np.lib.format.MAGIC_PREFIX + b"\x01\x00\xff\xff{}"], ids=["empty", "header"])
def test_arrays_that_are_none(service, plain, content):
    query = {"model": plain, "rule": "most_probable"}

    assert service.post("/predict", params=query, content=content, headers={"Content-Type": NPY}).status_code == 422
    assert service.post("/predict", params=query, content=content, headers={"Content-Type": ARROW}).status_code == 422


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2),
        np.zeros((2, 3)),
        np.zeros((2, 2), dtype=complex),
        np.array([["a", "b"]]),
        np.array([[1, None]], dtype=object),
        np.array([[np.inf, 0.0]]),
    ],
    ids=["flat", "wide", "complex", "words", "objects", "infinite"],
)
def test_arrays_of_wrong_shape_or_kind(service, plain, array):
    """An array of objects would be a pickle: it is refused, not opened."""
    query = {"model": plain, "rule": "most_probable"}
    response = service.post("/predict", params=query, content=npy(array), headers={"Content-Type": NPY})

    assert response.status_code == 422
