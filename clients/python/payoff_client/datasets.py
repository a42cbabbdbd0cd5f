"""Data sets: files and frames uploaded for training."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from payoff_client.bodies import stated
from payoff_client.dialect import MISSING, Written, dialect_of
from payoff_client.errors import InvalidAnswer
from payoff_client.shapes import DATASET, FROM_OUTCOMES, Shape, page_of
from payoff_client.signatures import readable
from payoff_client.stakes import FromOutcomesOptions
from payoff_client.tables import Rows, eager, table_of
from payoff_client.values import plain
from payoff_client.wire import Call, Content, Link, blocking, post, step

CSV, PARQUET, GZIP = "text/csv", "application/vnd.apache.parquet", "application/gzip"
SUFFIXES = {".csv": CSV, ".parquet": PARQUET, ".gz": GZIP}
_BLOCK = 2**20
_MOST_PAGES = 10_000  # two million items


@readable
class DatasetMethods:
    """Upload, list and delete data sets, as coroutines."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def _upload(
        self,
        data: Any,
        /,
        *,
        label: str | Sequence[str],
        name: str | None = None,
        types: Mapping[str, str] | None = None,
        label_type: str | None = None,
        **dialect: Unpack[Written],
    ) -> dict[str, Any]:
        """Upload a file (its path) or a frame; the same content has the same id.

        Files are CSV (gzipped or not) or Parquet, by their suffix, and are read in blocks. `types` has
        `number`, `category` or `ignore` by column, `label_type` is that of the label; `dialect` has `delimiter`,
        `decimal` and `encoding` of CSV.
        """
        found: dict[str, str] = {}
        written = dialect_of(dialect)
        if isinstance(data, str | Path):
            written.check(repr(Path(data).name), is_csv=form_of(Path(data)) == CSV)
            kind, content = _of_file(Path(data))
        else:
            written.check("a frame", is_csv=False)
            kind, content, found = _of_frame(data)
        params: dict[str, Any] = {"label": [label] if isinstance(label, str) else list(label), **written.query()}
        params |= {"label_type": label_type} if label_type is not None else {}
        params |= {"name": name} if name is not None else {}
        chosen = {**found, **(types or {})}
        params |= {"types": json.dumps(chosen)} if chosen else {}
        call = Call("POST", "/datasets", params, content, {"Content-Type": kind})
        document: dict[str, Any] = await self._link.document(call, DATASET)
        return document

    async def _from_outcomes(self, model: str, /, **options: Unpack[FromOutcomesOptions]) -> dict[str, Any]:
        """A data set of recorded instances of a model and their truth; `options` are `since`, `until`, `name`."""
        call = post("/datasets/from-outcomes", {"model": model, **stated(**options)})
        document: dict[str, Any] = await self._link.document(call, FROM_OUTCOMES)
        return document

    async def _get(self, dataset: str) -> dict[str, Any]:
        """Describe a data set, by its id or name."""
        document: dict[str, Any] = await self._link.document(Call("GET", f"/datasets/{step(dataset)}"), dict)
        return document

    async def _list(self) -> list[dict[str, Any]]:
        """All data sets, newest first."""
        return [each async for each in pages(self._link, "/datasets", "datasets", {"id": str})]

    async def _delete(self, dataset_id: str) -> None:
        """Delete a data set that no job uses."""
        call = Call("DELETE", f"/datasets/{step(dataset_id)}", repeatable=False)
        await self._link.request(call)


class AsyncDatasets(DatasetMethods):
    """The data sets of an `AsyncPayoff`."""

    upload = DatasetMethods._upload
    from_outcomes = DatasetMethods._from_outcomes
    get = DatasetMethods._get
    list = DatasetMethods._list
    delete = DatasetMethods._delete


class Datasets(DatasetMethods):
    """The data sets of a `Payoff`."""

    upload = blocking(DatasetMethods._upload)
    from_outcomes = blocking(DatasetMethods._from_outcomes)
    get = blocking(DatasetMethods._get)
    list = blocking(DatasetMethods._list)
    delete = blocking(DatasetMethods._delete)


