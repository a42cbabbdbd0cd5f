"""Requests full of unknown names: each is compared with the known ones at a cost, so that few of them are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import app.errors
from app.errors import MAX_ERRORS
from tests.api.column_bodies import arrow
from tests.api.operations import operations

STRANGE = [f"feature_{i:04}" for i in range(1000)]
MANY = dict.fromkeys(STRANGE, 1)
LONGEST_ANSWER = 20_000  # bytes
EXAMPLES = {f"{operation.method} {operation.url}": operation.body for operation in operations() if operation.takes_json}


@pytest.fixture
def compared(monkeypatch) -> list[str]:
    """The names that were compared with the known ones."""
    names: list[str] = []
    suggest = app.errors.get_close_matches

    def counting(name: str, *others: Any, **options: Any) -> list[str]:
        names.append(name)
        return suggest(name, *others, **options)

    monkeypatch.setattr(app.errors, "get_close_matches", counting)
    return names


def check(response, compared: list[str]) -> None:
    assert response.status_code == 422, response.text
    assert 1 <= len(response.json()["errors"]) <= MAX_ERRORS
    assert len(response.content) < LONGEST_ANSWER
    assert 1 <= len(compared) <= MAX_ERRORS


@pytest.mark.parametrize("route", [f"{operation.method} {operation.url}" for operation in operations()])
def test_few_of_many_query_parameters_are_compared(service, compared, route):
    method, path = route.split(" ")

    check(service.request(method, path, params=MANY, json=EXAMPLES.get(route)), compared)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", {"instances": [MANY], "rule": "most_probable"}),
        ("/predict", {"instances": [], "rule": "most_probable", "priors": MANY}),
        ("/acquire", {"known": MANY}),
        ("/acquire", {"known": {}, "unavailable": STRANGE}),
        ("/acquire", {"known": {}, "feature_costs": MANY}),
    ],
    ids=["instances", "priors", "known", "unavailable", "feature_costs"],
)
def test_few_of_many_unknown_names_are_compared(service, ward, forest, compared, path, body):
    model = ward if path == "/predict" else forest
    check(service.post(path, json=body | {"model": model}), compared)


def test_few_of_many_columns_are_compared(service, ward, compared):
    """Also of columns that are there twice."""
    table = pa.table([pa.array([1.0])] * 2000, names=STRANGE * 2)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}

    check(service.post("/predict", params={"model": ward}, content=arrow(table), headers=headers), compared)


def test_few_of_many_form_fields_are_compared(service, compared):
    table = {"file": ("table.csv", "a,b\n1,2\n")}

    check(service.post("/datasets", files=table, data=dict.fromkeys(STRANGE, "1")), compared)
