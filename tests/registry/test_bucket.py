"""The registry in a bucket: the same as in a folder, in few requests, for several replicas at once."""

import pytest

from app.errors import NotFound, Unavailable
from app.storage import FileCache, circuit_breaker
from tests.registry.making import publish

in_a_bucket = pytest.mark.parametrize("models", ["s3"], indirect=True)


@pytest.fixture
def impatient(impatient, monkeypatch):
    monkeypatch.setattr(circuit_breaker, "REST_SECONDS", 0.0)


@in_a_bucket
def test_requests_for_loading_and_publishing_are_few(registry, another, requests):
    publish(registry)
    assert requests == [
        ("list_with_delimiter", "triage"),  # folders that the database may not know
        ("get", "triage/1/card.json"),  # not there yet
        *(
            ("put", f"triage/1/{name}")
            for name in ("model.joblib", "holdout.npz", "card.json")
        ),
        ("list", "triage/1"),
    ]
    requests.clear()

    another().load("triage")

    assert requests == [
        ("get", f"triage/1/{name}")
        for name in ("card.json", "holdout.npz", "model.joblib")
    ]
    requests.clear()
    registry.index.models("", 10)
    registry.index.model("triage")
    registry.index.card("triage", 1)
    assert requests == []  # that is in the database


@in_a_bucket
def test_a_deletion_is_one_even_where_the_files_stay_for_now(
    registry, way, another, impatient, monkeypatch, caplog
):
    """It is done when the index says so; what is left are bytes, and the log says where."""
    publish(registry)
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    replica = another()
    way.kill()

    replica.delete_version("triage", 1)

    with pytest.raises(NotFound):
        replica.load("triage")
    assert "triage/1 is left in the storage" in caplog.text
    registry.discard(*registry.index.unpublished())
    assert registry.files.numbers("triage") == []


@in_a_bucket
def test_a_restart_without_the_store_answers_with_what_is_kept_on_the_disk(
    another, way, impatient, monkeypatch, tmp_path
):
    """What is kept is not trusted: it is verified like what comes from the store."""
    publish(another())
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)

    def restart():
        return another(kept=FileCache(tmp_path / "copies", 2**30))

    first = restart()
    first.load("triage")
    way.kill()

    assert restart().load("triage").version == 1
    assert restart().artifact("triage", 1) == first.artifact("triage", 1)
    for kept in (tmp_path / "copies").iterdir():
        content = kept.read_bytes()
        kept.write_bytes(content[:-1])
        with pytest.raises(Unavailable):
            restart().load("triage")
        kept.write_bytes(content)
    way.start()
    for kept in (tmp_path / "copies").iterdir():
        kept.write_bytes(b"harmed")
    assert restart().load("triage").version == 1
    way.kill()
    assert restart().load("triage").version == 1  # mended
