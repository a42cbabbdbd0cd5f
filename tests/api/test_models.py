"""Published models over HTTP: the routes and their errors, on a real registry."""

import hashlib
import io
from datetime import UTC, datetime, timedelta
from functools import partial

import joblib
import numpy as np
import pytest
from fastapi import FastAPI

from app.api import errors
from app.api.routes import models
from app.stores import make_ports
from tests.api.callers import ask as asked
from tests.api.callers import called_by
from tests.conftest import settings_for
from tests.registry.making import make_estimator, publish


@pytest.fixture
def ports(tmp_path):
    ports = make_ports(settings_for(tmp_path))
    yield ports
    ports.database.close()


@pytest.fixture
def ask(ports):
    app = FastAPI()
    app.state.ports = ports
    errors.install(app)
    app.include_router(models.router)
    return partial(asked, called_by(app))


def refusal(response, status):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


def test_models_are_listed_in_pages(ports, ask):
    for name in ("b", "a", "c"):
        publish(ports.registry, name)
    publish(ports.registry, "a")
    ports.registry.set_alias("a", "champion", 1, "ann")

    first = ask("GET", "/models", params={"page_size": 2}).json()
    token = first["next_page_token"]
    assert first == {
        "models": [
            {"name": "a", "latest": 2, "versions": [2, 1], "aliases": {"champion": 1}},
            {"name": "b", "latest": 1, "versions": [1], "aliases": {}},
        ],
        "next_page_token": token,
    }
    second = ask("GET", "/models", params={"page_token": token}).json()
    assert [line["name"] for line in second["models"]] == ["c"]
    assert second["next_page_token"] is None


def test_a_model_shows_versions_aliases_and_who_moved_them(ports, ask):
    publish(ports.registry)
    publish(ports.registry)
    ask("PUT", "/models/triage/aliases/champion", json={"version": 1})

    document = ask("GET", "/models/triage").json()

    assert (document["name"], document["latest"], document["aliases"]) == ("triage", 2, {"champion": 1})
    assert [version["version"] for version in document["versions"]] == [2, 1]
    newest = document["versions"][0]
    assert (newest["kind"], newest["metrics"]) == ("logistic", {"log_loss": 0.5})
    (move,) = document["alias_history"]
    now = datetime.now(UTC)
    for stamp in (newest["created_at"], move.pop("at")):
        assert now - timedelta(minutes=1) < datetime.fromisoformat(stamp) < now + timedelta(minutes=1)
    assert move == {"who": "anonymous", "alias": "champion", "from_version": None, "to_version": 1}


def test_the_artifact_downloads_with_its_digest(ports, ask):
    card = publish(ports.registry)

    response = ask("GET", "/models/triage/versions/1/artifact")

    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == 'attachment; filename="triage-1.joblib"'
    assert response.headers["content-length"] == str(len(response.content))
    assert response.headers["etag"] == f'"{card.sha256["model.joblib"]}"'
    assert hashlib.sha256(response.content).hexdigest() == card.sha256["model.joblib"]
    X = np.array([[1.0, 0.0]])
    estimator = joblib.load(io.BytesIO(response.content))
    np.testing.assert_array_equal(estimator.predict_proba(X), make_estimator().predict_proba(X))


def test_an_alias_comes_moves_and_goes(ports, ask):
    publish(ports.registry)
    publish(ports.registry)

    for version in (1, 2, 2):
        response = ask("PUT", "/models/triage/aliases/champion", json={"version": version})
        assert (response.status_code, response.json()) == (
            200,
            {"name": "triage", "alias": "champion", "version": version, "shadow": [], "warnings": []},
        )
        assert ports.registry.resolve("triage@champion") == ("triage", version)
    response = ask("DELETE", "/models/triage/aliases/champion")
    assert (response.status_code, response.content) == (204, b"")
    refusal(ask("DELETE", "/models/triage/aliases/champion"), 404)


def test_deleting_obeys_the_aliases(ports, ask):
    publish(ports.registry)
    publish(ports.registry)
    ask("PUT", "/models/triage/aliases/champion", json={"version": 1})

    problem = refusal(ask("DELETE", "/models/triage/versions/1"), 409)
    assert "triage@champion" in problem["detail"]
    assert ask("DELETE", "/models/triage/versions/2").status_code == 204
    assert ask("DELETE", "/models/triage").status_code == 204
    refusal(ask("GET", "/models/triage"), 404)
    assert publish(ports.registry).version == 3
    assert ask("DELETE", "/models/triage/versions/3").status_code == 204
    empty = ask("GET", "/models/triage").json()
    assert (empty["latest"], empty["versions"]) == (None, [])
    assert ask("GET", "/models").json()["models"] == [{"name": "triage", "latest": None, "versions": [], "aliases": {}}]


@pytest.mark.parametrize("reference", ["triage:1", "triage%3A1", "triage@champion", "triage%40champion"])
def test_a_reference_to_a_version_is_answered_with_its_card(ports, ask, reference):
    publish(ports.registry)
    publish(ports.registry)
    ask("PUT", "/models/triage/aliases/champion", json={"version": 1})

    answer = ask("GET", f"/models/{reference}")

    assert answer.status_code == 200, answer.text
    assert answer.json() == ask("GET", "/models/triage/versions/1").json()
    assert ask("GET", "/models/triage:2").json()["version"] == 2
