"""What every route does alike, in one table: docs/reference/errors.md has it in words."""

import json
from typing import Any

import httpx
import pytest

from app.api.codecs import json as json_codec
from tests.api.operations import operations
from tests.conftest import trained, two_class_rows

BENEFITS = [[0, -1], [-10, 5]]
ROW = [50, 70, "mild"]
JSON = {"Content-Type": "application/json"}
# every operation, with the path and the body of its example, which test_openapi.py proves to be accepted
BODIES: dict[str, dict[str, Any]] = {
    f"{operation.method} {operation.url}": operation.body
    for operation in operations()
    if operation.takes_json
}
TRAINING = {
    "model": "ward",
    "learner": {"kind": "logistic"},
    "data": {"dataset": "ds_x"},
}
COMPARISON = {
    "dataset": "ds_x",
    "learners": [{"kind": "logistic"}],
    "benefits": BENEFITS,
}


@pytest.fixture(scope="module")
def client(service: httpx.Client, ward: str) -> httpx.Client:
    for model, learner, more in (
        ("wood", "budget_forest", {}),
        ("blind", "logistic", {"holdout": 0}),
    ):
        trained(
            service,
            {
                "model": model,
                "learner": {"kind": learner},
                "data": two_class_rows(60),
                **more,
            },
        )
    return service


def ask(
    client: httpx.Client, route: str, content: bytes, **options: Any
) -> httpx.Response:
    method, path = route.split(" ")
    return client.request(
        method, path, content=content, headers=options.pop("headers", JSON), **options
    )


def places(response: httpx.Response) -> list[str]:
    return [flaw["loc"] for flaw in response.json()["errors"]]


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1,]", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": -Infinity}', b"\xff\xfe", b'{"a": "\xff"}',
     b"\xef\xbb\xbf{}", b'{"a": 1} {}', b"[" * 5000 + b"]" * 5000],
    ids=["empty", "cut off", "comma", "NaN", "Infinity", "-Infinity", "UTF-16", "no UTF-8", "BOM", "two", "deep"],
)  # fmt: skip
def test_a_body_that_is_not_json(client, route, content):
    response = ask(client, route, content)

    assert response.status_code == 422
    assert places(response) == [""]
    assert "not JSON" in response.json()["detail"]
    assert ("send null" in response.json()["detail"]) == (
        b"NaN" in content or b"Infinity" in content
    )


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("", 415), ("application/xml", 415),
     ("application/json; charset=utf-8", 200), ("application/vnd.mine+json", 200), (None, 200)],
)  # fmt: skip
def test_the_media_type_of_a_body(client, route, kind, status):
    """Without a Content-Type JSON is assumed."""
    broken = (
        b"{" if status == 200 else json.dumps(BODIES[route]).encode()
    )  # accepted, as far as the body is looked at
    response = ask(
        client, route, broken, headers={} if kind is None else {"Content-Type": kind}
    )

    assert response.status_code == {200: 422}.get(status, status)
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("route", BODIES)
def test_a_body_of_too_many_values(client, route):
    """Refused before it is parsed, whatever it holds."""
    for part in (b"[],", b"1,", b"{},"):
        body = b'{"instances": [' + part * json_codec.MAX_VALUES + b"0]}"
        response = ask(client, route, body)
        assert response.status_code == 413
        assert "values" in response.json()["detail"]


def test_a_query_parameter_that_is_given_twice(client):
    """At every operation that has any; a list is given item by item."""
    found = [
        (operation, parameter["name"])
        for operation in operations()
        for parameter in operation.document.get("parameters", ())
        if parameter["in"] == "query" and parameter["schema"].get("type") != "array"
    ]
    assert len(found) >= 9
    for operation, name in found:
        response = client.request(
            operation.method, operation.url, params=[(name, "1"), (name, "1")]
        )
        assert response.status_code == 422, (operation, name)
        assert f"/{name}" in places(response), (operation, name)


