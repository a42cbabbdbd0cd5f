"""Data sets as Parquet below one URL; each is a folder that exists complete or not at all."""

import hashlib
import io
import json
import logging
import math
import re
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, BinaryIO, cast

from app.database.pages import page_of, place_of
from app.errors import Conflict, Damaged, NotFound
from app.storage import Storage
from app.tables.dataset import (
    DATASET_JSON,
    DataLimits,
    Dataset,
    Table,
    id_of,
    read_record,
)
from app.tables.isolated import read_isolated
from app.tables.upload_request import UploadRequest

__all__ = ["DataLimits", "Dataset", "DatasetStore", "Draft"]

_TABLE = "data.parquet"
_RECORD = "dataset.json"
_NAMED = "latest"
_REPORTED = 200  # columns whose report stays: lists read every record
_ID = re.compile(r"ds_[0-9a-f]{16}")
_PLACE = rf"[0-9T:.-]+Z\|{_ID.pattern}"

_log = logging.getLogger(__name__)


def _reading() -> ModuleType:
    """Arrow takes some 60 MB of memory, which a service that only predicts need not spend."""
    from app.tables import reading  # noqa: PLC0415

    return reading


@dataclass(frozen=True)
class Draft:
    """A data set that is complete but not stored; `content` is the same for the same content,
    whenever it comes.
    """

    dataset: Dataset
    parquet: bytes
    content: str = ""


