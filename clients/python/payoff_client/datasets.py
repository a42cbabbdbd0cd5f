"""Data sets: files and frames uploaded for training."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from payoff_client.deciding import stated
from payoff_client.files import kind_of
from payoff_client.rows import arrow_tools, has_pyarrow, table_of
from payoff_client.shapes import DATASET, FROM_OUTCOMES
from payoff_client.stakes import Period, Written, refuse_written
from payoff_client.transport import PARQUET, Call, Content, Link, Linked, Mode, delete, post, query, shared, step

_BLOCK = 2**20


class Datasets(Linked[Mode]):
    """Upload, list and delete data sets."""

    @shared
    async def upload(
        self,
        data: Any,
        /,
        *,
        label: str | Sequence[str],
        name: str | None = None,
        types: Mapping[str, str] | None = None,
        label_type: str | None = None,
        **written: Unpack[Written],
    ) -> dict[str, Any]:
        """Upload a file (its path) or a frame; the same content has the same id.

        Files are CSV (gzipped or not) or Parquet, by their suffix, and are read in blocks. `types` has
        `number`, `category` or `ignore` by column, `label_type` is that of the label; `delimiter`, `decimal` and
        `encoding` are those of CSV.
        """
        return await upload(self._link, data, label, name=name, types=types, label_type=label_type, **written)

    @shared
    async def from_outcomes(
        self, model: str, /, *, name: str | None = None, **period: Unpack[Period]
    ) -> dict[str, Any]:
        """A data set of recorded instances of a model and their truth; `period` are `since` and `until`."""
        call = post("/datasets/from-outcomes", {"model": model, **stated(name=name, **period)})
        return await self._link.document(call, FROM_OUTCOMES)

    @shared
    async def get(self, dataset: str) -> dict[str, Any]:
        """Describe a data set, by its id or name."""
        return await self._link.document(Call("GET", f"/datasets/{step(dataset)}"), dict)

    @shared
    async def list(self) -> builtins.list[dict[str, Any]]:
        """All data sets, newest first."""
        return await self._link.items("/datasets", "datasets", {"id": str})

    @shared
    async def delete(self, dataset_id: str) -> None:
        """Delete a data set that no job uses."""
        await self._link.request(delete(f"/datasets/{step(dataset_id)}"))


async def upload(link: Link, data: Any, label: str | Sequence[str], **options: Any) -> dict[str, Any]:
    """The description of what is stored; `options` are the other query parameters, left out where they are None."""
    content: Content
    if isinstance(data, str | Path):
        path = Path(data)
        kind = kind_of(path)
        if kind == PARQUET:
            refuse_written(options, repr(path.name))
        path.stat()  # a missing file is reported before anything is sent
        content = partial(_blocks, path)  # made anew for each attempt
    elif not has_pyarrow():
        raise ImportError(
            "frames and lists of objects are uploaded as Parquet, which needs pyarrow (pip install pyarrow)"
        )
    else:
        refuse_written(options, "a frame")
        kind, content = PARQUET, arrow_tools().parquet_of(table_of(data))
    params = {"label": label, **query({name: value for name, value in options.items() if value is not None})}
    return await link.document(Call("POST", "/datasets", params, content, {"Content-Type": kind}), DATASET)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
