"""The service while its database is away: what needs none goes on, the rest says when to come again."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import make_url

from tests.conftest import serving, settings_for, trained, two_class_rows

pytestmark = pytest.mark.thorough


def test_predictions_go_on_while_the_database_hangs_or_is_gone(postgres_url, proxy, tmp_path):
    """Routes that need it answer 503 with Retry-After, readiness says why, and all of it mends by itself."""
    url = make_url(postgres_url).set(port=proxy.port).render_as_string()
    with serving(settings_for(tmp_path, database=url, database_seconds=1)) as client:
        trained(client, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()})
        question = {"model": "ward", "instances": two_class_rows(3)["rows"], "benefits": [[0, -1], [-5, 2]]}
        before = client.post("/predict", json=question)
        assert before.status_code == 200
        for fail in (proxy.hang, proxy.kill):
            fail()
            ready = client.get("/health/ready")
            assert ready.status_code == 503
            assert "the database does not answer" in ready.json()["detail"]
            for _ in range(5):
                assert client.post("/predict", json=question).json() == before.json()
                for response in (client.get("/models"), client.put("/models/ward/aliases/best", json={"version": 1})):
                    assert response.status_code == 503
                    assert response.headers["Retry-After"]
                    assert response.headers["Content-Type"] == "application/problem+json"
                    assert "postgresql" not in response.text
            assert client.get("/health/live").status_code == 200
            proxy.start()
            while client.get("/health/ready").status_code != 200:
                time.sleep(0.1)
            assert client.put("/models/ward/aliases/best", json={"version": 1}).status_code == 200
        trained(client, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()})
