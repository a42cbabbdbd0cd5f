"""The index rebuilt from the folder alone."""

import json
import shutil

import pytest
from sqlalchemy import select

from app.database import Database
from app.errors import Conflict, Damaged, NotFound
from app.registry.mirror import Mirror, read_mirror
from app.registry.tables import TABLES
from tests.registry.making import make_card, make_estimator, publish


def everything(registry):
    """All rows of the index but the revision and what is known of attempts and files on their way."""
    with registry._database.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))))
            for table in TABLES.sorted_tables
            if table.name not in {"registry_state", "reservations", "mirrors"}
        }


@pytest.fixture
def busy(registry):
    """A registry in which everything has happened that can happen."""
    for _ in range(3):
        publish(registry)
    registry.set_alias("triage", "champion", 1, "ann")
    registry.set_alias("triage", "champion", 3, "bob")
    registry.set_alias("triage", "old", 1, "ann")
    registry.delete_alias("triage", "old", "ann")
    registry.delete_version("triage", 2)
    publish(registry, "gone")
    registry.set_alias("gone", "champion", 1, "ann")
    registry.delete_model("gone", "bob")
    publish(registry, "emptied")
    registry.delete_version("emptied", 1)
    registry.reserve("never-finished", "job_1", 1)
    registry.stage(make_card("never-added", registry.reserve("never-added", "job_1", 1)), make_estimator())
    registry.reserve("triage", "job_1", 1)
    return registry


def test_the_rebuilt_index_equals_the_one_before(busy):
    before = everything(busy)

    assert busy.rebuild() == 2
    assert everything(busy) == before


def test_a_lost_database_is_made_anew_from_the_folder(busy, another, tmp_path):
    before = everything(busy)
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    registry = another(database=database)

    registry.prepare()

    assert everything(registry) == before
    assert registry.load("triage@champion").version == 3
    assert [registry.reserve(name, "job_1", 1) for name in ("triage", "gone", "never-finished", "new")] == [5, 2, 2, 1]
    database.close()


def test_an_index_that_is_not_empty_is_left_alone(busy, models):
    shutil.rmtree(models / "triage")
    before = everything(busy)

    busy.prepare()

    assert everything(busy) == before


def test_what_was_never_published_is_not_brought_to_light(busy, another, caplog):
    busy.rebuild()

    with pytest.raises(NotFound):
        busy.load("never-added")
    assert "never-added/1: was never published, or was deleted" in caplog.text


def test_a_folder_copied_in_without_a_mirror_counts_whole(registry, models, another, tmp_path):
    publish(registry)
    publish(registry)
    (models / "triage" / "index.json").unlink()
    (models / "triage" / "README").write_text("")
    (models / "triage" / "notes").mkdir()
    (models / "Not-a-name").mkdir()
    (models / "empty").mkdir()

    assert registry.rebuild() == 2

    assert registry.load("triage").version == 2
    assert registry.reserve("triage", "job_1", 1) == 3
    assert registry.reserve("empty", "job_1", 1) == 1
    assert [line.name for line in registry.models("", 10)] == ["triage"]


def test_damaged_folders_are_left_out_and_found_again_when_mended(registry, models, caplog):
    for _ in range(4):
        publish(registry)
    registry.set_alias("triage", "champion", 2, "ann")
    before = everything(registry)
    first, second, third = (models / "triage" / number / "card.json" for number in "123")
    contents = [path.read_bytes() for path in (first, second, third)]
    first.write_bytes(b"{")
    second.unlink()
    third.write_bytes(contents[0])

    assert registry.rebuild() == 1
    assert "triage/1: triage/1/card.json: this card is not JSON" in caplog.text
    assert "triage/2: there is no triage/2" in caplog.text
    assert "triage/3: the card in triage/3 is that of triage/1" in caplog.text
    with pytest.raises(NotFound):
        registry.load("triage@champion")

    for path, content in zip((first, second, third), contents, strict=True):
        path.write_bytes(content)
    assert registry.rebuild() == 4
    assert everything(registry) == before


def test_an_unreadable_mirror_stops_the_rebuild_and_changes_nothing(busy, models):
    before = everything(busy)
    mirror = models / "triage" / "index.json"
    document = json.loads(mirror.read_bytes())

    for content, refused in (
        ("{", Damaged),
        ("[]", Damaged),
        (json.dumps(document | {"format": 0}), Damaged),
        (json.dumps(document | {"format": 2}), Conflict),
        (json.dumps(document | {"name": "other"}), Damaged),
    ):
        mirror.write_text(content)
        with pytest.raises(refused, match=r"triage/index\.json"):
            busy.rebuild()

    assert everything(busy) == before


def test_numbers_are_not_reused_even_where_the_mirror_is_behind(registry, models):
    """A mirror restored from an older backup than the folders."""
    publish(registry)
    mirror = models / "triage" / "index.json"
    old = mirror.read_bytes()
    publish(registry)
    mirror.write_bytes(old)

    registry.rebuild()

    assert registry.reserve("triage", "job_1", 1) == 3


def test_a_mirror_survives_its_bytes():
    mirror = Mirror(name="triage", next_version=3, listed=True, versions=[1], aliases={"a": 1})

    assert read_mirror(mirror.to_bytes(), "triage/index.json") == mirror
