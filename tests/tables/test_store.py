"""The store: content-addressed, whole or not at all, checked before use; the same in a folder and in a bucket."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.errors import Conflict, Damaged, NotFound
from app.tables import building, columns, csv_text
from app.tables import store as store_module
from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore
from payoff.errors import Invalid, TooLarge
from tests.messages import says
from tests.registry.remote import Remote
from tests.tables.keeping import kept

CSV = b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,,1\n"


def add(store, content=CSV, labels=("y",), name=None):
    return kept(store, io.BytesIO(content), list(labels), name)


def test_same_upload_is_the_same_data_set(store):
    """Retrying an upload is safe; another label, value or column name makes another data set, another name does not."""
    first = add(store)

    assert add(store) == first == store.find(first.id)
    assert add(store, name="n").id == first.id
    others = [
        add(store, CSV.replace(b"1,u", b"1,v")),
        add(store, labels=["b"], content=b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,v,1\n"),
        add(store, CSV.replace(b"4,", b"5,")),
        add(store, CSV.replace(b"a,b", b"a,c")),
        add(store, CSV.replace(b"4,,", b"4,v,")),
    ]
    assert len({first.id, *(other.id for other in others)}) == 6


def test_a_name_refers_to_what_was_uploaded_last_under_it(store):
    """The same content under two names is one data set; the names of one that is removed refer to nothing."""
    first, second = (
        add(store, name="ward"),
        add(store, CSV.replace(b"4,", b"5,"), name="ward"),
    )
    assert store.resolve("ward") == second.id
    assert add(store, name="ward").id == first.id == store.resolve("ward")
    assert add(store, name="clinic").name == "clinic"
    assert store.resolve("clinic") == store.resolve(first.id) == first.id
    store.remove(first.id)
    for name in ("ward", "clinic"):
        with pytest.raises(NotFound):
            store.resolve(name)
    assert store.resolve(second.id) == second.id


@pytest.mark.parametrize(
    "dataset_id",
    [
        "ds_0123456789abcdef",
        "..",
        "",
        "ds_0123456789abcdef/../x",
        "ds_0123456789ABCDEF",
    ],
)
def test_absent(store, dataset_id):
    for method in (store.find, store.table, store.remove):
        with pytest.raises(NotFound):
            method(dataset_id)


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record[: len(record) // 2],
        lambda _: b"",
        lambda _: b"[]",
        lambda record: record[:20] + b"\xff" + record[21:],
        lambda record: record.replace(b'"rows"', b'"rowz"'),
        lambda record: record.replace(b'"id": "ds_', b'"id": "ds-'),
    ],
)
def test_damaged_record(store, tmp_path, damage):
    """It is named, hides no other data set, can be removed and uploaded again."""
    dataset, other = add(store), add(store, CSV.replace(b"4,", b"5,"))
    path = tmp_path / "datasets" / dataset.id / "dataset.json"
    path.write_bytes(damage(path.read_bytes()))

    for ask in (store.find, store.table):
        with pytest.raises(
            Damaged, match=f"the record of {dataset.id} .*upload it again"
        ):
            ask(dataset.id)
    assert store.page(10) == ([other], None)
    store.remove(dataset.id)
    assert add(store) == store.find(dataset.id)


def test_pages(tmp_path, limits):
    """Newest first, each once, also when data sets come and go between two pages."""
    store = DatasetStore(str(tmp_path), limits)
    added = [add(store, CSV.replace(b"4,", b"%d," % i)).id for i in range(7)]

    first, token = store.page(3)
    assert [dataset.id for dataset in first] == added[:3:-1]
    assert token is not None
    assert "+" not in token, "which is a space in an address"
    store.remove(added[4])
    add(store, CSV.replace(b"4,", b"99,"))
    second, token = store.page(3, token)
    assert [dataset.id for dataset in second] == added[3:0:-1]
    assert store.page(3, token) == ([store.find(added[0])], None)


def test_of_a_wide_data_set_the_answer_has_every_column_and_the_record_the_first(
    store, monkeypatch
):
    monkeypatch.setattr(store_module, "_REPORTED", 1)
    made = add(store)
    assert [each.name for each in made.columns][-1] == "y"
    assert store.find(made.id).columns == made.columns[:1]


@pytest.mark.parametrize(("words", "characters"), [(30, 10**6), (10**6, 100)])
@pytest.mark.parametrize("inline", [True, False])
def test_the_vocabulary_is_bounded(tmp_path, words, characters, inline):
    """Of all columns together, by number and by length; of all forms of data."""
    bounds = DataLimits(
        1000, 100, 50, 10**6, max_words=words, max_characters=characters
    )
    store = DatasetStore(str(tmp_path), bounds)

    def add_columns(count):
        rows = [[f"w{i}c{j}" for j in range(count)] for i in range(10)]
        if inline:
            names = [f"c{j}" for j in range(count)]
            return store.keep(
                store.draft_inline(names, rows, [i % 2 for i in range(10)])
            )
        lines = [",".join([*row, str(i % 2)]) for i, row in enumerate(rows)]
        header = ",".join([*(f"c{j}" for j in range(count)), "y"])
        return kept(store, io.BytesIO("\n".join([header, *lines]).encode()), ["y"])

    assert add_columns(2).rows == 10
    with pytest.raises(TooLarge, match="too many categories together"):
        add_columns(4)


@pytest.mark.parametrize(
    "column", [["1.5", "", "-2.5", "0", "1e300"], ["u", "", "v", "u", "w"]]
)
def test_identity_knows_no_batches(tmp_path, limits, monkeypatch, column):
    """However a file is cut, its table is the same; it changes with any value, also a missing one."""
    content = "a,b,y\n" + "".join(
        f"{value},{i},{i % 2}\n" for i, value in enumerate(column * 4)
    )
    store = DatasetStore(str(tmp_path), limits)
    whole = kept(store, io.BytesIO(content.encode()), ["y"])
    monkeypatch.setattr(csv_text, "_BLOCK", 24)
    assert kept(store, io.BytesIO(content.encode()), ["y"]) == whole
    assert (
        kept(store, io.BytesIO(content.replace("\n,", "\n7,", 1).encode()), ["y"]).id
        != whole.id
    )


def test_places_count_on_over_batches(store, monkeypatch):
    """The row named is the row of the whole column, not of its batch; all columns with flaws are named at once."""
    monkeypatch.setattr(csv_text, "_BLOCK", 24)
    lines = [f"{i},{i % 3},{i % 2}\n" for i in range(40)]
    lines[30], lines[35] = "inf,1,0\n", "1,-inf,1\n"
    with pytest.raises(Invalid) as caught:
        kept(store, io.BytesIO(("a,b,y\n" + "".join(lines)).encode()), ["y"])

    assert list(caught.value.flaws) == [
        says("/file/a", "row 32", "inf"),
        says("/file/b", "row 37", "-inf"),
    ]


def test_many_row_groups(tmp_path, limits, monkeypatch):
    """A table of many row groups with growing dictionaries loads as it was."""
    monkeypatch.setattr(building, "CELLS", 12)
    monkeypatch.setattr(columns, "CELLS", 12)
    words = ["u", "v", "w", None, "x", "a"] * 5
    rows = [[i, words[i]] for i in range(30)]
    store = DatasetStore(str(tmp_path), limits)
    dataset = store.keep(
        store.draft_inline(["a", "b"], rows, [i % 2 for i in range(30)])
    )

    found = store.table(dataset.id)

    expected, _ = found.schema.encode(rows)
    assert found.schema.features[1].categories == ("a", "u", "v", "w", "x")
    assert (found.X[:, 0] == expected[:, 0]).all()
    assert str(found.X.tolist()) == str(expected.tolist())


def added(store, name=None):
    return kept(store, io.BytesIO(CSV), ["y"], name)


def test_a_data_set_is_kept_found_listed_learnt_from_and_removed(storage_url, limits):
    store, other = DatasetStore(storage_url, limits), DatasetStore(storage_url, limits)
    first = added(store)
    second = kept(store, io.BytesIO(CSV.replace(b"4,", b"5,")), ["y"], "n")

    assert other.find(first.id) == first
    assert other.page(10)[0] == [second, first]
    np.testing.assert_array_equal(other.table(first.id).X[:, 0], [1, 2, np.nan, 4])
    other.remove(first.id)
    with pytest.raises(NotFound):
        store.table(first.id)
    assert store.page(10)[0] == [second]


def test_equal_uploads_to_two_replicas_at_once_are_one_data_set(storage_url, limits):
    stores = [DatasetStore(storage_url, limits), DatasetStore(storage_url, limits)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(added, stores))

    assert both == [stores[0].find(both[0].id)] * 2
    assert len(stores[1].page(10)[0]) == 1


def test_a_harmed_table_is_never_learnt_from(storage_url, limits):
    store = DatasetStore(storage_url, limits)
    dataset = added(store)
    table = (
        (Remote(storage_url) if "://" in storage_url else Path(storage_url))
        / dataset.id
        / "data.parquet"
    )
    content = table.read_bytes()
    for harmed in (content[:-1], content[:99] + b"?" + content[100:], b""):
        table.write_bytes(harmed)
        with pytest.raises(Damaged, match="does not match its digest"):
            store.table(dataset.id)
    table.unlink()
    with pytest.raises(Damaged, match=r"is missing; delete it and upload it again"):
        store.table(dataset.id)

    store.remove(dataset.id)
    assert len(store.table(added(store).id).y) == 4


def test_what_another_version_left_half_written_is_reported_until_it_is_removed(
    bucket, limits
):
    storage_url = f"{bucket}/datasets"
    store = DatasetStore(storage_url, limits)
    dataset = added(store)
    store.remove(dataset.id)
    (Remote(storage_url) / dataset.id / "data.parquet").write_bytes(
        b"of another version"
    )

    with pytest.raises(Conflict, match="try again later"):
        added(store)
    assert store.clean_up() == 0
    assert store.storage.clean_up(re.compile(dataset.id), older_than_seconds=-60) == 1
    assert added(store).id == dataset.id
