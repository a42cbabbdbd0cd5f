"""The edge itself: methods, limits, readiness; and what the machine lacks."""

import errno
import os
import re

import httpx
import pytest
from fastapi import FastAPI

from app.api import errors
from app.outcomes.recorder import Recorder
from tests.api.callers import ask
from tests.conftest import serving, settings_for


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/predict", "POST"), ("/models/m/aliases/a", "DELETE, PUT"), ("/datasets", "GET, POST")],
)
def test_a_wrong_method_is_a_problem_that_names_the_right_ones(service, path, allowed):
    """All of them, though each has a route of its own."""
    response = service.patch(path)

    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["allow"] == allowed


def test_every_answer_has_a_request_id_and_keeps_a_given_one(service):
    assert re.fullmatch("[0-9a-f]{16}", service.get("/health/live").headers["x-request-id"])
    assert service.get("/health/live", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert service.get("/health/live", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"


def test_a_body_over_the_limit_is_refused(tmp_path):
    with serving(settings_for(tmp_path, workers=0, max_body_mb=0.001)) as client:
        announced = client.post("/predict", content=b" " * 2000)
        streamed = client.post("/predict", content=(b" " * 100 for _ in range(20)))

    assert announced.status_code == streamed.status_code == 413
    assert announced.headers["content-type"] == streamed.headers["content-type"] == "application/problem+json"


def test_a_service_that_cannot_record_is_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(Recorder, "alive", False)
    with serving(settings_for(tmp_path, workers=0)) as client:
        answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert "decisions cannot be recorded" in answer.json()["detail"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_what_the_machine_lacks_is_a_problem_that_says_when_to_come_again(number):
    response = failing(OSError(number, os.strerror(number)))

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.json()["title"] == (
        "Too many requests are in progress"
        if number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
        else "The service is not ready"
    )


def failing(error: Exception) -> httpx.Response:
    """The answer of a route that raises `error`."""
    app = FastAPI()
    errors.install(app)

    @app.get("/")
    def fail() -> None:
        raise error

    return ask(app, "GET", "/")
