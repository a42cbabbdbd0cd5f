"""What every route does alike, in one table: docs/reference/errors.md has it in words."""

from __future__ import annotations

import json
import re
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
QUERIES = [f"{operation.method} {operation.url}" for operation in operations()]
BODIES: dict[str, dict[str, Any]] = {
    f"{operation.method} {operation.url}": operation.body for operation in operations() if operation.takes_json
}
TRAINING = {"model": "ward", "learner": {"kind": "logistic"}, "data": {"dataset": "ds_x"}}
COMPARISON = {"dataset": "ds_x", "learners": [{"kind": "logistic"}], "benefits": BENEFITS}


@pytest.fixture(scope="module")
def client(service: httpx.Client, ward: str) -> httpx.Client:
    trained(service, {"model": "wood", "learner": {"kind": "budget_forest"}, "data": two_class_rows(60)})
    trained(
        service, {"model": "blind", "learner": {"kind": "logistic"}, "data": two_class_rows(60, seed=3), "holdout": 0}
    )
    return service


def ask(client: httpx.Client, route: str, content: bytes, **options: Any) -> httpx.Response:
    method, path = route.split(" ")
    return client.request(method, path, content=content, headers=options.pop("headers", JSON), **options)


def places(response: httpx.Response) -> list[str]:
    return [flaw["loc"] for flaw in response.json()["errors"]]


def test_the_routes_of_the_contract_are_among_them():
    assert {"POST /predict", "POST /retrieve", "POST /acquire", "POST /train", "POST /compare"} <= set(BODIES)
    assert len(QUERIES) >= 28


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
    assert ("send null" in response.json()["detail"]) == (b"NaN" in content or b"Infinity" in content)


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("", 415), ("application/xml", 415),
     ("application/json; charset=utf-8", 200), ("application/vnd.mine+json", 200), (None, 200)],
)  # fmt: skip
def test_the_media_type_of_a_body(client, route, kind, status):
    """Without a Content-Type JSON is assumed."""
    broken = b"{" if status == 200 else json.dumps(BODIES[route]).encode()  # accepted, as far as the body is looked at
    response = ask(client, route, broken, headers={} if kind is None else {"Content-Type": kind})

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


@pytest.mark.parametrize("route", QUERIES)
def test_an_unknown_query_parameter(client, route):
    method, path = route.split(" ")
    response = client.request(method, path, params={"no/such": "1"}, json=BODIES.get(route))

    assert response.status_code == 422
    assert places(response) == ["/no~1such"]


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_documents_take_no_query_parameters(client, path):
    response = client.get(path, params={"x": "1"})

    assert response.status_code == 422
    assert places(response) == ["/x"]


def test_a_query_parameter_that_is_given_twice(client):
    """At every operation that has any; a list is given item by item."""
    paths = client.get("/openapi.json").json()["paths"]
    tried = 0
    for path, methods in paths.items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] != "query" or parameter["schema"].get("type") == "array":
                    continue
                tried += 1
                name, url = parameter["name"], re.sub("{.*?}", "1", path)
                response = client.request(method, url, params=[(name, "1"), (name, "1")])
                assert response.status_code == 422, (method, path, name)
                assert f"/{name}" in places(response), (method, path, name)
    assert tried >= 9


@pytest.mark.parametrize("kind", ["image/png", "application/json", "", None, "x" * 5_000])
def test_the_media_type_of_an_upload(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    response = client.post("/datasets", params={"label": "b"}, content=b"a,b\n", headers=headers)

    assert response.status_code == 415
    assert "errors" not in response.json()
    assert len(response.json()["detail"]) < 250


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (
            "/predict",
            {"rule": "threshold", "threshold": "holdout", "benefits": BENEFITS, "instances": [ROW]},
            "/threshold",
        ),
        ("/models/blind/benefit", {"benefits": BENEFITS}, None),
    ],
)
def test_a_version_without_a_hold_out_is_a_conflict(client, path, body, place):
    response = client.post(path, json=body if "blind" in path else {"model": "blind", **body})

    assert response.status_code == 409
    assert [flaw["loc"] for flaw in response.json().get("errors", [])] == ([place] if place else [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/predict", {"model": "ward", "instances": [], "benefits": BENEFITS}, 200),
        ("/acquire", {"model": "wood", "instances": []}, 200),
        ("/retrieve", {"model": "ward", "instances": [], "setting": "binary", "loss": {"name": "am"}}, 200),
        ("/retrieve", {"probabilities": [], "setting": "binary", "loss": {"name": "am"}}, 200),
        ("/acquire/simulate", {"model": "wood", "rows": [], "labels": []}, 422),
        (
            "/train",
            {"model": "x", "learner": {"kind": "logistic"}, "data": {"features": ["a"], "rows": [], "labels": []}},
            422,
        ),
    ],
)
def test_no_rows(client, path, body, status):
    """An answer with one entry for each row has none; what is learnt or averaged over rows needs one."""
    assert client.post(path, json=body).status_code == status


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "/predict", {"model": "none", "instances": [ROW], "benefits": BENEFITS}, "/model"),
        (
            "POST",
            "/retrieve",
            {"model": "none", "instances": [ROW], "setting": "binary", "loss": {"name": "am"}},
            "/model",
        ),
        ("POST", "/acquire", {"model": "none", "known": {}}, "/model"),
        ("POST", "/acquire/simulate", {"model": "wood", "dataset": "ds_x"}, "/dataset"),
        ("POST", "/train", TRAINING, "/data/dataset"),
        ("POST", "/compare", COMPARISON, "/dataset"),
        ("PUT", "/models/ward/aliases/spare", {"version": 99}, "/version"),
        ("POST", "/models/none/benefit", {"benefits": BENEFITS}, None),
        ("GET", "/models/none", None, None),
        ("GET", "/datasets/ds_x", None, None),
    ],
)
def test_what_is_not_there_has_a_place_where_the_body_names_it(client, method, path, body, place):
    response = client.request(method, path, json=body)

    assert response.status_code == 404
    assert [flaw["loc"] for flaw in response.json().get("errors", [])] == ([place] if place else [])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/train", TRAINING | {"data": {"features": [1] * 100_000, "rows": [], "labels": []}}),
        ("/train", TRAINING | {f"f{i}": 1 for i in range(100_000)}),
        ("/models/ward/benefit", {"benefits": [["x"] * 40_000] * 2}),
        ("/predict", {f"f{i}": 1 for i in range(100_000)}),
        ("/predict", {"model": "ward", "instances": [["x", "y", "mild"]] * 100_000, "benefits": BENEFITS}),
    ],
    ids=["names", "fields", "benefits", "predict fields", "cells"],
)
def test_many_mistakes_get_a_short_answer(client, path, body):
    response = client.post(path, content=json.dumps(body), headers=JSON)

    assert response.status_code == 422
    assert len(response.content) < 20_000
    assert 1 <= len(response.json()["errors"]) <= 20


def test_encodings_are_not_guessed(client):
    response = client.post("/predict", content=b"x", headers={**JSON, "Content-Encoding": "gzip"})

    assert response.status_code == 415
    assert response.headers["content-type"] == "application/problem+json"


def test_the_most_wanted_form_is_sent(client):
    question = {"model": "ward", "instances": [[50, 70, "mild"]], "rule": "most_probable"}
    for accept, kind in {
        "application/x-npy;q=0.5, application/json": "application/json",
        "text/html, application/x-npy;q=0.5": "application/x-npy",
        "*/*": "application/json",
        "application/x-npy;q=x": "application/json",
    }.items():
        assert client.post("/predict", json=question, headers={"Accept": accept}).headers["content-type"] == kind
