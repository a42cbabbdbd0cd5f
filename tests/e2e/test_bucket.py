"""The service with models and data sets in a bucket, from upload to decision, and started while the bucket is away."""

from __future__ import annotations

import hashlib
import os
import shutil
import time

import httpx
import pytest

from tests.conftest import two_class_rows
from tests.servers.program import run
from tests.servers.proxy import Proxy
from tests.servers.s3 import access
from tests.servers.service import Replica

pytestmark = pytest.mark.thorough

QUESTION = {"instances": [[50, 70, "mild"]], "rule": "most_probable"}


@pytest.fixture
def replica(bucket, way):
    settings = {"models": f"{bucket}/models", "datasets": f"{bucket}/datasets"}
    replica = Replica(settings, access(way.url))
    yield replica
    replica.close()


def table(rows: int = 200) -> bytes:
    data = two_class_rows(rows)
    lines = [",".join([*data["features"], "state"])]
    lines += [",".join(map(str, [*row, label])) for row, label in zip(data["rows"], data["labels"], strict=True)]
    return "\n".join(lines).encode()


def test_from_upload_to_decision_and_after_a_loss_of_the_database(replica: Replica, way: Proxy):
    """Training runs in a process of its own, which finds table and registry in the bucket as the service does."""
    replica.start()
    client = replica.client
    upload = client.post("/datasets", files={"file": table()}, data={"label": "state"})
    assert upload.status_code == 201, upload.text
    order = {"learner": {"kind": "logistic"}, "data": {"dataset": upload.json()["id"]}}
    for name in ("ward", "other", "other"):
        job = client.post("/train", json=order | {"model": name}, headers={"Prefer": "wait=60"}).json()
        assert job["status"] == "succeeded", (job, replica.tail())
    replica.restart()
    shutil.rmtree(replica.home / "copies")
    assert client.post("/predict", json=QUESTION | {"model": "ward"}).status_code == 200

    card, artifact = client.get("/models/ward/versions/1"), client.get("/models/ward/versions/1/artifact")
    assert hashlib.sha256(artifact.content).hexdigest() == card.json()["sha256"]["model.joblib"]
    assert "Traceback" not in replica.log.read_text()

    replica.kill()
    (replica.home / "payoff.db").unlink()
    rebuilt = run(["rebuild"], env=os.environ | dict(replica.environment()), cwd=replica.home)
    assert rebuilt.stdout.endswith("3 versions published\n"), rebuilt.stderr
    way.kill()
    replica.start(wait=False)  # it waits for the store
    waiting = _asked(client)
    assert waiting.status_code == 503
    assert "of the versions that aliases and names mean are not loaded yet" in waiting.json()["detail"]
    assert client.get("/health/live").status_code == 200
    way.start()
    replica.wait_ready(60)
    assert client.post("/predict", json=QUESTION | {"model": "ward:1"}).status_code == 200
    assert "Traceback" not in replica.log.read_text()


@pytest.mark.parametrize("command", ["serve", "rebuild"])
def test_a_bucket_that_does_not_exist_is_said_in_one_line(bucket, tmp_path, command):
    environment = {"PAYOFF_HOME": str(tmp_path), "PAYOFF_MODELS": f"{bucket}-not/models"}
    ended = run([command], env=os.environ | environment, cwd=tmp_path)

    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert last == "payoff: the store of PAYOFF_MODELS cannot be used (NoSuchBucket)"
    assert "Traceback" not in ended.stderr


def _asked(client: httpx.Client) -> httpx.Response:
    """Its readiness, once it listens."""
    until = time.monotonic() + 60
    while True:
        try:
            return client.get("/health/ready")
        except httpx.TransportError:
            assert time.monotonic() < until
            time.sleep(0.05)
