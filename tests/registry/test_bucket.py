"""The registry in a bucket: the same as in a folder, in few requests, for several replicas at once."""

from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import pytest
import s3fs
from sqlalchemy import delete, select

from app.database import Database
from app.errors import Conflict, Damaged, NotFound, NotReady, Unavailable, Unusable
from app.registry.registry import Registry
from app.registry.tables import TABLES, reservations
from app.storage import Storage, store_calls
from tests.registry.making import HOLDOUT, KEY, everywhere, make_card, make_estimator, publish

in_a_bucket = pytest.mark.parametrize("models", ["s3"], indirect=True)


@pytest.fixture
def requests(monkeypatch):
    """The objects that are asked for from now on, with the S3 names of the requests."""
    made = []
    call = s3fs.S3FileSystem._call_s3

    async def count(self, method, *arguments, **named):
        made.append((method, named.get("Key", named.get("Prefix", "")).partition("models/")[2]))
        return await call(self, method, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", count)
    return made


@pytest.fixture
def impatient(impatient, monkeypatch):
    monkeypatch.setattr(store_calls, "_REST_SECONDS", 0.0)


def everything(registry):
    """All rows of the index but the revision and what is known of attempts and files on their way."""
    with registry._database.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))))
            for table in TABLES.sorted_tables
            if table.name not in {"registry_state", "reservations", "mirrors"}
        }


@everywhere
def test_a_model_is_published_answered_with_listed_moved_and_deleted(registry, another):
    for _ in range(2):
        publish(registry)
    replica = another()

    assert replica.load("triage").version == 2
    registry.set_alias("triage", "champion", 1, "ann")
    replica.refresh()
    assert replica.load("triage@champion").version == 1
    card, file = replica.artifact("triage", 2)
    with file:
        assert len(file.read()) == card.sizes["model.joblib"]
    with pytest.raises(Conflict, match="move it first"):
        replica.delete_version("triage", 1)
    replica.delete_version("triage", 2)
    registry.refresh()
    with pytest.raises(NotFound):
        registry.load("triage:2")
    assert registry._files.storage.folders("triage") == ["1"]
    replica.delete_model("triage", "bob")
    assert registry._files.storage.folders("triage") == []
    assert registry.reserve("triage", "job_1", 1) == 3


@everywhere
@pytest.mark.thorough
def test_a_lost_database_is_made_anew_from_the_storage_alone(registry, another, tmp_path):
    for name in ("triage", "triage", "other"):
        publish(registry, name)
    registry.set_alias("triage", "champion", 1, "ann")
    registry.delete_version("triage", 2)
    registry.stage(make_card("triage", registry.reserve("triage", "job_1", 1)), make_estimator())  # never added
    before = everything(registry)
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    again = another(database=database)

    again.prepare()

    assert everything(again) == before
    assert again.load("triage@champion").version == 1
    database.close()


@in_a_bucket
def test_requests_for_loading_and_publishing_are_few(registry, another, requests):
    publish(registry)
    assert requests == [
        ("put_object", "triage/index.json"),  # the number is taken
        ("get_object", "triage/1/card.json"),  # not there yet
        *(("put_object", f"triage/1/{name}") for name in ("model.joblib", "holdout.npz", "card.json")),
        ("list_objects_v2", "triage/1/"),
        ("get_object", "triage/1/card.json"),
        ("put_object", "triage/index.json"),
    ]
    requests.clear()

    another().load("triage")

    assert requests == [("get_object", f"triage/1/{name}") for name in ("card.json", "holdout.npz", "model.joblib")]
    requests.clear()
    registry.models("", 10)
    registry.model("triage")
    registry.card("triage", 1)
    assert requests == []  # that is in the database
    another(signing_key=KEY)
    registry.rebuild()
    assert len(requests) == 4


@in_a_bucket
@pytest.mark.thorough
def test_replicas_that_publish_and_delete_at_once_leave_no_doubt(another):
    """Each version is whole or gone, wherever it is looked for."""
    replicas = [another(), another()]

    def work(number):
        registry = replicas[number % 2]
        card = publish(registry)
        if number % 3 == 0:
            replicas[(number + 1) % 2].delete_version("triage", card.version)
        return card.version, number % 3 == 0

    with ThreadPoolExecutor(4) as pool:
        published = dict(pool.map(work, range(6)))

    kept = sorted(version for version, deleted in published.items() if not deleted)
    assert sorted(published) == [1, 2, 3, 4, 5, 6]
    fresh = another()
    assert [fresh.load(f"triage:{version}").version for version in kept] == kept
    assert replicas[0]._files.storage.folders("triage") == list(map(str, kept))
    assert fresh.rebuild() == len(kept)


