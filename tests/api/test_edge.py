"""The edge: methods, limits, readiness, bounded heads, headers for browsers, logs that keep secrets, and what lacks."""

import base64
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from app.access.caller import GUESSES
from app.api import errors
from app.outcomes.recorder import Recorder
from tests.api.callers import ask
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.jobs.waiting import SOON, eventually
from tests.servers.service import Replica

ADMIN_KEY = "administrator-3f9c"
SECRET_NUMBER = 61.773421


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    replica = Replica({"admin_key": ADMIN_KEY, "log_level": "debug"})
    replica.start()
    replica.client.headers["X-API-Key"] = ADMIN_KEY
    yield replica
    replica.close()


TOLD = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


@pytest.mark.parametrize(
    "path", ["/health/live", "/models", "/nowhere", "/metrics", "/openapi.json"]
)
def test_every_answer_tells_browsers_what_to_leave(replica, path):
    for response in (replica.client.get(path), httpx.get(f"{replica.url}{path}")):
        assert TOLD.items() <= dict(response.headers).items()


def test_the_policy_of_the_documentation_page_lets_in_its_own_script_alone(replica):
    page = httpx.get(f"{replica.url}/docs")

    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    directives = dict(
        part.strip().split(" ", 1)
        for part in page.headers["content-security-policy"].split(";")
    )
    assert directives["script-src"] == f"'self' 'sha256-{digest}'"
    assert (
        directives["default-src"]
        == directives["base-uri"]
        == directives["frame-ancestors"]
        == "'none'"
    )
    assert directives["connect-src"] == "'self'"


def test_keys_from_the_command_line(replica):
    """The secret is told once, and the service knows of the key, and of its end, within a second."""

    def keys(*words):
        command = [
            sys.executable,
            "-m",
            "app.cli",
            "keys",
            *words,
        ]  # a process of its own, whose log is silent
        environment = {**os.environ, **replica.environment()}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )

    def status(key):
        return httpx.get(
            f"{replica.url}/models", headers={"X-API-Key": key}
        ).status_code

    made = keys(
        "create",
        "--name",
        "bank",
        "--scope",
        "predict",
        "--model",
        "heart-*",
        "--days",
        "90",
    ).stdout.strip()
    key_id, _, secret = made.partition(".")
    eventually(lambda: status(made) == 200, SOON)
    listed = keys("list").stdout
    assert re.search(rf"{key_id} +bank +predict +heart-\*", listed)
    assert secret not in listed
    assert keys("revoke", "bank").returncode == 0
    eventually(lambda: status(made) == 401, SOON)
    assert "'bank'" in keys("revoke", "bank").stderr


def test_logs_hold_no_keys_and_no_payloads(replica):
    """Whatever is asked: wrong keys, bodies that are not understood; but who changed what."""
    client = replica.client
    trained(
        client,
        {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows(60)},
    )
    for value in (SECRET_NUMBER, f"word {SECRET_NUMBER}", {"x": SECRET_NUMBER}):
        asked = {
            "model": "ward",
            "rule": "most_probable",
            "instances": [[value, 70, "mild"]],
        }
        client.post("/predict", json=asked)
    client.post("/predict", content=f'{{"model": {SECRET_NUMBER}'.encode())
    client.put("/models/ward/aliases/best", json={"version": 1})
    for name, wrong in (
        ("X-API-Key", "wrong-77af"),
        ("Authorization", "Bearer wrong-77af"),
    ):
        assert (
            httpx.get(f"{replica.url}/models", headers={name: wrong}).status_code == 401
        )
    log = replica.log.read_text()

    audited = [
        json.loads(line) for line in log.splitlines() if '"event":"audit"' in line
    ]
    assert ("admin", "alias.set", "ward@best") in {
        (line["who"], line["action"], line["subject"]) for line in audited
    }
    assert all(line["request_id"] for line in audited)
    assert not [
        secret
        for secret in (ADMIN_KEY, "wrong-77af", str(SECRET_NUMBER))
        if secret in log
    ]


