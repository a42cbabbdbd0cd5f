"""From what was sent to a table on its way to the store: an uploaded file, or lists."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal

from app.data.building import Built, build
from app.data.content import opened
from app.data.dataset import DataLimits, Dataset
from app.data.inline import inline_source
from app.data.location import FILE
from app.data.typed import typed
from app.data.upload_request import UploadRequest
from app.errors import MAX_ERRORS, Flaw, pointer, reject, unknown
from app.text import refused_character


def read_upload(content: BinaryIO, request: UploadRequest, sink: BinaryIO, limits: DataLimits) -> Dataset:
    """The record of an uploaded file, whose table is written to `sink` as Parquet.

    Raises Invalid with places below `/file`, `/label` and `/name`, or TooLarge. Memory of a few blocks and of the
    categories, whatever the size of the file.
    """
    with opened(content, limits, request) as found:
        source = typed(found, request)
        names = [place.name for place in source.places]
        positions = _find_labels(names, request.label)
        several = len(positions) > 1
        built = build(source, positions, sink, limits, several=several, numbers=request.numbers)
    kept = set(names)
    ignored = tuple(name for name in found.names if name not in kept)
    return replace(_record(built, request.name, "upload", sink, request.owner), ignored=ignored)


def read_inline(
    features: Sequence[str],
    rows: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    sink: BinaryIO,
    limits: DataLimits,
    *,
    numbers: bool = False,
    period: str = "",
    owner: str = "",
) -> tuple[Dataset, str]:
    """The same for lists, and the id that the content has in every period.

    In another `period` the same content is another data set; one with a period expires. Raises Invalid with places
    below `/features`, `/rows` and `/labels`, or TooLarge.
    """
    source, targets, several = inline_source(features, rows, labels, limits)
    built = build(source, targets, sink, limits, several=several, numbers=numbers)
    record = _record(built, None, "inline", sink, owner)
    if not period:
        return record, record.id
    return replace(record, id=_id(f"{built.identity}\n{owner}\ninline {period}"), expires=True), record.id


def _id(text: str) -> str:
    return "ds_" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _record(built: Built, name: str | None, origin: Literal["upload", "inline"], sink: BinaryIO, owner: str) -> Dataset:
    sink.seek(0)
    return Dataset(
        id=_id(f"{built.identity}\n{owner}"),
        name=name,
        origin=origin,
        rows=built.rows,
        features=built.features,
        labels=built.labels,
        classes=built.classes,
        digest=hashlib.file_digest(sink, "sha256").hexdigest(),  # type: ignore[arg-type]
        bytes=sink.seek(0, 2),
        warnings=built.warnings,
        created_at=datetime.now(UTC),
        owner=owner,
    )


def _find_labels(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Positions of the label columns."""
    positions = {name: j for j, name in enumerate(names)}
    flaws = []
    if not labels:
        flaws.append(Flaw("/label", "'label' is required; name the column to predict"))
    seen: set[str] = set()
    for k, label in enumerate(labels):
        if message := refused_character(label):
            flaws.append(Flaw(pointer("label", k), message))
        elif label not in positions:
            flaws.append(Flaw(pointer("label", k), unknown("column", label, names)))
        elif label in seen:
            flaws.append(Flaw(pointer("label", k), f"{label!r} is named twice"))
        seen.add(label)
        if len(flaws) >= MAX_ERRORS:
            break
    if not flaws and len(labels) == len(names):
        flaws.append(Flaw(FILE, "besides the label there is no column to learn from"))
    reject(flaws)
    return [positions[label] for label in labels]
