"""Matrices that are saved for a model: a request that names one is answered as if the matrix stood in it."""

import pytest
from sqlalchemy import select

from app.outcomes.tables import DECISIONS
from tests.api.test_case_cells import requests
from tests.conftest import database_of, trained, two_class_rows
from tests.messages import says

NUMBERS = {"benefits": [[0, -1], [-10, 5]], "actions": ["wait", "treat"]}
FORMS = {
    "lists": NUMBERS,
    "actions-in-another-order": {
        "benefits": [[-1, 0], [5, -10]],
        "actions": ["treat", "wait"],
    },
    "words": {
        "benefits": {
            "ill": {"treat": 5, "wait": -10},
            "healthy": {"treat": -1, "wait": 0},
        }
    },
    "ties": {
        "benefits": {
            "ill": {"c": 5, "b": 5, "a": 0},
            "healthy": {"b": 0, "c": 0, "a": 1 / 3},
        }
    },
    "costs": {"cost_matrix": [[0, 1], [10, -5]], "actions": ["wait", "treat"]},
    "classes": {"benefits": [[0, -1], [-10, 5]]},
}
ROWS = two_class_rows(3)["rows"]
HEADER = "payoff-matrix"


@pytest.fixture(scope="module")
def client(service, numeric, forest):
    """With a model that has no categories, which the entrance answers for, and the forest, which can be asked."""
    for form, stated in FORMS.items():
        for model in (numeric, forest):
            saved = service.put(f"/models/{model}/matrices/{form}", json=stated)
            assert saved.status_code == 200, saved.text
    service.post(
        "/predict", json={"model": "numeric", "instances": [[50, 70]], **NUMBERS}
    ).raise_for_status()  # loads it
    return service


@pytest.fixture
def model(client, request):
    """Of this test alone."""
    name = f"m{abs(hash(request.node.name))}"
    trained(
        client,
        {"model": name, "learner": {"kind": "logistic"}, "data": two_class_rows()},
    )
    return f"/models/{name}"


def later(client, path, request):
    """The second answer: the first one says the matrix in words."""
    client.post(path, json=request)
    return client.post(path, json=request)


@pytest.mark.parametrize("form", FORMS)
def test_the_answer_is_that_to_the_matrix_itself_byte_for_byte(client, form):
    for path, request in requests("woods"):
        words = (
            {"actions": ["healthy", "ill"]} if form == "classes" else {}
        )  # which this report does not assume
        plain = later(client, path, request | FORMS[form] | words)
        assert plain.status_code == 200, plain.text
        if form in ("words", "costs"):  # are the same numbers
            stated = request | FORMS[form] | {"actions": NUMBERS["actions"]}
            assert (
                later(client, path, stated).json()
                == later(client, path, request | NUMBERS).json()
            ), path
        named = later(client, path, request | {"benefits": form})
        assert (named.status_code, named.content) == (200, plain.content), path
        assert (plain.headers.get(HEADER), named.headers.get(HEADER)) == (
            None,
            f"{form}:1",
        )


@pytest.mark.parametrize("reference", [*FORMS, "ties:1"])
def test_the_entrance_answers_as_for_the_matrix_itself(client, reference):
    sent = {
        "model": "numeric",
        "instances": [row[:2] for row in ROWS],
        "benefits": reference,
    }
    named = later(client, "/predict", sent)
    assert named.headers[HEADER] == f"{reference.removesuffix(':1')}:1"
    stated = {**sent, "benefits": None, **FORMS[reference.removesuffix(":1")]}
    itself = later(client, "/predict", stated)
    assert named.content == itself.content


