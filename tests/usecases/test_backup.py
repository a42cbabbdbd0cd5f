"""A backup holds everything, as it was at one moment, and comes back on a machine that has nothing."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import subprocess
import time
import uuid

import pytest
from sqlalchemy import select, update

from app.access.tables import API_KEYS
from app.errors import Conflict, Damaged, NotFound, Unavailable
from app.jobs.tables import JOBS
from app.outcomes.archive import Archive
from app.outcomes.sealing import Sealer
from app.outcomes.tables import TABLES as OUTCOMES
from app.registry.registry import Registry
from app.registry.tables import TABLES
from app.storage import Storage
from app.storage.disk import Disk
from app.stores import make_ports, make_tables
from app.usecases.backup import backup, check_place, restore
from tests.conftest import settings_for
from tests.outcomes.records import decided, told
from tests.registry.making import publish

CSV = b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,,1\n"


def opened(stack, settings, make=make_tables):
    ports = make(settings)
    stack.append(ports)
    return ports


@pytest.fixture
def stack():
    opened = []
    yield opened
    for ports in opened:
        ports.database.close()


@pytest.fixture
def full(tmp_path, stack):
    """A service in which everything has happened, on a disk and SQLite."""
    ports = opened(stack, settings_for(tmp_path / "one"))
    fill(ports)
    return ports


def fill(ports):
    dataset = ports.datasets.add(io.BytesIO(CSV), ["y"])
    for _ in range(3):
        publish(ports.registry)
    ports.registry.set_alias("triage", "champion", 2, "ann")
    ports.registry.delete_version("triage", 1)
    publish(ports.registry, "gone")
    for matrix in ("autumn", "deleted"):
        for content in (b'[{"healthy":{"wait":1.5}},null]', b'[{"healthy":{"wait":2.5}},null]'):
            ports.matrices.save("triage", matrix, content, "ann", lambda *_: None)
    ports.matrices.delete("triage", "deleted", lambda _: None)
    ports.registry.delete_model("gone", "ann")
    ports.registry.reserve("never-finished", "job_1", 1)
    first = ports.queue.submit("train", {"n": 1}, model="triage", dataset=dataset.id, key="once")
    ports.queue.submit("train", {"n": "\0ü"}, model="triage", dataset=dataset.id)
    assert ports.queue.claim("a worker that dies").id == first.id
    with ports.database.writing() as connection:
        connection.execute(
            API_KEYS.insert().values(id="k1", digest="0" * 64, name="ann", scopes="predict", models="*", created_at=1.5)
        )

    of_caller = decided(ports.database, 3, at=20_000 * 86_400, ids=["a", "b", "c"])
    Sealer(ports.database, ports.archive.files).seal("loan", 20_000)
    told(ports.database, of_caller[:2], [0, 1], day=20_000)
    decided(ports.database, 2, at=20_001 * 86_400)


def everything(ports):
    """All rows, but the revision of the index and what is on its way, and bytes of data sets and models."""
    with ports.database.reading() as connection:
        tables = [*TABLES.sorted_tables, *OUTCOMES.sorted_tables, JOBS, API_KEYS]
        rows = {
            table.name: sorted(map(repr, connection.execute(select(table))))
            for table in tables
            if table.name not in {"registry_state", "reservations", "mirrors"}
        }
    datasets = {dataset.id: ports.datasets.parquet(dataset) for dataset in ports.datasets.all()}
    keys = [
        (name, int(version)) for name in ("triage", "gone") for version in ports.registry._files.storage.folders(name)
    ]
    return rows, datasets, {key: ports.registry._files.read_all(key) for key in keys}


@pytest.mark.parametrize("place", ["folder", "s3"])
@pytest.mark.thorough
def test_what_is_restored_is_what_was_backed_up(full, stack, tmp_path, request, place):
    """To a folder or a bucket and back, onto a machine that has nothing."""
    url = str(tmp_path / "backup") if place == "folder" else f"{request.getfixturevalue('bucket')}/backup"

    saved = backup(full, url)
    fresh = opened(stack, settings_for(tmp_path / "two"))
    restored = restore(fresh, url)

    assert saved == restored
    assert (saved.models, saved.datasets, saved.left_out) == (2, 1, ())
    assert dict(saved.rows)["jobs"] == 2
    assert everything(fresh) == everything(full)
    assert fresh.matrices.read("triage") == full.matrices.read("triage") != {}
    assert sum(map(len, fresh.archive.cases("loan"))) == sum(map(len, full.archive.cases("loan"))) == 5
    fresh.registry.refresh()
    assert fresh.registry.load("triage@champion").version == 2
    assert [fresh.registry.reserve(name, "job_1", 1) for name in ("triage", "gone", "never-finished")] == [4, 2, 2]


@pytest.mark.thorough
def test_a_single_machine_grows_into_a_cluster_and_back(full, stack, tmp_path, postgres_url, bucket):
    """SQLite and folders into PostgreSQL and a bucket, where numbers go on being counted; and the other way round."""
    cluster = opened(
        stack,
        settings_for(tmp_path / "c", database=postgres_url, models=f"{bucket}/models", datasets=f"{bucket}/datasets"),
    )
    backup(full, str(tmp_path / "first"))
    restore(cluster, str(tmp_path / "first"))
    assert everything(cluster) == everything(full)
    publish(cluster.registry)
    new = cluster.queue.submit("train", {}, model="triage")
    with full.database.reading() as connection:
        assert new.seq > max(connection.execute(select(JOBS.c.seq)).scalars())

    backup(cluster, str(tmp_path / "second"))
    again = opened(stack, settings_for(tmp_path / "two"))
    restore(again, str(tmp_path / "second"))

    assert everything(again) == everything(cluster)


def test_a_job_that_ran_is_tried_again_where_it_is_restored(full, stack, tmp_path):
    backup(full, str(tmp_path / "backup"))
    fresh = opened(stack, settings_for(tmp_path / "two"))
    restore(fresh, str(tmp_path / "backup"))
    with fresh.database.writing() as connection:  # time goes by
        connection.execute(update(JOBS).where(JOBS.c.lease_until.is_not(None)).values(lease_until=0.0))

    fresh.queue.recover_lost()

    assert [fresh.queue.claim("worker").spec for _ in range(2)] == [{"n": 1}, {"n": "\0ü"}]
    assert fresh.queue.claim("worker") is None


def test_the_models_of_a_backup_are_a_registry_by_themselves(full, stack, tmp_path):
    backup(full, str(tmp_path / "backup"))

    ports = opened(stack, settings_for(tmp_path / "two", models=str(tmp_path / "backup" / "models")), make_ports)

    ports.registry.refresh()
    assert ports.registry.load("triage@champion").version == 2


@pytest.fixture
def slow_store(monkeypatch):
    """The first access of each kind to a folder of files takes longer than a transaction in PostgreSQL may be idle."""
    monkeypatch.setattr("app.postgres._IDLE_SECONDS", 0.6)

    def slowly(work):
        pauses = iter([0.9])

        def run(*arguments, **named):
            time.sleep(next(pauses, 0))
            return work(*arguments, **named)

        return run

    def begin():
        for name in ("read", "read_many", "publish", "write", "folders"):
            monkeypatch.setattr(Disk, name, slowly(getattr(Disk, name)))

    return begin


@pytest.mark.parametrize("command", ["backup", "restore", "reindex", "doctor", "clean up"])
@pytest.mark.thorough
def test_a_store_that_is_slower_than_the_limit_on_idle_transactions(
    command, full, stack, tmp_path, postgres_url, slow_store
):
    """No command that reads database and store keeps a transaction open that PostgreSQL would end."""
    backup(full, str(tmp_path / "first"))
    ports = opened(stack, settings_for(tmp_path / "two", database=postgres_url))
    if command != "restore":
        restore(ports, str(tmp_path / "first"))
    slow_store()

    if command == "backup":
        backup(ports, str(tmp_path / "second"))
        ports = opened(stack, settings_for(tmp_path / "three"))
        restore(ports, str(tmp_path / "second"))
    elif command == "restore":
        restore(ports, str(tmp_path / "first"))
    elif command == "reindex":
        assert ports.registry.rebuild() == 2
    elif command == "doctor":
        assert ports.registry.audit(deep=True).unusable == []
    else:
        assert ports.registry.clean_up() == 0

    assert everything(ports) == everything(full)


def test_what_changes_meanwhile_does_not_tear_the_backup(full, stack, tmp_path, monkeypatch):
    """Models published, moved and deleted after the snapshot of the database: the copy is a state that existed."""
    copy = Registry.copy_to
    changes = iter(range(2))
    states = []

    def later(self, url, published):
        states.append(everything(full))
        if next(changes, None) is not None:
            for version in self.model("triage").versions[-1:]:
                self.set_alias("triage", "champion", publish(self).version, "bob")
                self.delete_version("triage", version.version)
        return copy(self, url, published)

    monkeypatch.setattr(Registry, "copy_to", later)
    saved = backup(full, str(tmp_path / "backup"))
    fresh = opened(stack, settings_for(tmp_path / "two"))
    restore(fresh, str(tmp_path / "backup"))

    assert saved.left_out == ()
    assert everything(fresh) in states[1:]  # the first one lost a version before it was copied
    assert fresh.registry.model("triage").aliases


def test_a_day_that_is_written_again_meanwhile_is_copied_as_it_is_then(full, tmp_path, stack, monkeypatch):
    copy, files = Archive.copy_to, []

    def meanwhile(archive, url, names):
        monkeypatch.setattr(Archive, "copy_to", copy)
        assert full.archive.erase("a")
        files.extend(names)
        return copy(archive, url, names)

    monkeypatch.setattr(Archive, "copy_to", meanwhile)

    saved = backup(full, str(tmp_path / "backup"))

    assert (len(files), saved.left_out) == (1, ())
    fresh = opened(stack, settings_for(tmp_path / "two"))
    assert restore(fresh, str(tmp_path / "backup")) == saved
    assert sum(map(len, fresh.archive.cases("loan"))) == 4


def test_a_day_whose_file_is_missing_is_said(full, tmp_path):
    folder = full.archive.storage.folders("loan")[0]
    full.archive.storage.remove(f"loan/{folder}")

    (line,) = backup(full, str(tmp_path / "backup")).left_out

    assert f"loan/{folder}" in line


def test_a_service_that_deletes_faster_than_is_copied_ends_the_backup_all_the_same(full, tmp_path, monkeypatch):
    """What was deleted is reported, and the aliases that point at it are left out."""
    copy = Registry.copy_to

    def later(self, url, published):
        newest = publish(self).version
        self.set_alias("triage", "champion", newest, "bob")
        for line in self.model("triage").versions[1:]:
            self.delete_version("triage", line.version)
        return copy(self, url, published)

    monkeypatch.setattr(Registry, "copy_to", later)

    saved = backup(full, str(tmp_path / "backup"))

    assert [line.split(":")[0] for line in saved.left_out] == ["triage/7"]


def test_damage_is_left_out_and_said(full, stack, tmp_path):
    models = tmp_path / "one" / "models" / "triage"
    (models / "3" / "model.joblib").write_bytes(b"damaged")
    table = next((tmp_path / "one" / "home" / "datasets").glob("ds_*/data.parquet"))
    table.write_bytes(b"damaged")

    saved = backup(full, str(tmp_path / "backup"))

    assert (saved.models, saved.datasets) == (1, 0)
    assert [line.split(":")[0] for line in saved.left_out] == ["triage/3", table.parent.name]
    assert "left out: triage/3: triage/3/model.joblib does not have the digest" in "\n".join(saved.lines())


def test_what_was_broken_off_is_no_backup_and_is_gone_on_with(full, stack, tmp_path):
    place = tmp_path / "backup"
    backup(full, str(place))
    (place / "backup.json").unlink()
    shutil.rmtree(place / "models" / "triage" / "3")
    fresh = opened(stack, settings_for(tmp_path / "two"))
    with pytest.raises(NotFound, match="there is no backup"):
        restore(fresh, str(place))

    backup(full, str(place))
    fresh.registry.copy_from(str(place / "models"))  # as a restoration that was killed leaves it
    shutil.rmtree(tmp_path / "two" / "models" / "triage" / "3")
    restore(opened(stack, settings_for(tmp_path / "two")), str(place))

    assert everything(opened(stack, settings_for(tmp_path / "two"))) == everything(full)
    with pytest.raises(Conflict, match="there is a backup already"):
        backup(full, str(place))


@pytest.mark.parametrize("place", ["folder", "s3"])
@pytest.mark.thorough
def test_a_second_run_reads_and_writes_only_what_is_missing(full, stack, tmp_path, request, monkeypatch, place):
    """After an interruption in the middle of the copy, in either direction."""
    url = str(tmp_path / "backup") if place == "folder" else f"{request.getfixturevalue('bucket')}/backup"
    full.datasets.add(io.BytesIO(CSV + b"5,u,1\n"), ["y"])
    fresh = opened(stack, settings_for(tmp_path / "two"))
    publish_folder, read = Storage.publish, Storage.read
    touched, allowed = [], iter(range(3))

    def counted_publish(self, folder, files):
        if next(allowed, None) is None:
            raise Unavailable("the machine is switched off")
        touched.append(folder)
        publish_folder(self, folder, files)

    def counted_read(self, folder, name):
        touched.append(name)
        return read(self, folder, name)

    monkeypatch.setattr(Storage, "publish", counted_publish)
    monkeypatch.setattr(Storage, "read", counted_read)
    for run in (lambda: backup(full, url), lambda: restore(fresh, url)):
        allowed = iter(range(4))  # two versions, a day of decisions, the first data set
        with pytest.raises(Unavailable):
            run()
        allowed = iter(range(1))
        touched.clear()
        assert run().datasets == 2
        assert touched.count("data.parquet") == 1
        assert touched.count("model.joblib") == touched.count("decisions.parquet") == 0
        assert len([line for line in touched if line.startswith("ds_")]) == 1

    monkeypatch.undo()
    assert everything(fresh) == everything(full)


def test_a_copy_with_another_card_is_not_taken_for_this_version(full, tmp_path):
    """As in a folder that holds the start of another service's backup."""
    backup(full, str(tmp_path / "backup"))
    (tmp_path / "backup" / "backup.json").unlink()
    card = tmp_path / "backup" / "models" / "triage" / "2" / "card.json"
    card.write_bytes(card.read_bytes() + b"\n")

    with pytest.raises(Conflict, match="triage/2 exists and differs from the backup"):
        backup(full, str(tmp_path / "backup"))


