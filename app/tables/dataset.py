"""A data set: its record, the arrays of its table, and the limits of its size."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from pydantic import TypeAdapter

from app.errors import Damaged
from app.tables.features import Feature, Schema
from payoff.decisions.row_weights import normalised

_MAX_WARNINGS = 50
MOST_SEGMENTS = 50  # words of a column by which a hold-out can be divided


@dataclass(frozen=True)
class DataLimits:
    """The maximum sizes of a data set; `max_upload_bytes` holds for a gzipped file's content, too.

    `max_words` and `max_characters` bound the categories of all columns together: the card of every
    model has them. The process that reads an upload may use `reader_bytes` more than when idle, and
    seconds.
    """

    max_rows: int
    max_columns: int
    max_categories: int
    max_upload_bytes: int
    max_words: int = 100_000
    max_characters: int = 4_000_000
    reader_bytes: int = 400 * 2**20
    reader_seconds: float = 600.0


@dataclass(frozen=True)
class ColumnReport:
    """How a column was read: `examples` are its least, middle and greatest value, or three words.

    `distinct` does not count missing values, and is None where it stopped at too many. `advice`
    says what to change where the column looks like something else, is ignored or refused; one that
    is not read has no type and no counts. `form` says how text stands for its numbers, if it does.
    """

    name: str
    type: Literal["numeric", "categorical", "value", "weight"] | None = None
    examples: tuple[str, ...] = ()
    missing: int | None = None
    distinct: int | None = None
    advice: str | None = None
    form: str | None = None


@dataclass(frozen=True)
class KeptColumn:
    """A column that is no feature, and that the table has for hold-outs and segments: numbers, with
    `form` as in `Feature`, or codes of words (`app.tables.columns.Codes`).

    `words` are all of them in order, where there are few; of identifiers and text there are none.
    """

    type: Literal["numeric", "categorical"]
    form: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """The record beside a table, which alone has the categories of the features.

    `classes` are the label names where there are several, and None for a number to regress on;
    `bytes` is the size of the stored table, `digest` the SHA-256 of it. One that `expires` is
    removed once it is old and nothing needs it. `columns` say how the features, the labels and the
    ignored columns were read. Instances may have what is `ignored`, for these reasons; of that the
    table has only what is `kept`.
    """

    id: str
    name: str | None
    rows: int
    features: tuple[Feature, ...]
    labels: tuple[str, ...]
    classes: tuple[int | str, ...] | None
    digest: str
    bytes: int
    created_at: datetime
    expires: bool = False
    columns: tuple[ColumnReport, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    # columns that cells of matrices name, and their notations
    values: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, KeptColumn] = field(default_factory=dict)
    weight: str | None = None  # the one of `values` that has the weights of rows
    lineage: Mapping[str, Any] | None = None  # of a table made of recorded decisions
    owner: str = ""  # the name of the key that made it, where there was one

    @property
    def forms(self) -> dict[str, str]:
        """The notation of each column that the table has beside the labels; empty without one."""
        forms = {feature.name: feature.form for feature in self.features}
        kept = {name: column.form for name, column in self.kept.items()}
        return {**forms, **self.values, **kept}

    @property
    def warnings(self) -> list[str]:
        """The first advice about columns."""
        return [report.advice for report in self.columns if report.advice][
            :_MAX_WARNINGS
        ]

    @property
    def multilabel(self) -> bool:
        """Whether each of the `classes` applies or not, and not exactly one of them."""
        return self.classes == self.labels


@dataclass(frozen=True, eq=False)
class Table:
    """A data set in memory.

    `X` is float64 (n, m), C-contiguous, NaN where a value is missing; a category is its position in
    its feature's `categories`. `y` is, with one label, int64 (n,) of positions in `classes`, or
    float64 (n,) where `classes` is None (a number to regress on); with several labels it is uint8
    (n, L) of 0 and 1, and `classes` are their names. `values` are columns (n,) that are no
    features. So are `kept` ones, of those that were asked for: numbers, or categories as in `X`
    `KeptColumn.words`; words without names have equal numbers where they are equal. `weight` names
    the one of `values` with the weights of the rows; `kept_words` are those of `kept` columns.
    """

    schema: Schema
    X: np.ndarray
    y: np.ndarray
    classes: tuple[int | str, ...] | None
    labels: tuple[str, ...]
    digest: str
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    weight: str | None = None
    kept_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def segments(self) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
        """The columns of few words: their codes (n,), NaN where missing, and the words."""
        parts = enumerate(self.schema.features)
        columns = {part.name: (self.X[:, j], part.categories) for j, part in parts}
        for name, codes in self.kept.items():
            columns[name] = codes, self.kept_words.get(name, ())
        return {
            name: (codes, words)
            for name, (codes, words) in columns.items()
            if 0 < len(words) <= MOST_SEGMENTS
        }

    @cached_property
    def weights(self) -> np.ndarray:
        """How much each row counts, float64 (n,), with the mean 1."""
        if self.weight is None:
            return np.ones(len(self.y))
        return normalised(self.values[self.weight])

    def column(self, name: str) -> np.ndarray:
        """A feature, value or kept column, float64 (n,), NaN where a value is missing; KeyError for
        another name.
        """
        if name in self.schema.names:
            return self.X[:, self.schema.names.index(name)]
        return {**self.values, **self.kept}[name]

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns (n,) that cells of matrices may name: numeric features, and `values`."""
        features = enumerate(self.schema.features)
        numeric = {
            part.name: self.X[:, j] for j, part in features if part.type == "numeric"
        }
        return {**numeric, **self.values}

    def take(self, rows: np.ndarray) -> Self:
        """The table of these rows, by their numbers."""
        values = {name: column[rows] for name, column in self.values.items()}
        kept = {name: column[rows] for name, column in self.kept.items()}
        return replace(self, X=self.X[rows], y=self.y[rows], values=values, kept=kept)

    def as_numbers(self) -> Self:
        """A table whose one label is numbers to regress on: integers that are classes become the
        numbers they are.
        """
        if self.classes is None:
            return self
        return replace(
            self, y=np.array(self.classes, dtype=np.float64)[self.y], classes=None
        )

    def with_classes(self, order: Sequence[int | str]) -> Self:
        """A table with its classes in this order, for one label of classes."""
        assert self.classes is not None
        codes = np.array([order.index(name) for name in self.classes])
        return replace(self, y=codes[self.y], classes=tuple(order))


DATASET_JSON: TypeAdapter[Dataset] = TypeAdapter(Dataset)
"""Writes and reads the record."""


def id_of(*parts: str) -> str:
    """The id that follows from these texts."""
    return "ds_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def read_record(dataset_id: str, content: bytes) -> Dataset:
    """The record in a data set's folder; Damaged if it cannot be read, or has another id."""
    with suppress(ValueError):
        dataset = DATASET_JSON.validate_json(content)
        if dataset.id == dataset_id:
            return dataset
    raise Damaged(
        f"the record of {dataset_id} is damaged; delete it and upload it again"
    )
