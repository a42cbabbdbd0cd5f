"""The files that decisions are written to: CSV with one header, Parquet."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Protocol

from payoff_client.bodies import ARROW
from payoff_client.csv_rows import count, first_end
from payoff_client.datasets import PARQUET
from payoff_client.reading import Answer, parsed
from payoff_client.shapes import PART, check


class Writer(Protocol):
    def rows_of(self, content: bytes) -> tuple[Any, int]:
        """The rows of an answer, and how many; ValueError where they do not fit to those before them."""

    def write(self, rows: Any) -> None:
        """Append rows."""

    def close(self) -> None:
        """Complete the file."""


def writer_of(form: str, target: Path, path: Path) -> Writer:
    """The writer of a form, to `path` in place of `target`."""
    if form == PARQUET:
        return _ParquetWriter(path)
    return _CsvWriter(path, zipped=target.suffix.lower() == ".gz")


class _CsvWriter:
    def __init__(self, path: Path, *, zipped: bool) -> None:
        self._file: Any = gzip.open(path, "wb") if zipped else path.open("wb")  # noqa: SIM115 - `close` closes it
        self._header: bytes | None = None

    def rows_of(self, content: bytes) -> tuple[bytes, int]:
        content.decode()  # ValueError where it is not UTF-8
        end = first_end(content, ",")
        rows = content[end:]
        if self._header is None:
            self._header = content[:end]
            return content, count(rows)
        if content[:end] != self._header:
            raise ValueError("parts of the file were answered with different columns")
        return rows, count(rows)

    def write(self, rows: bytes) -> None:
        self._file.write(rows)

    def close(self) -> None:
        self._file.close()


class _ParquetWriter:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def rows_of(self, content: bytes) -> tuple[Any, int]:
        from pyarrow import ipc, parquet  # noqa: PLC0415 - for Parquet alone

        table = ipc.open_stream(content).read_all().replace_schema_metadata(None)
        table.validate(full=True)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._path, table.schema)
        return table.cast(self._writer.schema), table.num_rows

    def write(self, rows: Any) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def rest_of(answer: Answer, accept: str) -> dict[str, Any]:
    """What an answer has beside its columns."""
    if accept != ARROW:
        text = answer.headers["Payoff-Answer"].encode()
    else:
        from pyarrow import ipc  # noqa: PLC0415 - for Parquet alone

        text = ipc.open_stream(answer.content).schema.metadata[b"payoff"]
    found: dict[str, Any] = check(parsed(text), PART)
    return found