async def pages(link: Link, path: str, field: str, item: Shape) -> AsyncIterator[dict[str, Any]]:
    """The items of all pages of a list; InvalidAnswer where it has no end."""
    params: dict[str, Any] = {"page_size": 200}
    tokens: set[str] = set()
    while True:
        page = await link.document(Call("GET", path, params), page_of(field, item))
        for each in page[field]:
            yield each
        token = page.get("next_page_token")
        if token is None:
            return
        if token in tokens or len(tokens) == _MOST_PAGES:
            raise InvalidAnswer(f"the list at GET {path} has no end: page_token {token[:60]!r} follows itself")
        tokens.add(token)
        params["page_token"] = token


def kind_of(path: Path) -> str:
    """The media type of a file, by its suffix; ValueError for another one."""
    if str(path) in ("-", "/dev/stdin"):
        raise ValueError("standard input is not read; give the path of a file")
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path.name!r} is none of the supported files: {', '.join(SUFFIXES)}")
    return kind


def form_of(path: Path) -> str:
    """The media type of the rows in a file, which may be gzipped."""
    return kind_of(path.with_suffix("") if path.suffix.lower() == ".gz" else path)


def _of_file(path: Path) -> tuple[str, Content]:
    def blocks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block

    kind = kind_of(path)
    path.stat()  # a missing file is reported before anything is sent
    return kind, blocks


def _of_frame(data: Any) -> tuple[str, bytes, dict[str, str]]:
    """The frame as Parquet or, where no library writes it, as CSV; and types that CSV does not keep."""
    eager(data)
    library = type(data).__module__.partition(".")[0]
    sink = io.BytesIO()
    if library == "polars":
        data.write_parquet(sink)
        return PARQUET, sink.getvalue(), {}
    if library in ("pandas", "pyarrow") and find_spec("pyarrow") is not None:
        import pyarrow as pa  # noqa: PLC0415 - only where it is installed
        from pyarrow import parquet  # noqa: PLC0415

        table = pa.Table.from_pandas(data, preserve_index=False) if library == "pandas" else data
        parquet.write_table(table, sink)
        return PARQUET, sink.getvalue(), {}
    if library == "pandas":
        text = data.to_csv(index=False).encode()
        words = [str(name) for name, kind in data.dtypes.items() if getattr(kind, "kind", "O") not in "iufb"]
        return CSV, text, dict.fromkeys(words, "category")
    table = table_of(data)
    if not isinstance(table, Rows):
        raise TypeError("an array has no names of columns: give a frame or a list of objects, or use `labelled`")
    return _of_columns({name: _values(name, table.column(name)) for name in table.names or ()})


def _of_columns(columns: Mapping[str, Sequence[Any]]) -> tuple[str, bytes, dict[str, str]]:
    if find_spec("pyarrow") is not None:
        import pyarrow as pa  # noqa: PLC0415 - only where it is installed

        return _of_frame(pa.table({name: list(values) for name, values in columns.items()}))
    words = [name for name, values in columns.items() if any(isinstance(value, str) for value in values)]
    for name in words:
        for each in columns[name]:
            if each is not None and (each in MISSING or each != each.strip()):
                raise ValueError(f"{name!r} has the text {each!r}, which CSV cannot hold: install pyarrow")
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return CSV, sheet.getvalue().encode(), dict.fromkeys(words, "category")


def _values(name: str, values: Sequence[Any]) -> list[Any]:
    """Text, or numbers, where booleans are 0 and 1; None where one is missing. ValueError for others."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return list(values)
    if not kinds <= {int, float, bool}:
        raise ValueError(f"{name!r} has values of several kinds: give text, or numbers, or None")
    has_floats = float in kinds or any(value is not None and abs(value) >= 2**63 for value in values)
    found = [None if value is None else float(value) if has_floats else int(value) for value in values]
    if any(value in (math.inf, -math.inf) for value in found):
        raise ValueError(f"{name!r} has infinite values")
    return found


def labelled(X: Any, y: Any, names: Sequence[str], label: str) -> list[dict[str, Any]]:
    """An array (n, m) and its labels (n,) as objects."""
    rows = np.asarray(X, dtype=object if np.asarray(X).dtype.kind not in "iufb" else None).tolist()
    return [dict(zip(names, row, strict=True)) | {label: plain(value)} for row, value in zip(rows, y, strict=True)]
