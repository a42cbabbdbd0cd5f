"""What would take more memory than was sent, or more than there is: refused before it is made."""

from __future__ import annotations

import io
import json
from contextlib import suppress

import httpx
import numpy as np
import pyarrow as pa
import pytest

from app.api.codecs import arrow, npy
from app.errors import Invalid, TooLarge
from app.features import Feature, Schema
from app.usecases import retrieve_request
from tests.api import column_bodies
from tests.api.column_bodies import free, rows_of_arrow

NPY = "application/x-npy"
QUERY = {"setting": "multilabel", "loss": json.dumps({"name": "f_beta"})}


def post(service: httpx.Client, content: bytes, kind: str, accept: str = "*/*", **query: str) -> httpx.Response:
    headers = {"Content-Type": kind, "Accept": accept}
    return service.post("/retrieve", params=QUERY | query, content=content, headers=headers)


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """A .npy file that says what it holds, and holds nothing."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": kind})
    return file.getvalue()


def test_a_header_without_data_allocates_nothing(service):
    response = post(service, header((10**9, 0)), NPY)
    assert response.status_code == 413
    assert "1,000,000,000 sets; at most 1,000,000" in response.json()["detail"]


@pytest.mark.parametrize("shape", [(10**13,), (10**13, 10**13), (-1,), (3, -4), (0, 2**62, 2**62), (1,) * 70])
def test_a_shape_larger_than_the_body_is_rejected(service, shape):
    """Neither one that the body is too short for, nor one that no array has."""
    assert post(service, header(shape), NPY).status_code == 422


def test_arrays_are_read_in_their_memory_order():
    """Both orders, either end first, and only what the header speaks of; the result can be written to."""
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(3, dtype=">f4"),
    ):
        read = npy.array_of_npy(column_bodies.npy(array) + b"more", free)
        assert read.tolist() == array.tolist()
        assert read.flags.writeable


def test_empty_lists_count_as_sets(service, monkeypatch):
    monkeypatch.setattr(retrieve_request, "MAX_SETS", 3)
    monkeypatch.setattr(retrieve_request, "MAX_ITEMS", 6)
    question = {"setting": "binary", "loss": {"name": "f_beta"}}
    for given, status in (([[]] * 3, 200), ([[]] * 4, 413), ([0.5] * 6, 200), ([0.5] * 7, 413), ([[0.5] * 4] * 2, 413)):
        assert service.post("/retrieve", json=question | {"probabilities": given}).status_code == status


def test_null_columns_are_rejected_before_rows_are_allocated():
    schema = Schema([Feature("x", "numeric")])
    with pytest.raises(TooLarge, match="values in"):
        rows_of_arrow(column_bodies.arrow({"x": pa.nulls(2**31 - 1)}), schema)


def test_the_size_of_a_request_counts_rows_times_labels(service, ward, monkeypatch):
    monkeypatch.setattr(retrieve_request, "MAX_ITEMS", 3)
    question = {"model": ward, "loss": {"name": "f_beta"}, "instances": [[1, 2, "mild"]] * 2}
    assert service.post("/retrieve", json=question | {"setting": "binary"}).status_code == 200
    assert service.post("/retrieve", json=question | {"setting": "multiclass"}).status_code == 413


def test_compressed_and_delta_dictionaries_are_rejected():
    words = pa.array(["a" * 999, "b"]).dictionary_encode()
    with pytest.raises(Invalid, match="compressed"):
        arrow.table_of_arrow(column_bodies.arrow({"w": words}, compression="zstd"), free)
    more = pa.array(["a" * 999, "b", "c"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema({"w": words.type}), options=options) as writer:
        for column in (words, more):
            writer.write_batch(pa.record_batch({"w": column}))
    with pytest.raises(Invalid, match="delta"):
        arrow.table_of_arrow(sink.getvalue().to_pybytes(), free)
    assert arrow.table_of_arrow(column_bodies.arrow({"w": words}), free)["w"].to_pylist() == ["a" * 999, "b"]


@pytest.mark.parametrize("seed", range(20))
def test_corrupt_streams_are_rejected_or_read(seed):
    """Whatever byte is wrong: an Invalid, or a table."""
    rng = np.random.default_rng(seed)
    body = bytearray(column_bodies.arrow({"w": pa.array(["a", "b"]).dictionary_encode(), "x": [1.0, 2.0]}))
    for _ in range(50):
        spoilt = bytearray(body)
        spoilt[rng.integers(len(body))] = rng.integers(256)
        with suppress(Invalid):
            assert arrow.table_of_arrow(bytes(spoilt), free).num_columns in range(3)