@pytest.fixture(scope="module")
def behind() -> Iterator[Replica]:
    """A replica that trusts a proxy on loopback."""
    replica = Replica(
        {"admin_key": ADMIN_KEY, "trusted_proxies": "127.0.0.0/8, ::1", "workers": 0}
    )
    replica.start()
    yield replica
    replica.close()


def guesses(replica: Replica, forwarded: list[str]) -> list[int]:
    sent = [
        {"X-API-Key": f"guess {i}", "X-Forwarded-For": addresses}
        for i, addresses in enumerate(forwarded)
    ]
    with httpx.Client(base_url=replica.url) as client:
        return [client.get("/models", headers=headers).status_code for headers in sent]


def test_wrong_keys_count_for_the_peer_or_the_client_that_a_trusted_proxy_names(
    replica, behind
):
    """A random X-Forwarded-For starts no new count; not for what the client wrote before its address. The correct key
    is accepted all the while.
    """
    anywhere = [
        f"203.0.113.{number}, 2001:db8::{number}"
        for number in range(GUESSES.amount + 5)
    ]
    attacker = [
        f"198.51.100.{number}, 203.0.113.9" for number in range(GUESSES.amount + 1)
    ]

    assert guesses(replica, anywhere)[-5:] == [429] * 5
    assert replica.client.get("/models").status_code == 200
    assert guesses(behind, attacker) == [401] * GUESSES.amount + [429]
    assert guesses(behind, ["203.0.113.10", "203.0.113.9"]) == [401, 429]
    headers = {"X-API-Key": ADMIN_KEY, "X-Forwarded-For": "203.0.113.9"}
    assert httpx.get(f"{behind.url}/models", headers=headers).status_code == 200


def test_rates_of_a_service_without_keys_hold_for_each_client(tmp_path):
    settings = settings_for(tmp_path, workers=0, rate_limit="3/hour")
    with serving(
        settings, proxy_headers=True, forwarded_allow_ips="127.0.0.1"
    ) as client:
        seen = [
            client.get("/models", headers={"X-Forwarded-For": address}).status_code
            for address in (
                "2001:db8::1",
                "2001:db8::1",
                "192.0.2.1",
                "2001:db8::1",
                "2001:db8::1",
            )
        ]

    assert seen == [200, 200, 200, 200, 429]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/predict", "POST"),
        ("/models/m/aliases/a", "DELETE, PUT"),
        ("/datasets", "GET, POST"),
    ],
)
def test_a_wrong_method_is_a_problem_that_names_the_right_ones(service, path, allowed):
    """All of them, though each has a route of its own."""
    response = service.patch(path)

    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["allow"] == allowed


def test_every_answer_has_a_request_id_and_keeps_a_given_one(service):
    assert re.fullmatch(
        "[0-9a-f]{16}", service.get("/health/live").headers["x-request-id"]
    )
    assert (
        service.get("/health/live", headers={"X-Request-ID": "abc-1"}).headers[
            "x-request-id"
        ]
        == "abc-1"
    )
    assert (
        service.get("/health/live", headers={"X-Request-ID": "a b"}).headers[
            "x-request-id"
        ]
        != "a b"
    )


def test_a_body_over_the_limit_is_refused(tmp_path):
    with serving(settings_for(tmp_path, workers=0, max_body_mb=0.001)) as client:
        announced = client.post("/predict", content=b" " * 2000)
        streamed = client.post("/predict", content=(b" " * 100 for _ in range(20)))

    assert announced.status_code == streamed.status_code == 413
    assert (
        announced.headers["content-type"]
        == streamed.headers["content-type"]
        == "application/problem+json"
    )


def test_a_service_that_cannot_record_is_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(Recorder, "alive", False)
    with serving(settings_for(tmp_path, workers=0)) as client:
        answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert "decisions cannot be recorded" in answer.json()["detail"]


@pytest.mark.parametrize(
    "number",
    [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS],
)
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
