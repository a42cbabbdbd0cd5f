"""Published models over HTTP: the routes and their errors, on a real registry."""

import hashlib
import io
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from fastapi import FastAPI

from app.api import errors
from app.api.routes import models
from tests.api.callers import ask as asked
from tests.api.callers import called_by
from tests.registry.making import make_estimator, publish


@pytest.fixture
def ask(stores):
    app = FastAPI()
    app.state.service = SimpleNamespace(stores=stores)
    errors.install(app)
    app.include_router(models.router)
    return partial(asked, called_by(app))


def test_models_are_listed_in_pages(stores, ask):
    for name in ("b", "a", "a", "c"):
        publish(stores.registry, name)
    stores.registry.set_alias("a", "champion", 1, "ann")

    first = ask("GET", "/models", params={"page_size": 2}).json()
    second = ask(
        "GET", "/models", params={"page_token": first["next_page_token"]}
    ).json()
    assert first["models"] == [
        {"name": "a", "latest": 2, "versions": [2, 1], "aliases": {"champion": 1}},
        {"name": "b", "latest": 1, "versions": [1], "aliases": {}},
    ]
    assert ([line["name"] for line in second["models"]], second["next_page_token"]) == (
        ["c"],
        None,
    )


def test_a_model_shows_versions_aliases_and_who_moved_them(stores, ask):
    for _ in range(2):
        publish(stores.registry)
    alias = {"name": "triage", "alias": "champion", "shadow": [], "warnings": []}
    for version in (2, 1, 1):  # the last changes nothing
        moved = ask("PUT", "/models/triage/aliases/champion", json={"version": version})
        assert (moved.status_code, moved.json()) == (200, alias | {"version": version})

    document = ask("GET", "/models/triage").json()

    assert (document["name"], document["latest"], document["aliases"]) == (
        "triage",
        2,
        {"champion": 1},
    )
    assert [version["version"] for version in document["versions"]] == [2, 1]
    newest = document["versions"][0]
    assert (newest["kind"], newest["metrics"]) == ("logistic", {"log_loss": 0.5})
    moves = document["alias_history"]
    now = datetime.now(UTC)
    for stamp in (newest["created_at"], *(move["at"] for move in moves)):
        assert (
            now - timedelta(minutes=1)
            < datetime.fromisoformat(stamp)
            < now + timedelta(minutes=1)
        )
    assert {
        (move["who"], move["from_version"], move["to_version"]) for move in moves
    } == {
        ("anonymous", None, 2),
        ("anonymous", 2, 1),
    }
    card = ask("GET", "/models/triage/versions/1").json()
    for reference in ("triage:1", "triage%3A1", "triage@champion", "triage%40champion"):
        assert ask("GET", f"/models/{reference}").json() == card


def test_the_artifact_downloads_with_its_digest(stores, ask):
    card = publish(stores.registry)

    response = ask("GET", "/models/triage/versions/1/artifact")

    assert response.headers["content-type"] == "application/octet-stream"
    assert (
        response.headers["content-disposition"]
        == 'attachment; filename="triage-1.joblib"'
    )
    assert response.headers["content-length"] == str(len(response.content))
    assert response.headers["etag"] == f'"{card.sha256["model.joblib"]}"'
    assert hashlib.sha256(response.content).hexdigest() == card.sha256["model.joblib"]
    X = np.array([[1.0, 0.0]])
    estimator = joblib.load(io.BytesIO(response.content))
    np.testing.assert_array_equal(
        estimator.predict_proba(X), make_estimator().predict_proba(X)
    )


def test_deleting_obeys_the_aliases(stores, ask):
    for _ in range(2):
        publish(stores.registry)
    ask("PUT", "/models/triage/aliases/champion", json={"version": 1})

    refused = ask("DELETE", "/models/triage/versions/1")
    assert (refused.status_code, "triage@champion" in refused.json()["detail"]) == (
        409,
        True,
    )
    for path in ("/versions/2", "/aliases/champion", "/versions/1"):
        assert ask("DELETE", f"/models/triage{path}").status_code == 204
    empty = {"name": "triage", "latest": None, "versions": []}
    assert empty.items() <= ask("GET", "/models/triage").json().items()
    assert ask("GET", "/models").json()["models"] == [empty | {"aliases": {}}]
