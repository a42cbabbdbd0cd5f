"""What is known of a stored data set without opening its table, and how large one may be."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from app.features import Feature


@dataclass(frozen=True)
class DataLimits:
    """What a data set may measure; `max_upload_bytes` holds for a gzipped file's content, too."""

    max_rows: int
    max_columns: int
    max_categories: int
    max_upload_bytes: int


@dataclass(frozen=True)
class Dataset:
    """The record beside a table.

    `classes` are the label names where there are several, and None for a number to regress on; `bytes` is the size
    of the stored table, `digest` the SHA-256 of it.
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

    @property
    def multilabel(self) -> bool:
        """Whether each of the `classes` applies or not, and not exactly one of them."""
        return self.classes == self.labels


def to_json(dataset: Dataset) -> bytes:
    record = asdict(dataset) | {"created_at": dataset.created_at.isoformat()}
    return json.dumps(record, ensure_ascii=False, indent=1).encode()


def from_json(content: bytes) -> Dataset:
    """The record in `content`; ValueError, KeyError, TypeError or AttributeError where it holds none."""
    record: dict[str, Any] = json.loads(content)
    features = [Feature(item["name"], item["type"], tuple(item["categories"])) for item in record["features"]]
    classes = record["classes"]
    changed = {
        "features": tuple(features),
        "labels": tuple(record["labels"]),
        "classes": None if classes is None else tuple(classes),
        "created_at": datetime.fromisoformat(record["created_at"]),
    }
    return Dataset(**record | changed)