def test_a_card_that_is_not_the_one_published_is_left_out(full, tmp_path):
    """A restored index would trust it, with digests of its own."""
    card = tmp_path / "one" / "models" / "triage" / "2" / "card.json"
    card.write_bytes(card.read_bytes() + b"\n")

    saved = backup(full, str(tmp_path / "backup"))

    assert saved.left_out == ("triage/2: triage/2/card.json is not the card that was published",)


def test_nothing_is_restored_over_something(full, tmp_path):
    backup(full, str(tmp_path / "backup"))
    before = everything(full)

    with pytest.raises(Conflict, match="is not empty"):
        restore(full, str(tmp_path / "backup"))

    assert everything(full) == before


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("models/2026", "lies within PAYOFF_MODELS"),
        ("./models/", "lies within PAYOFF_MODELS"),
        ("s3://bucket/datasets/a", "lies within PAYOFF_DATASETS"),
        ("s3:/bucket/a", "neither a folder nor a URL"),
    ],
)
def test_a_place_within_a_store_or_misspelt_is_refused(place, words):
    """There it would be taken for a model, or be on this disk although a bucket was meant."""
    with pytest.raises(Conflict, match=words):
        check_place(place, {"PAYOFF_MODELS": "models", "PAYOFF_DATASETS": "s3://bucket/datasets/"})


