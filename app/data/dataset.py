"""What is known of a stored data set without opening its table, and how large one may be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal

from app.errors import Damaged
from app.features import Feature


@dataclass(frozen=True)
class DataLimits:
    """What a data set may measure; `max_upload_bytes` holds for a gzipped file's content, too.

    `max_words` and `max_characters` bound the categories of all columns together: the card of every model has them.
    """

    max_rows: int
    max_columns: int
    max_categories: int
    max_upload_bytes: int
    max_words: int = 100_000
    max_characters: int = 4_000_000


@dataclass(frozen=True)
class Dataset:
    """The record beside a table.

    `classes` are the label names where there are several, and None for a number to regress on; `bytes` is the size
    of the stored table, `digest` the SHA-256 of it. One that `expires` is removed once it is old and nothing needs it.
    `warnings` are about columns that look like something else than what they were read as; `ignored` columns of the
    file are not in the table.
    """

    id: str
    name: str | None
    origin: Literal["upload", "inline"]
    rows: int
    features: tuple[Feature, ...]
    labels: tuple[str, ...]
    classes: tuple[int | str, ...] | None
    digest: str
    bytes: int
    created_at: datetime
    expires: bool = False
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    lineage: Mapping[str, Any] | None = None  # of a table made of recorded decisions
    owner: str = ""  # the name of the key that made it, where there was one

    @property
    def multilabel(self) -> bool:
        """Whether each of the `classes` applies or not, and not exactly one of them."""
        return self.classes == self.labels

    def summary(self) -> Dataset:
        """The same without categories, as listings have it."""
        return replace(self, features=tuple(Feature(feature.name, feature.type) for feature in self.features))


def to_json(dataset: Dataset) -> bytes:
    """The whole record, which `from_json` reads."""
    record = asdict(dataset) | {"created_at": dataset.created_at.isoformat()}
    return json.dumps(record, ensure_ascii=False, indent=1).encode()


def from_json(content: bytes) -> Dataset:
    """The record in `content`, whole or a summary; ValueError, KeyError, TypeError or AttributeError for none."""
    return _from_record(json.loads(content))


def to_files(dataset: Dataset) -> tuple[bytes, bytes | None]:
    """The record as it is stored: a summary that is small enough for listings, and the categories where there are any.

    The summary holds the digest of the categories.
    """
    if not any(feature.categories for feature in dataset.features):
        return to_json(dataset), None
    words = json.dumps([feature.categories for feature in dataset.features], ensure_ascii=False).encode()
    record = json.loads(to_json(dataset.summary())) | {"vocabulary": hashlib.sha256(words).hexdigest()}
    return json.dumps(record, ensure_ascii=False, indent=1).encode(), words


def from_files(content: bytes, vocabulary: Callable[[], bytes]) -> Dataset:
    """The whole record, of which `content` is the summary (or all of it, as older versions wrote it).

    `vocabulary` reads the categories, and is called where they are apart. Raises what `from_json` raises.
    """
    record: dict[str, Any] = json.loads(content)
    dataset = _from_record(record)
    digest = record.get("vocabulary")
    if digest is None:
        return dataset
    words = vocabulary()
    if hashlib.sha256(words).hexdigest() != digest:
        raise ValueError("the categories do not match their digest")
    features = [
        replace(feature, categories=tuple(categories))
        for feature, categories in zip(dataset.features, json.loads(words), strict=True)
    ]
    return replace(dataset, features=tuple(features))


def _from_record(record: dict[str, Any]) -> Dataset:
    features = [Feature(item["name"], item["type"], tuple(item["categories"])) for item in record["features"]]
    classes = record["classes"]
    changed = {
        "features": tuple(features),
        "labels": tuple(record["labels"]),
        "warnings": tuple(record.get("warnings", ())),
        "ignored": tuple(record.get("ignored", ())),
        "classes": None if classes is None else tuple(classes),
        "created_at": datetime.fromisoformat(record["created_at"]),
    }
    return Dataset(**{name: value for name, value in record.items() if name != "vocabulary"} | changed)


def damaged(dataset_id: str) -> Damaged:
    return Damaged(f"the record of {dataset_id} is damaged; delete it and upload it again")


def checked(dataset_id: str, dataset: Dataset) -> Dataset:
    """The record in a data set's folder; Damaged where it is another's."""
    if dataset.id != dataset_id:
        raise Damaged(f"the record of {dataset_id} is that of another data set; delete it and upload it again")
    return dataset