@pytest.mark.parametrize(
    "kind", ["image/png", "application/json", "", None, "x" * 5_000]
)
def test_the_media_type_of_an_upload(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    response = client.post(
        "/datasets", params={"label": "b"}, content=b"a,b\n", headers=headers
    )

    assert response.status_code == 415
    assert "errors" not in response.json()
    assert len(response.json()["detail"]) < 250


ASKED = {"model": "ward", "instances": [ROW], "benefits": BENEFITS}
RETRIEVED = {
    "model": "ward",
    "instances": [],
    "setting": "binary",
    "loss": {"name": "am"},
}
NO_ROWS = {
    "model": "x",
    "learner": {"kind": "logistic"},
    "data": {"features": ["a"], "rows": [], "labels": []},
}
STATUSES = [  # method, path, body, status, the place that the body has for it
    (
        "POST",
        "/predict",
        ASKED | {"model": "blind", "rule": "threshold", "threshold": "holdout"},
        409,
        "/threshold",
    ),
    ("POST", "/models/blind/benefit", {"benefits": BENEFITS}, 409, None),
    (
        "POST",
        "/predict",
        ASKED | {"instances": []},
        200,
        None,
    ),  # an answer with an entry for each row has none
    ("POST", "/acquire", {"model": "wood", "instances": []}, 200, None),
    ("POST", "/retrieve", RETRIEVED, 200, None),
    (
        "POST",
        "/acquire/simulate",
        {"model": "wood", "rows": [], "labels": []},
        422,
        "/labels",
    ),
    ("POST", "/train", NO_ROWS, 422, "/data/rows"),
    ("POST", "/predict", ASKED | {"model": "none"}, 404, "/model"),
    ("POST", "/retrieve", RETRIEVED | {"model": "none"}, 404, "/model"),
    ("POST", "/acquire", {"model": "none", "known": {}}, 404, "/model"),
    (
        "POST",
        "/acquire/simulate",
        {"model": "wood", "dataset": "ds_x"},
        404,
        "/dataset",
    ),
    ("POST", "/train", TRAINING, 404, "/data/dataset"),
    ("POST", "/compare", COMPARISON, 404, "/dataset"),
    ("POST", "/datasets/from-outcomes", {"model": "none"}, 404, "/model"),
    ("POST", "/models/ward/replay", {"models": ["none"]}, 404, "/models/0"),
    ("PUT", "/models/ward/aliases/spare", {"version": 99}, 404, "/version"),
    ("POST", "/models/none/benefit", {"benefits": BENEFITS}, 404, None),
    ("GET", "/models/none", None, 404, None),
    ("GET", "/models/ward/versions/9/artifact", None, 404, None),
    ("DELETE", "/models/none", None, 404, None),
    ("DELETE", "/models/ward/versions/9", None, 404, None),
    ("DELETE", "/models/ward/aliases/spare", None, 404, None),
    ("GET", "/datasets/ds_x", None, 404, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "place"), STATUSES)
def test_what_is_not_there_or_empty_has_its_status_and_place(
    client, method, path, body, status, place
):
    response = client.request(method, path, json=body)

    assert response.status_code == status, response.text
    assert [flaw["loc"] for flaw in response.json().get("errors", [])] == (
        [place] if place else []
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/train",
            TRAINING | {"data": {"features": [1] * 100_000, "rows": [], "labels": []}},
        ),
        ("/models/ward/benefit", {"benefits": [["x"] * 40_000] * 2}),
        (
            "/predict",
            {
                "model": "ward",
                "instances": [["x", "y", "mild"]] * 100_000,
                "benefits": BENEFITS,
            },
        ),
    ],
    ids=["names", "benefits", "cells"],
)
def test_many_mistakes_get_a_short_answer(client, path, body):
    response = client.post(path, content=json.dumps(body), headers=JSON)

    assert response.status_code == 422
    assert len(response.content) < 20_000
    assert 1 <= len(response.json()["errors"]) <= 20


ROUNDED = [
    [1.0000000000000002, 0.0],
    [1.0, -1e-17],
    [1.0 + 1e-9, -1e-9],
    [1.0000001, 0.0],
]
PLAIN = [[1.0, 0.0]] * len(ROUNDED)
GIVEN = {"classes": ["fine", "fraud"], "benefits": BENEFITS}
LABELS = {"labels": ["fine", "fraud", "fine", "fine"]}
RETRIEVAL = {"setting": "multiclass", "loss": {"name": "f_beta"}, "marginals": True}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/predict", GIVEN), ("/benefit", GIVEN | LABELS), ("/retrieve", RETRIEVAL)],
)
def test_rounding_of_probabilities_is_no_error(client, path, body):
    found = client.post(path, json=body | {"probabilities": ROUNDED})
    assert found.status_code == 200, found.text
    assert (
        found.json() == client.post(path, json=body | {"probabilities": PLAIN}).json()
    )
    wrong = [[1.0, 0.0], [1.00001, -0.00001], [0.5, 0.5], [0.5, 0.5]]
    refused = client.post(path, json=body | {"probabilities": wrong})
    assert refused.status_code == 422
    assert places(refused)[0].startswith("/probabilities/1")


def test_a_calibration_takes_the_same_probabilities_to_learn_from_and_to_decide(client):
    varied = [[0.3, 0.7], [0.8, 0.2], [0.6, 0.4], [0.1, 0.9]]
    order = {"model": "rounded", "classes": GIVEN["classes"], "holdout": 0}
    order |= {"labels": [*LABELS["labels"], "fraud", "fine", "fine", "fraud"]}
    job = client.post(
        "/calibrate",
        json=order | {"probabilities": ROUNDED + varied},
        headers={"Prefer": "wait=60"},
    )
    assert job.json()["status"] == "succeeded", job.text
    asked = {"model": "rounded", "benefits": BENEFITS}
    found, plain = (
        client.post("/predict", json=asked | {"instances": rows})
        for rows in (ROUNDED, PLAIN)
    )
    assert found.status_code == 200, found.text
    assert found.json()["decisions"] == plain.json()["decisions"]
    priors = {"fine": 1.0000000000000002, "fraud": -1e-17}
    corrected = client.post(
        "/predict", json=asked | {"instances": PLAIN, "priors": priors}
    )
    assert corrected.status_code == 200, corrected.text


def test_encodings_are_not_guessed(client):
    response = client.post(
        "/predict", content=b"x", headers={**JSON, "Content-Encoding": "gzip"}
    )

    assert response.status_code == 415
    assert response.headers["content-type"] == "application/problem+json"