def test_a_place_beside_the_stores_is_fine():
    for place in ("models-2026", "/backups/2026-11-20", "s3://bucket/datasets-2026", "file:///backups"):
        check_place(place, {"PAYOFF_MODELS": "models", "PAYOFF_DATASETS": "s3://bucket/datasets"})


def test_models_that_are_there_are_kept_though_the_database_is_new(full, stack, tmp_path):
    """Their index files would go back to those of the backup, and later versions and aliases be lost with them."""
    backup(full, str(tmp_path / "backup"))
    publish(full.registry)
    full.registry.set_alias("triage", "later", 4, "ann")
    models = tmp_path / "one" / "models"
    before = {path: path.read_bytes() for path in models.rglob("*") if path.is_file()}
    shutil.copytree(models, tmp_path / "two" / "models")
    fresh = opened(stack, settings_for(tmp_path / "two"))

    with pytest.raises(Conflict, match="'triage' exists and differs"):
        restore(fresh, str(tmp_path / "backup"))

    after = tmp_path / "two" / "models"
    assert {
        models / path.relative_to(after): path.read_bytes() for path in after.rglob("*") if path.is_file()
    } == before
    assert not list(fresh.datasets.all())


@pytest.mark.parametrize(
    ("change", "refused", "words"),
    [
        ({"format": 3}, Conflict, "format 3"),
        ({"revision": "9999"}, Conflict, "revision 9999"),
        (None, Damaged, "backup.json is not JSON"),
    ],
)
def test_backups_of_newer_versions_and_damaged_ones_are_refused(full, stack, tmp_path, change, refused, words):
    backup(full, str(tmp_path / "backup"))
    seal = tmp_path / "backup" / "backup.json"
    document = json.loads(seal.read_text())
    seal.write_text(json.dumps(document | change) if change else "{")
    fresh = opened(stack, settings_for(tmp_path / "two"))

    with pytest.raises(refused, match=words):
        restore(fresh, str(tmp_path / "backup"))

    assert fresh.registry._files.storage.folders() == []


