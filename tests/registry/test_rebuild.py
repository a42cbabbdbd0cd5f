"""What the database does not know, published from the folders."""

import pytest

from app.database import Database
from tests.registry.making import make_card, publish


@pytest.fixture
def empty(another, tmp_path):
    """A registry over the same folders whose database is new."""
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    yield another(database=database)
    database.close()


def test_an_older_database_gets_what_was_published_since(registry, empty):
    """What it knows of aliases stays, and so does what it knows to be deleted or a job's own."""
    publish(registry)
    empty.rebuild()
    empty.set_alias("triage", "champion", 1, "ann")
    publish(empty)
    empty.index.delete_version("triage", 2)  # its folder stays, as where the store is away
    for name in ("triage", "triage", "other"):
        publish(registry, name)

    assert empty.rebuild() == 3

    assert empty.index.model("triage").aliases == {"champion": 1}
    assert {line.name: line.versions for line in empty.index.models("", 10)} == {"triage": [4, 3, 1], "other": [1]}
    assert empty.rebuild() == 0


def test_what_is_no_folder_of_a_version_is_passed_over(registry, models, empty, caplog):
    """Damaged ones are named; numbers are not given again even where nothing is left of a version but its folder."""
    for _ in range(4):
        publish(registry)
    first, second, third = (models / "triage" / number / "card.json" for number in "123")
    third.write_bytes(first.read_bytes())
    first.write_bytes(b"{")
    second.unlink()
    (models / "triage" / "9").mkdir()
    (models / "triage" / "README").write_text("")
    (models / "triage" / "notes").mkdir()
    (models / "Not-a-name").mkdir()
    (models / "empty").mkdir()

    assert empty.rebuild() == 1

    assert "triage/1/card.json: this card is not JSON" in caplog.text
    assert "there is no triage/2" in caplog.text
    assert "the card in triage/3 is that of triage/1" in caplog.text
    assert empty.load("triage").version == 4
    assert [empty.stage(make_card(name), None).version for name in ("triage", "empty")] == [10, 1]
    assert [line.name for line in empty.index.models("", 10)] == ["triage"]
