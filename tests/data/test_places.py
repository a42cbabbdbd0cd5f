"""Data sets in a folder and in a bucket: the same in each."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.data.store import DatasetStore
from app.errors import Conflict, Damaged, NotFound
from tests.data.keeping import kept
from tests.registry.remote import Remote

CSV = b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,,1\n"


def add(store, name=None):
    return kept(store, io.BytesIO(CSV), ["y"], name)


def test_a_data_set_is_kept_found_listed_learnt_from_and_removed(storage_url, limits):
    store, other = DatasetStore(storage_url, limits), DatasetStore(storage_url, limits)
    first = add(store)
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
        added = list(pool.map(add, stores))

    assert added == [stores[0].find(added[0].id)] * 2
    assert len(stores[1].page(10)[0]) == 1


def test_a_harmed_table_is_never_learnt_from(storage_url, limits):
    store = DatasetStore(storage_url, limits)
    dataset = add(store)
    table = (Remote(storage_url) if "://" in storage_url else Path(storage_url)) / dataset.id / "data.parquet"
    content = table.read_bytes()
    for harmed in (content[:-1], content[:99] + b"?" + content[100:], b""):
        table.write_bytes(harmed)
        with pytest.raises(Damaged, match="does not match its digest"):
            store.table(dataset.id)
    table.unlink()
    with pytest.raises(Damaged, match=r"is missing; delete it and upload it again"):
        store.table(dataset.id)

    store.remove(dataset.id)
    assert len(store.table(add(store).id).y) == 4


def test_what_another_version_left_half_written_is_reported_until_it_is_removed(bucket, limits):
    storage_url = f"{bucket}/datasets"
    store = DatasetStore(storage_url, limits)
    dataset = add(store)
    store.remove(dataset.id)
    (Remote(storage_url) / dataset.id / "data.parquet").write_bytes(b"of another version")

    with pytest.raises(Conflict, match="try again later"):
        add(store)
    assert store.clean_up() == 0
    assert store.storage.clean_up(re.compile(dataset.id), older_than_seconds=-60) == 1
    assert add(store).id == dataset.id
