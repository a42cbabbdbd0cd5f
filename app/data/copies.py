"""Data sets that are complete but not stored, and copies of whole stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.data.dataset import Dataset
from app.errors import Damaged

if TYPE_CHECKING:
    from app.data.store import DatasetStore


@dataclass(frozen=True)
class Draft:
    """A data set that is complete but not stored; `content` is the same for the same content, whenever it comes."""

    dataset: Dataset
    parquet: bytes
    content: str = ""


def copied(source: DatasetStore, target: DatasetStore) -> tuple[int, list[str]]:
    """How many data sets of `source` are in `target` now, and what was left out, with the reason.

    Only what is missing in `target` is read: a record is written last, and contains the digest of its
    table.
    """
    count = 0
    whole, left_out = source.records()
    there = {dataset.id for dataset in target.records()[0]}
    for dataset in whole:
        try:
            if dataset.id not in there:
                target.keep(Draft(source.find(dataset.id), source.parquet(dataset)))
        except Damaged as error:
            left_out.append(f"{dataset.id}: {error.detail}")
        else:
            count += 1
    source.names.copy_to(target.names)
    return count, left_out
