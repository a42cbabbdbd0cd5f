"""Files in a bucket that were cut, changed, or made by somebody else: refused before they are unpickled."""

from __future__ import annotations

import joblib
import pytest

from tests.conftest import serving, settings_for
from tests.faults.life import QUESTION, alone, finished, order

pytestmark = pytest.mark.thorough

KEY = "a key of the service's own"


@pytest.fixture
def place(bucket, object_store, tmp_path):
    """Settings of a service that has published two models in the bucket, and a client that can harm them."""
    where = {"models": f"{bucket}/models", "datasets": f"{bucket}/datasets", "home": tmp_path / "home"}
    with alone(where | {"signing_key": KEY}) as caller:
        for name in ("sound", "harmed"):
            assert finished(caller, caller.insist("POST", "/train", json=order(name)).json()["id"])["model"]
    settings = settings_for(tmp_path, **where, signing_key=KEY, workers=0, local_copies_mb=0)  # the store's files alone
    return settings, object_store.client(), bucket.removeprefix("s3://")


class Trap:
    """Unpickling it leaves a trace."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_damaged_and_foreign_files(place, tmp_path):
    """Each file of a version cut, flipped, emptied or replaced: 409 that names the version, others answer on.

    And a service with another key refuses all of them, though every digest is right.
    """
    settings, store, bucket = place
    refused_by_others(settings)
    listed = store.list_objects_v2(Bucket=bucket, Prefix="models/harmed/1/")["Contents"]
    files = {line["Key"]: store.get_object(Bucket=bucket, Key=line["Key"])["Body"].read() for line in listed}
    assert len(files) >= 3
    joblib.dump(Trap(str(tmp_path / "sprung")), tmp_path / "trap")
    trap = (tmp_path / "trap").read_bytes()
    for key, content in files.items():
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
        harms = [flipped, content[:middle], b""] + ([trap] if key.endswith("model.joblib") else [])
        for harmed in harms:
            store.put_object(Bucket=bucket, Key=key, Body=harmed)
            refused_alone(settings)
        store.put_object(Bucket=bucket, Key=key, Body=content)
    with serving(settings) as client:
        assert client.post("/predict", json=QUESTION | {"model": "harmed"}).status_code == 200
    assert not (tmp_path / "sprung").exists()


def refused_alone(settings) -> None:
    """A service that starts on it refuses the harmed model only."""
    with serving(settings) as client:
        refused = client.post("/predict", json=QUESTION | {"model": "harmed"})
        assert refused.status_code == 409, refused.text
        assert "harmed" in refused.json()["detail"]
        assert client.post("/predict", json=QUESTION | {"model": "sound"}).status_code == 200


def refused_by_others(settings) -> None:
    """To a service with another key, what this one published is somebody else's."""
    with serving(settings.model_copy(update={"signing_key": type(settings.signing_key)("another key")})) as client:
        for name in ("harmed", "sound"):
            refused = client.post("/predict", json=QUESTION | {"model": name})
            assert refused.status_code == 409, refused.text
            assert "key" in refused.json()["detail"]