@in_a_bucket
def test_what_a_killed_job_left_in_a_bucket_is_removed_and_what_is_published_is_kept(registry, models, monkeypatch):
    publish(registry)
    publish(registry)
    (models / "triage" / "1" / "card.json").unlink()  # damaged, but published: the rest may be worth something
    for number in (registry.reserve("triage", "job_1", 1), registry.reserve("triage", "job_1", 1), 5):
        (models / "triage" / str(number) / "model.joblib").write_bytes(b"half")
    with registry._database.writing() as connection:  # an attempt that the database does not know, as after its loss
        connection.execute(delete(reservations).where(reservations.c.version == 3))
    clean_up = Storage.clean_up
    monkeypatch.setattr(Storage, "clean_up", lambda self, folders, spare: clean_up(self, folders, -60, spare))

    assert registry.clean_up() == 1

    # 4 may still be published, and 5 was put there by somebody else
    assert registry._files.storage.folders("triage") == ["1", "2", "4", "5"]
    assert registry.load("triage:2").version == 2


@in_a_bucket
@pytest.mark.thorough
def test_while_the_store_is_away_what_is_in_memory_is_served(registry, another, way, impatient, monkeypatch):
    publish(registry)
    publish(registry, "other")
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    replica = another()
    replica.load("triage")
    way.unavailable()

    assert replica.load("triage").version == 1
    assert replica.ready
    for ask in (
        lambda: replica.load("other"),
        lambda: replica.artifact("triage", 1),
        lambda: replica.stage(make_card("triage", 9), make_estimator(), HOLDOUT),
        replica.rebuild,
    ):
        with pytest.raises(Unavailable):
            ask()
    replica.set_alias("triage", "champion", 1, "ann")  # the database has it
    assert replica.model("triage").aliases == {"champion": 1}
    assert replica.reserve("triage", "job_1", 1) == 2
    assert registry._files.read_mirror("triage").aliases == {}

    way.start()
    assert replica.load("other").version == 1
    replica.start()  # makes up for what the store missed
    try:
        assert _soon(lambda: registry._files.read_mirror("triage").aliases == {"champion": 1})
    finally:
        replica.stop()
    assert registry._files.read_mirror("triage").next_version == 3


@in_a_bucket
def test_a_deletion_is_one_even_where_the_files_stay_for_now(registry, way, another, impatient, monkeypatch, caplog):
    """It is done when the index says so; what is left are bytes, and the log says where."""
    publish(registry)
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    replica = another()
    monkeypatch.setattr(replica._files.storage, "remove", lambda _: (_ for _ in ()).throw(Unavailable("away")))

    replica.delete_version("triage", 1)

    with pytest.raises(NotFound):
        replica.load("triage")
    assert "triage/1 is left in the storage" in caplog.text
    assert registry.rebuild() == 0


@in_a_bucket
def test_a_store_that_is_away_at_the_start_is_waited_for(registry, another, way, impatient, monkeypatch, tmp_path):
    publish(registry)
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    way.kill()
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    replica = another(database=database)

    replica.prepare()
    replica.start()
    try:
        assert not replica.ready
        assert replica.awaits_storage
        with pytest.raises(NotReady):
            replica.resolve("triage")
        way.start()
        assert _soon(lambda: replica.ready)
        assert replica.load("triage").version == 1
    finally:
        replica.stop()
        database.close()


@in_a_bucket
def test_a_bucket_that_does_not_exist_ends_the_start(bucket, database, models):
    with pytest.raises(Unusable, match="PAYOFF_MODELS cannot be used: the bucket does not exist"):
        Registry(f"{bucket}-not/models", database).prepare()


@everywhere
def test_a_damaged_mirror_stops_the_rebuild(registry, models):
    publish(registry)
    mirror = models / "triage" / "index.json"
    content = mirror.read_bytes()
    for harmed in (b"", content[:-9], b"null", b"[]", content.replace(b"triage", b"ward")):
        mirror.write_bytes(harmed)
        with pytest.raises(Damaged, match=r"triage/index\.json"):
            registry.rebuild()
    assert registry.load("triage").version == 1


def _soon(condition):
    until = monotonic() + 30
    while not condition() and monotonic() < until:
        sleep(0.05)
    return condition()
