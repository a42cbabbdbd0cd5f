"""The doctor of a service whose state is on servers."""

from __future__ import annotations

import pytest

from app.doctor import Level, examine
from app.stores import make_ports
from tests.conftest import settings_for
from tests.registry.making import publish

pytestmark = pytest.mark.thorough


def test_postgresql_and_a_bucket_are_looked_at_and_a_server_that_hangs_is_given_up(
    tmp_path, postgres_server, postgres_url, bucket
):
    stores = {"models": f"{bucket}/models", "datasets": f"{bucket}/datasets", "database": postgres_url}
    settings = settings_for(tmp_path, admin_key="a", signing_key="s", job_memory_mb=64, cache_mb=1, **stores)
    ports = make_ports(settings)
    publish(ports.registry)
    ports.queue.check_in("worker")

    def levels() -> dict[str, str]:
        return {finding.check: finding.level.value for finding in examine(settings, {})}

    assert set(levels().values()) == {"ok"}

    postgres_server.pause()
    try:
        away = levels()
    finally:
        postgres_server.resume()
    assert {check for check, level in away.items() if level == Level.WRONG} == {
        "database", "decisions", "index", "jobs"
    }  # fmt: skip

    ports.registry._files.storage.remove("triage/1")
    assert levels()["index"] == Level.WRONG
    ports.database.close()
