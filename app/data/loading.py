"""From stored bytes to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.data.dataset import Dataset
from app.data.table import Table
from app.features import Feature, Schema

_BATCH = 1 << 14  # rows decoded at a time


def load(dataset: Dataset, parquet: bytes) -> Table:
    """The table of `dataset`: X (n, m) float64 and y as in `Table`. Memory: X, y, the bytes and one batch."""
    width = len(dataset.features)
    X = np.empty((dataset.rows, width))
    y = np.empty((dataset.rows, len(dataset.labels)))
    positions = _label_positions(dataset)
    start = 0
    for batch in pq.ParquetFile(pa.BufferReader(parquet)).iter_batches(batch_size=_BATCH, use_threads=False):
        rows = slice(start, start + batch.num_rows)
        for j, feature in enumerate(dataset.features):
            X[rows, j] = _values(batch.column(j), feature)
        for k in range(len(dataset.labels)):
            y[rows, k] = _codes(batch.column(width + k), positions)
        start = rows.stop
    return Table(Schema(dataset.features), X, _target(y, dataset), dataset.classes, dataset.labels, dataset.digest)


def _values(column: Any, feature: Feature) -> np.ndarray:
    if feature.type == "numeric":
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return _codes(column, {word: code for code, word in enumerate(feature.categories)})


def _codes(column: Any, positions: dict[Any, int]) -> np.ndarray:
    """Positions of the words of a dictionary array, NaN where missing; numbers stay as they are."""
    if not pa.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    known = [positions.get(word, np.nan) for word in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(-1).to_numpy()
    return np.asarray(np.array([*known, np.nan])[codes])  # -1 picks the last


def _label_positions(dataset: Dataset) -> dict[Any, int]:
    return {value: code for code, value in enumerate(dataset.classes or ())}


def _target(y: np.ndarray, dataset: Dataset) -> np.ndarray:
    if dataset.classes == dataset.labels:
        return y.astype(np.uint8)
    if dataset.classes is None:
        return y[:, 0]
    if isinstance(dataset.classes[0], str):
        return y[:, 0].astype(np.int64)
    return np.searchsorted(np.array(dataset.classes, dtype=np.float64), y[:, 0]).astype(np.int64)
