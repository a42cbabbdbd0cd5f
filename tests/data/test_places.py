"""Data sets in a folder, in memory and in a bucket: the same in each."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import fsspec
import numpy as np
import pytest
import s3fs

from app.data.store import DatasetStore
from app.errors import Conflict, Damaged, NotFound
from app.storage import objects
from tests.data.keeping import kept

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
    files, root = fsspec.core.url_to_fs(storage_url, use_listings_cache=False)
    path = f"{root}/{dataset.id}/data.parquet"
    content = files.cat_file(path)
    for harmed in (content[:-1], content[:99] + b"?" + content[100:], b""):
        files.pipe_file(path, harmed)
        with pytest.raises(Damaged, match="does not match its digest"):
            store.table(dataset.id)
    files.rm_file(path)
    with pytest.raises(Damaged, match=r"is missing; delete it and upload it again"):
        store.table(dataset.id)

    store.remove(dataset.id)
    assert len(store.table(add(store).id).y) == 4


def test_what_another_version_left_half_written_is_reported_until_it_is_removed(bucket, limits, monkeypatch):
    storage_url = f"{bucket}/datasets"
    store = DatasetStore(storage_url, limits)
    dataset = add(store)
    store.remove(dataset.id)
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.pipe_file(f"{storage_url}/{dataset.id}/data.parquet", b"of another version")

    with pytest.raises(Conflict, match="try again later"):
        add(store)
    assert store.clean_up() == 0
    written = objects._written
    monkeypatch.setattr(objects, "_written", lambda info: written(info) - (dataset.id in info["name"]) * 1e5)
    younger = kept(store, io.BytesIO(CSV.replace(b"4,", b"5,")), ["y"])
    assert younger.id != dataset.id  # the store's newest file is its clock
    assert store.clean_up() == 1
    assert add(store).id == dataset.id
