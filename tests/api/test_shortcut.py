"""The routes that are called most answer the same with and without the router."""

from __future__ import annotations

import json

import pytest
from starlette.types import ASGIApp

from app.api import app as app_module
from app.api.shortcut import Shortcut
from tests.conftest import serving, settings_for, trained, two_class_rows

QUESTION = {"model": "ward", "instances": [[50, 70, "mild"]], "benefits": [[0, -1], [-10, 5]]}
BODIES = {
    "/predict": [
        QUESTION,
        {**QUESTION, "instances": [[[], 70, "mild"]]},
        {**QUESTION, "model": "nowhere"},
        {**QUESTION, "model": "ward@live"},
        {**QUESTION, "benefits": "much"},
        {**QUESTION, "surplus": 1},
        {},
    ],
    "/retrieve": [{"loss": "f", "probabilities": [0.9, 0.2]}, {"loss": "f", "probabilities": [2]}, {"loss": "none"}],
    "/acquire": [{"model": "ward", "known": {}}, {"model": "nowhere", "known": {}}, {"known": 1}],
}
RAW = [b"", b"{", b"\xff", b"[" * 2000, b'{"model": "a", "model": "b"}', b"null"]
OTHERS = [
    ("GET", "/predict"),
    ("PUT", "/predict"),
    ("POST", "/predict/"),
    ("POST", "/Predict"),
    ("OPTIONS", "/retrieve"),
]


class Around:
    """In the place of the shortcut: everything goes through the router."""

    def __init__(self, app: ASGIApp, routes: object) -> None:  # noqa: ARG002
        self._app = app

    async def __call__(self, scope, receive, send):
        await self._app(scope, receive, send)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A service with the shortcut and one without, with the same model."""
    folder = tmp_path_factory.mktemp("both")
    with serving(settings_for(folder)) as short:
        trained(short, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app_module, "Shortcut", Around)
            with serving(settings_for(folder)) as plain:
                yield short, plain


def same(both, method, path, **request):
    """The status of the answer, which is the same from both but for its id and its date."""
    headers = {"X-Request-ID": "mine", **request.pop("headers", {})}
    answers = [client.request(method, path, headers=headers, **request) for client in both]
    first, second = ((answer.status_code, answer.content, {**answer.headers, "date": ""}) for answer in answers)
    assert first == second
    return first[0]


def test_answers_and_errors_are_the_same(both):
    seen = set()
    for path, bodies in BODIES.items():
        for body in [*(json.dumps(body).encode() for body in bodies), *RAW]:
            for kind in ("application/json", "text/plain", "application/x-npy"):
                seen.add(same(both, "POST", path, content=body, headers={"Content-Type": kind}))
    for method, path in OTHERS:
        seen.add(same(both, method, path))

    assert {200, 404, 405, 415, 422} <= seen


def test_the_shortcut_is_taken(both, monkeypatch):
    """Otherwise the test above would compare the router with itself."""
    taken = []
    call = Shortcut.__call__

    async def counted(self, scope, receive, send):
        app, self._app = self._app, None
        try:
            await call(self, scope, receive, send)
            taken.append(scope["path"])
        finally:
            self._app = app

    monkeypatch.setattr(Shortcut, "__call__", counted)
    assert both[0].post("/predict", json=QUESTION).status_code == 200
    assert taken == ["/predict"]
