"""From stored bytes to arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.data.columns import stored_columns
from app.data.dataset import Dataset
from app.data.table import Table
from app.features import Feature, Schema


def load(dataset: Dataset, parquet: bytes) -> Table:
    """The table of `dataset`: X (n, m) float64 and y as in `Table`. Memory: X, y, the bytes and some columns."""
    file, width = pq.ParquetFile(pa.BufferReader(parquet)), len(dataset.features)
    X = np.empty((dataset.rows, width))
    features = []
    for j, (feature, (values, words)) in enumerate(
        zip(dataset.features, stored_columns(file, range(width)), strict=True)
    ):
        categories = tuple(sorted(words or ()))
        X[:, j] = values if words is None else _codes(values, words, categories)
        features.append(Feature(feature.name, feature.type, categories))
    targets = list(stored_columns(file, range(width, width + len(dataset.labels))))
    return Table(Schema(features), X, _target(targets, dataset), dataset.classes, dataset.labels, dataset.digest)


def _codes(values: np.ndarray, words: list[str], order: tuple[int | str, ...]) -> np.ndarray:
    """The position in `order` of the word at each position, NaN where there is none."""
    positions = {word: float(code) for code, word in enumerate(order)}
    return np.asarray(np.array([*(positions[word] for word in words), np.nan])[values])  # -1 picks the last


def _target(targets: list[tuple[np.ndarray, list[str] | None]], dataset: Dataset) -> np.ndarray:
    if dataset.multilabel:
        return np.column_stack([values for values, _ in targets]).astype(np.uint8)
    values, words = targets[0]
    if dataset.classes is None:
        return values
    if words is not None:
        return _codes(values, words, dataset.classes).astype(np.int64)
    return np.searchsorted(np.array(dataset.classes, dtype=np.float64), values).astype(np.int64)
