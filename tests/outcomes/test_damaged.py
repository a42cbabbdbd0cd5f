"""Files of sealed days that are missing, damaged, or not ours."""

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import select

from app.access.caller import ANYBODY
from app.api.app import create_app
from app.errors import Damaged
from app.outcomes.decision import DAY, Terms
from app.outcomes.rows import files_of
from app.outcomes.tables import DECISION_TERMS, DECISIONS, OUTCOMES
from app.service import wire
from tests.api.callers import ask, called_by
from tests.conftest import settings_for
from tests.outcomes.records import LOAN, count, decided, ids_of, told
from tests.registry.making import publish

DATE = 20_000
OTHER_LOAN = replace(LOAN, version=2)
OTHER = Terms(
    "predict", "other", 1, "expected_benefit", ("bad", "good"), ("refuse", "grant")
)


def foreign(_content):
    sink = io.BytesIO()
    parquet.write_table(pa.table({"x": [1]}), sink)
    return sink.getvalue()


def flipped(content):
    """A bit in the values of a column."""
    columns = parquet.ParquetFile(io.BytesIO(content)).metadata.row_group(0)
    (chunk,) = [
        one
        for one in map(columns.column, range(columns.num_columns))
        if one.path_in_schema == "expected"
    ]
    at = chunk.data_page_offset + chunk.total_compressed_size - 30
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


WAYS = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "no Parquet": lambda content: b"x" * len(content),
    "foreign": foreign,
    "flipped": flipped,
    "missing": None,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two sealed days of a model, and one of another; told in the one that is damaged."""
    service = wire(settings_for(tmp_path_factory.mktemp("damaged"), workers=0))
    database, archive = service.stores.database, service.stores.archive
    publish(service.stores.registry, "loan")
    ids = decided(database, 40, at=[DATE * DAY, (DATE + 1) * DAY] * 20)
    others = decided(database, 2, terms=OTHER, at=DATE * DAY)
    told(database, ids[::2], [0] * 20, day=DATE)
    for model, day in (("loan", DATE), ("loan", DATE + 1), ("other", DATE)):
        archive.sealer.seal(model, day)
    with database.reading() as connection:
        (file,) = (
            one.file
            for one in files_of(connection, "loan", DATE)
            if one.kind == "decisions"
        )
    path = Path(archive.storage.url, file, "rows.parquet")
    yield SimpleNamespace(
        stores=service.stores, archive=archive, app=create_app(service), file=file, path=path,
        content=path.read_bytes(), damaged=ids[::2], sound=ids[1::2], others=others,
    )  # fmt: skip
    database.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_file_is_named_changes_nothing_and_holds_up_no_other_day(store, way):
    """Where it is needed requests are refused."""
    if (change := WAYS[way]) is None:
        store.path.unlink()
    else:
        store.path.write_bytes(change(store.content))
    ids = [store.damaged[0], store.sound[0]]
    client, outcomes = (
        called_by(store.app, ANYBODY),
        {"outcomes": [{"id": id_, "truth": "bad"} for id_ in ids]},
    )

    for answer in (
        ask(client, "GET", "/models/loan/outcomes"),
        ask(client, "POST", "/outcomes", json=outcomes),
        ask(client, "DELETE", f"/outcomes/{ids[0]}"),
    ):
        assert answer.status_code == 409
        assert answer.json()["title"] == "A stored file is not what was published"
        assert store.file in answer.json()["detail"]
    assert count(store.stores.database, OUTCOMES) == 0
    assert sum(map(len, store.archive.cases("loan", since=(DATE + 1) * DAY))) == 20
    assert len(store.archive.locate([*store.sound, *store.others])) == 22
    store.path.write_bytes(store.content)


def test_a_day_of_which_terms_are_missing_is_damaged_and_stays_where_it_is(
    database, archive
):
    whole = decided(database, 3, at=DATE * DAY)
    decided(database, 2, terms=OTHER_LOAN, at=DATE * DAY, ids=["x", "y"])
    with database.writing() as connection:
        connection.execute(
            DECISION_TERMS.delete().where(DECISION_TERMS.c.digest == OTHER_LOAN.digest)
        )

    assert len(archive.locate(whole)) == 3
    for read in (
        lambda: archive.locate([*whole, "x"]),
        lambda: ids_of(archive),
        lambda: archive.erase("x"),
    ):
        with pytest.raises(Damaged, match="decision_terms"):
            read()
    with pytest.raises(Damaged):
        archive.sealer.seal("loan", DATE)
    with database.reading() as connection:
        assert len(connection.execute(select(DECISIONS.c.id)).all()) == 5
