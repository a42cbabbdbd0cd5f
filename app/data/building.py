"""From a source to what is stored: one pass over its batches, with every check on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from app.data.columns import CategoricalColumn, NumericColumn, Vocabulary
from app.data.dataset import DataLimits
from app.data.findings import Findings
from app.data.labels import Classes, NumberLabel, RelevanceLabel, WordLabel
from app.data.source import Source
from app.errors import Invalid, reject
from app.features import Feature

_CELLS_PER_GROUP = 1 << 21  # cells of a Parquet row group, at most 16 MB
_Column = NumericColumn | CategoricalColumn


@dataclass(frozen=True)
class Built:
    """What a table holds; `identity` is the same for the same values, names and labels."""

    rows: int
    features: tuple[Feature, ...]
    labels: tuple[str, ...]
    classes: Classes
    identity: str
    warnings: tuple[str, ...]


def build(
    source: Source,
    labels: Sequence[int],
    sink: BinaryIO,
    limits: DataLimits,
    left_out: Mapping[str, tuple[int, int, str]] | None = None,
    *,
    several: bool,
    numbers: bool = False,
) -> Built:
    """Read `source` to its end and write it to `sink` as Parquet: the columns at `labels` as labels (`several`: 0 or 1
    each), the others as features.

    With `numbers` one label is a number to regress on, also where all its values are integers. `left_out` says of each
    column which values count as missing, once all is read.
    Raises Invalid with every column that cannot be used. One pass; memory of one row group and the categories.
    """
    order = [j for j in range(len(source.places)) if j not in set(labels)] + list(labels)
    vocabulary = Vocabulary(limits.max_words, limits.max_characters)
    features = [_feature(source, j, limits, vocabulary) for j in order[: len(order) - len(labels)]]
    targets = [_label(source, j, limits, vocabulary, several=several, numbers=numbers) for j in labels]
    columns: list[_Column] = [*features, *targets]
    writer, findings = _Writer(columns, sink), Findings(features, targets)
    for arrays in source.batches():
        writer.write([column.add(arrays[j]) for column, j in zip(columns, order, strict=True)])
        findings.add()
    flaws = [flaw for feature in features for flaw in feature.flaws()]
    flaws += [flaw for target in targets if isinstance(target, RelevanceLabel) for flaw in target.relevance_flaws()]
    reject(flaws)
    writer.close()
    return Built(
        rows=columns[0].rows,
        features=tuple(feature.feature() for feature in features),
        labels=tuple(target.place.name for target in targets),
        classes=_classes(targets),
        identity=_identity(features, targets),
        warnings=tuple(findings.warnings(left_out or {})),
    )


def _feature(source: Source, j: int, limits: DataLimits, vocabulary: Vocabulary) -> _Column:
    if source.kinds[j] == "numeric":
        return NumericColumn(source.places[j])
    return CategoricalColumn(source.places[j], limits.max_categories, vocabulary)


def _label(
    source: Source, j: int, limits: DataLimits, vocabulary: Vocabulary, *, several: bool, numbers: bool
) -> NumberLabel | WordLabel | RelevanceLabel:
    place = source.places[j]
    if several:
        if source.kinds[j] == "categorical":
            msg = f"{place.name!r} holds words; each of several labels must be a column of 0 and 1"
            raise Invalid.at(place.loc, msg)
        return RelevanceLabel(place)
    if source.kinds[j] == "numeric":
        return NumberLabel(place, limits.max_categories, regressed=numbers)
    if numbers:
        raise Invalid.at(place.loc, f"{place.name!r} holds words; a number to regress on is a column of numbers")
    return WordLabel(place, limits.max_categories, vocabulary)


def _classes(targets: Sequence[NumberLabel | WordLabel | RelevanceLabel]) -> Classes:
    first = targets[0]
    if isinstance(first, RelevanceLabel):
        return tuple(target.place.name for target in targets)
    return first.classes()


def _identity(features: Iterable[_Column], labels: Sequence[_Column]) -> str:
    """SHA-256 over names, kinds, values and roles of all columns, in order."""
    parts: list[Any] = [
        [[column.place.name, column.feature().type, column.digest()] for column in role] for role in (features, labels)
    ]
    if any(isinstance(label, NumberLabel) and label.regressed and label.integers for label in labels):
        parts.append("numbers")  # the same integers as classes are another data set
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Writer:
    """Parquet, a row group whenever enough cells have come together."""

    def __init__(self, columns: Sequence[_Column], sink: BinaryIO) -> None:
        self._schema = pa.schema([pa.field(column.place.name, column.stored_as) for column in columns])
        self._writer = pq.ParquetWriter(sink, self._schema, compression="zstd")
        self._rows_per_group = max(_CELLS_PER_GROUP // len(columns), 1)
        self._waiting: list[Any] = []

    def write(self, arrays: list[Any]) -> None:
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        if sum(batch.num_rows for batch in self._waiting) >= self._rows_per_group:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema).unify_dictionaries()
            self._writer.write_table(table, row_group_size=self._rows_per_group)
            self._waiting = []