def test_plain_copies_made_in_order_come_back_as_well(full, stack, tmp_path):
    """The way of docs/how-to/operation.md without `payoff backup`: the database first, then data sets and models."""
    one, two = tmp_path / "one", tmp_path / "two"
    (two / "home").mkdir(parents=True)
    with sqlite3.connect(one / "home" / "payoff.db") as database:
        database.execute("VACUUM INTO ?", (str(two / "home" / "payoff.db"),))
    database.close()
    publish(full.registry)  # after the copy of the database
    for folder in ("home/datasets", "models"):
        subprocess.run(["cp", "-a", str(one / folder), str(two / folder)], check=True)

    ports = opened(stack, settings_for(two), make_ports)
    assert ports.registry.rebuild() == 3  # payoff reindex

    assert everything(ports) == everything(full)


def test_rows_are_written_and_read_part_by_part(full, stack, tmp_path, monkeypatch):
    monkeypatch.setattr("app.usecases.backup._PART_BYTES", 300)
    backup(full, str(tmp_path / "backup"))
    parts = sorted((tmp_path / "backup").glob("tables*.jsonl"))
    seal = json.loads((tmp_path / "backup" / "backup.json").read_text())
    assert len(parts) == seal["parts"] > 5
    assert sum(len(part.read_text().splitlines()) for part in parts) == sum(seal["rows"].values())
    parts[0].with_name("tables-999.jsonl").write_text("of one that was broken off")

    fresh = opened(stack, settings_for(tmp_path / "two"))
    restore(fresh, str(tmp_path / "backup"))

    assert everything(fresh) == everything(full)


def test_a_backup_of_the_first_format_has_one_part(full, stack, tmp_path):
    backup(full, str(tmp_path / "backup"))
    seal = tmp_path / "backup" / "backup.json"
    document = json.loads(seal.read_text())
    assert document.pop("parts") == 1
    seal.write_text(json.dumps(document | {"format": 1}))

    fresh = opened(stack, settings_for(tmp_path / "two"))
    restore(fresh, str(tmp_path / "backup"))

    assert everything(fresh) == everything(full)


def test_a_name_that_nobody_has_used_is_a_new_place():
    with pytest.raises(NotFound):
        restore(None, f"memory://{uuid.uuid4().hex}")
