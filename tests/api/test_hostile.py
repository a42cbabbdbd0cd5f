"""What clumsy and hostile clients send: refused in words, quickly, and without a trace."""

from __future__ import annotations

import json

import pytest

from tests.conftest import two_class_rows

BENEFITS = [[0, -1], [-10, 5]]
HEADERS = {"Content-Type": "application/json"}


def order(**changes: object) -> dict:
    return {"model": "hostile", "learner": {"kind": "logistic"}, "data": two_class_rows(60), **changes}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/train", order(data={"features": [1] * 100_000, "rows": [], "labels": []})),
        ("/train", order() | {f"f{i}": 1 for i in range(100_000)}),
        ("/models/ward/benefit", {"benefits": [["x"] * 40_000] * 2}),
        ("/predict", {f"f{i}": 1 for i in range(100_000)}),
        ("/predict", {"model": "ward", "instances": [["x", "y", "mild"]] * 100_000, "benefits": BENEFITS}),
    ],
    ids=["names", "fields", "benefits", "predict fields", "cells"],
)
def test_many_mistakes_get_a_short_answer(service, ward, path, body):
    response = service.post(path, content=json.dumps(body), headers=HEADERS)

    assert response.status_code == 422
    assert len(response.content) < 20_000
    assert 1 <= len(response.json()["errors"]) <= 20


def test_encodings_are_not_guessed(service):
    response = service.post("/predict", content=b"x", headers={**HEADERS, "Content-Encoding": "gzip"})

    assert response.status_code == 415
    assert response.headers["content-type"] == "application/problem+json"


def test_the_most_wanted_form_is_sent(service, ward):
    question = {"model": "ward", "instances": [[50, 70, "mild"]], "rule": "most_probable"}
    for accept, kind in {
        "application/x-npy;q=0.5, application/json": "application/json",
        "text/html, application/x-npy;q=0.5": "application/x-npy",
        "*/*": "application/json",
        "application/x-npy;q=x": "application/json",
    }.items():
        assert service.post("/predict", json=question, headers={"Accept": accept}).headers["content-type"] == kind