class DatasetStore:
    """Data sets by their content: a table that is added twice is stored once, under the same id.

    Inline data sets expire after `keep_inline` seconds. Within one half of that time the same
    content has the same id, in the next half another: so a data set that may be removed has not
    been referred to for half of the time at least, and no order of the same moment can need it.
    """

    def __init__(
        self,
        url: str,
        limits: DataLimits,
        *,
        retry_seconds: float = 0.0,
        keep_inline: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self._keep_inline = keep_inline
        self._clock = clock
        self.storage = Storage(
            url, seal=_RECORD, name="PAYOFF_DATASETS", retry_seconds=retry_seconds
        )

    def clean_up(self) -> int:
        """Remove data sets that killed processes left half-written; returns their number."""
        return self.storage.clean_up(_ID)

    def upload(
        self,
        content: BinaryIO,
        request: UploadRequest,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        lineage: Mapping[str, Any] | None = None,
        ignored: Sequence[str] = (),
    ) -> Dataset:
        """Keep a file (CSV or Parquet), read in a process of its own that is killed once
        `is_cancelled()`.

        Instances may have columns that were `ignored` before. Raises Invalid with places below
        `/file`, `/label` and `/name`, or TooLarge; nothing is kept then. May block for seconds;
        memory of the stored bytes.
        """
        request.check()
        with tempfile.TemporaryFile() as sink:
            record = read_isolated(
                content, request, cast(BinaryIO, sink), self.limits, is_cancelled
            )
            dataset = DATASET_JSON.validate_json(record)
            sink.seek(0)
            known = dict.fromkeys(ignored, "not recorded") | dict(dataset.ignored)
            return self.keep(
                Draft(replace(dataset, lineage=lineage, ignored=known), sink.read())
            )

    def arrow_of_parquet(
        self,
        content: bytes,
        charge: Callable[[int, int], None],
        most_rows: int | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> bytes:
        """A Parquet file as an Arrow stream, read like an upload; nothing is kept.

        `charge` is called with the size of the stream. Raises Invalid at `/file`, or TooLarge
        over the limits of data sets, and for more than `most_rows` before any is read.
        """
        limits = (
            self.limits
            if most_rows is None
            else replace(self.limits, max_rows=most_rows)
        )
        with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as sink:
            file.write(content)
            read_isolated(
                cast(BinaryIO, file), None, cast(BinaryIO, sink), limits, is_cancelled
            )
            charge(sink.seek(0, 2), 1)
            sink.seek(0)
            return sink.read()

    def draft_inline(
        self,
        features: Sequence[str],
        rows: Sequence[Sequence[Any]],
        labels: Sequence[Any],
        *,
        numbers: bool = False,
        types: Mapping[str, str] | None = None,
        weights: Sequence[float] | None = None,
        owner: str = "",
    ) -> Draft:
        """A table that came as lists, read and checked, to be kept with `keep` once all else is
        found right.

        With `numbers` integers are to be regressed on, and are no classes; `types` are as in an
        upload. Raises Invalid with places below `/features`, `/rows`, `/labels`, `/weights` and
        `/types`, or TooLarge.
        """
        sink = io.BytesIO()
        kind = "number" if numbers else "auto"
        request = UploadRequest(
            label=(), label_type=kind, types=dict(types or {}), owner=owner
        )
        drafted = _reading().read_inline(
            features, rows, labels, request, sink, self.limits, weights
        )
        dataset = replace(
            drafted, created_at=datetime.fromtimestamp(self._clock(), UTC)
        )
        # In another period the same content is another data set, and each expires.
        period = self._period()
        if period:
            dataset = replace(dataset, id=id_of(drafted.id, period), expires=True)
        return Draft(dataset, sink.getvalue(), drafted.id)

    def find(self, dataset_id: str) -> Dataset:
        """The record of a data set; NotFound if there is none, Damaged if it cannot be read."""
        return read_record(dataset_id, self._record(dataset_id))

    def table(self, dataset_id: str, kept: Collection[str] = ()) -> Table:
        """A data set's arrays, with these of its `kept` columns; NotFound, or Damaged where the
        file is not what was stored.
        """
        dataset = self.find(dataset_id)
        return _reading().load(dataset, self.parquet(dataset), kept)

    def resolve(self, reference: str, owner: str = "") -> str:
        """The id of a data set: `reference`, or the last one that `owner` uploaded under this name;
        else NotFound.
        """
        if _ID.fullmatch(reference):
            return reference
        with suppress(NotFound, ValueError):
            dataset_id = self.storage.read(_folder(owner, reference), _NAMED).decode()
            if _ID.fullmatch(dataset_id) and self.storage.exists(dataset_id):
                return dataset_id
        raise NotFound(f"there is no data set {reference!r}")

    def page(
        self,
        size: int,
        token: str | None = None,
        sees: Callable[[str], bool] = lambda _owner: True,
    ) -> tuple[list[Dataset], str | None]:
        """At most `size` data sets after those of the page that gave `token`, newest first, and the
        next token.

        They are of owners whom the caller `sees`.
        """
        after = place_of(token, _PLACE)
        datasets = sorted(
            (dataset for dataset in self.all() if sees(dataset.owner)),
            key=_age,
            reverse=True,
        )
        older = [
            dataset for dataset in datasets if after is None or _age(dataset) < after
        ]
        return page_of(older, size, _age)

    def remove(self, dataset_id: str) -> None:
        """Remove a data set, after which its name refers to nothing; NotFound if there is none."""
        self._record(dataset_id)
        self.storage.remove(dataset_id)

    def keep(self, draft: Draft) -> Dataset:
        """Store a draft, to which its name refers from now on.

        Where the same content is stored already, the answer is that data set, with the name and the
        reports of this upload.
        """
        dataset = stored = draft.dataset
        try:
            record = DATASET_JSON.dump_json(
                replace(dataset, columns=dataset.columns[:_REPORTED]), indent=1
            )
            self.storage.publish(dataset.id, {_TABLE: draft.parquet, _RECORD: record})
        except Conflict as conflict:
            try:
                stored = self.find(dataset.id)
            except NotFound:
                raise conflict from None  # it is not complete yet, or was removed at this moment
        if dataset.name is not None:
            self.storage.write(
                f"{_folder(stored.owner, dataset.name)}/{_NAMED}", stored.id.encode()
            )
        name = dataset.name or stored.name
        return replace(
            stored,
            name=name,
            columns=dataset.columns,
            ignored=dataset.ignored,
            lineage=dataset.lineage,
        )

    def parquet(self, dataset: Dataset) -> bytes:
        """The bytes of a table; Damaged where they are not what was stored."""
        try:
            parquet = self.storage.read(dataset.id, _TABLE)
        except NotFound as absent:
            raise Damaged(
                f"the table of {dataset.id} is missing; delete it and upload it again"
            ) from absent
        if hashlib.sha256(parquet).hexdigest() != dataset.digest:
            raise Damaged(
                f"the stored table of {dataset.id} does not match its digest;"
                " delete it and upload it again"
            )
        return parquet

    def all(self) -> list[Dataset]:
        """The complete data sets; one that is being written or removed is not complete, and one
        that is damaged is left out.
        """
        datasets = []
        contents = self.storage.read_each(
            filter(_ID.fullmatch, self.storage.folders()), _RECORD
        )
        for dataset_id, content in contents.items():
            try:
                datasets.append(read_record(dataset_id, content))
            except Damaged as error:
                _log.warning("data set omitted: %s", error.detail)
        return datasets

    def expired(self) -> list[str]:
        """The ids of inline data sets older than `keep_inline`, whether something needs them or
        not.
        """
        old = self._clock() - self._keep_inline
        return [
            dataset.id
            for dataset in self.all()
            if dataset.expires and dataset.created_at.timestamp() < old
        ]

    def _period(self) -> str:
        """The name of the present half of `keep_inline`; empty if inline data sets never expire."""
        if self._keep_inline == math.inf:
            return ""
        return f"{self._keep_inline:.0f} {self._clock() // (self._keep_inline / 2):.0f}"

    def _record(self, dataset_id: str) -> bytes:
        if _ID.fullmatch(dataset_id):
            with suppress(NotFound):
                return self.storage.read(dataset_id, _RECORD)
        raise NotFound(f"there is no data set {dataset_id!r}")


def _folder(owner: str, name: str) -> str:
    """Where the id is of the last data set that the owner uploaded under this name; replaced
    atomically.
    """
    return f"names/{hashlib.sha256(json.dumps([owner, name]).encode()).hexdigest()}"


def _age(dataset: Dataset) -> str:
    at = dataset.created_at.isoformat(timespec="microseconds")
    return f"{at.removesuffix('+00:00')}Z|{dataset.id}"  # a plus would be a space in an address