def test_other_forms_of_a_request_may_name_one(client):
    rows = [row[:2] for row in ROWS]
    decisions = client.post(
        "/predict", json={"model": "numeric", "instances": rows, **NUMBERS}
    ).json()["decisions"]
    table = "age,pulse\n" + "\n".join(f"{age},{pulse}" for age, pulse in rows)
    query = {"model": "numeric", "benefits": "lists"}
    answer = client.post(
        "/predict", params=query, content=table, headers={"Content-Type": "text/csv"}
    )
    assert (answer.json()["decisions"], answer.headers[HEADER]) == (
        decisions,
        "lists:1",
    )
    tensor = {"name": "X", "datatype": "FP64", "shape": [3, 2], "data": rows}
    body = {"inputs": [tensor], "parameters": {"benefits": "lists"}}
    inferred = client.post("/v2/models/numeric/infer", json=body)
    assert (inferred.json()["outputs"][0]["data"], inferred.headers[HEADER]) == (
        decisions,
        "lists:1",
    )
    asked = client.post(
        "/acquire",
        json={"model": "woods", "instances": [{"age": 50}], "benefits": "lists"},
    )
    replayed = client.post("/models/woods/replay", json={"benefits": "lists"})
    assert (asked.headers[HEADER], replayed.status_code) == ("lists:1", 202)


def test_versions_are_numbered_and_numbers_are_not_used_again(client, model):
    path = f"{model}/matrices/autumn-2026"
    first = client.put(path, json=FORMS["words"]).json()
    stated = {
        "model": model.rpartition("/")[2],
        "matrix": "autumn-2026",
        "version": 1,
        "who": "anonymous",
    }
    stated |= {
        "benefits": {
            "healthy": {"treat": -1, "wait": 0},
            "ill": {"treat": 5, "wait": -10},
        },
        "actions": None,
    }
    assert stated.items() <= first.items()
    same = {
        "benefits": {
            "healthy": {"wait": 0.0, "treat": -1},
            "ill": {"wait": -10, "treat": 5},
        }
    }
    assert client.put(path, json=same).json() == first
    second = client.put(path, json=NUMBERS).json()  # which gives the actions an order
    assert (second["version"], second["actions"]) == (2, NUMBERS["actions"])
    assert (
        client.put(path, json=FORMS["words"]).json()["version"] == 3
    )  # the newest one differs
    assert client.get(f"{path}:2").json() == {**second, "versions": [1, 2, 3]}
    client.put(f"{model}/matrices/a", json=NUMBERS)
    listed = client.get(f"{model}/matrices").json()["matrices"]
    assert [(line["matrix"], line["version"]) for line in listed] == [
        ("a", 1),
        ("autumn-2026", 3),
    ]
    assert [client.delete(path).status_code for _ in range(2)] == [204, 404]
    assert [
        client.get(each).status_code
        for each in (path, f"{path}:2", f"{model}/matrices/a")
    ] == [404, 404, 200]
    assert client.put(path, json=NUMBERS).json()["version"] == 4
    client.delete(model).raise_for_status()
    assert [
        client.get(path).status_code,
        client.put(path, json=NUMBERS).status_code,
    ] == [404, 404]


@pytest.mark.parametrize(
    ("more", "place", "words"),
    [
        ({"benefits": "wordz"}, "/benefits", ("saved matrix", "wordz", "words")),
        ({"benefits": "words:7"}, "/benefits", ("words:7", "words:1")),
        ({"benefits": "words", "actions": ["wait", "treat"]}, "/actions", ("actions",)),
        (
            {"benefits": "words", "cost_matrix": NUMBERS["benefits"]},
            "/cost_matrix",
            ("not both",),
        ),
        ({"cost_matrix": "words"}, "/cost_matrix", ("'words'",)),
        (
            {"benefits": "lists", "rule": "most_probable"},
            "/benefits",
            ("lists:1", "actions"),
        ),
    ],
)
def test_errors_stand_where_the_request_names_the_matrix(client, more, place, words):
    for path, request in requests("woods"):
        if "rule" not in more or path == "/predict":
            answer = client.post(path, json=request | more)
            assert answer.status_code == 422, path
            [error] = answer.json()["errors"]
            assert error["loc"] == place
            assert says(error["msg"], *words), error


def test_a_recorded_decision_keeps_the_matrix_itself(client):
    ids = []
    for stated in (NUMBERS, {"benefits": "lists"}):
        sent = {"model": "numeric", "instances": [[50, 70]], "record": True, **stated}
        ids += client.post("/predict", json=sent).json()["ids"]
    with database_of(client) as database, database.reading() as connection:
        first, second = connection.execute(
            select(DECISIONS.c.terms).where(DECISIONS.c.id.in_(ids))
        ).scalars()
    assert first == second
