"""Tables in requests and answers: CSV, Parquet and Arrow streams, in one way on all routes."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Request
from pydantic import BeforeValidator, Field

from app.api.codecs.answers import Carried
from app.api.codecs.media_types import ARROW, CSV, PARQUET
from app.api.codecs.uploads import run_while_connected
from app.api.gate import charge_of
from app.api.memory import NUMBER, Charge
from app.api.routing import ports_of
from app.data.source import FILE
from app.data.upload_request import Decimal, Delimiter, Dialect, Encoding
from app.errors import Flaw, Invalid, pointer, reject
from app.features import Schema
from app.text import MISSING
from app.usecases.fields import Names, Text, WireModel
from app.usecases.predict import Rows

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without such clients can spare
    import pyarrow as pa

Words = Mapping[str, Collection[str]]
"""The categories of columns by their names."""
NO_WORDS: Words = MappingProxyType({})
DIALECT_FIELDS = Dialect._fields
_MAX_KEPT = 100


class DialectFields(WireModel):
    """How a CSV file is written."""

    delimiter: Delimiter = ","
    decimal: Decimal = "."
    encoding: Encoding = "utf-8"

    def refuse_dialect(self) -> None:
        """Invalid where one is named, for bodies of other formats."""
        reject(
            Flaw(pointer(name), f"{name!r} is for {CSV} alone")
            for name in DIALECT_FIELDS
            if name in self.model_fields_set
        )


def _split(sent: Any) -> Any:
    """Several names are separated by commas, or they are a list in JSON."""
    if not isinstance(sent, str):
        return sent
    try:
        return orjson.loads(sent) if sent.startswith("[") else sent.split(",")
    except orjson.JSONDecodeError as error:
        raise ValueError("send names separated by commas, or a list of them as JSON") from error


class TableFields(DialectFields):
    """Query parameters beside a table: how it is to be read, and which of its columns come back."""

    id: Text | None = Field(default=None, description="the column that comes back as `ids`")
    keep: Annotated[Names, Field(max_length=_MAX_KEPT), BeforeValidator(_split)] = Field(
        default=[], description="more columns, which come back under `kept`; separated by commas"
    )

    @property
    def carried_names(self) -> list[str]:
        """All columns that come back, once each."""
        return list(dict.fromkeys([*([] if self.id is None else [self.id]), *self.keep]))


@dataclass(frozen=True)
class Sheet:
    """A table as it came, to be read once it is known which of its columns are numbers."""

    kind: str
    body: bytes
    fields: TableFields
    charge: Charge

    def read(
        self, numbers: Collection[str], features: Collection[str], words: Words = NO_WORDS
    ) -> tuple[pa.Table, Carried]:
        """The columns, and those of them that come back with the answer.

        Text comes as strings or dictionaries of them; of CSV the columns in `numbers` are numbers, all others text,
        where a cell such as NA is missing if it is none of the column's `words`.
        Raises Invalid, or what `charge` raises.
        """
        from app.api.codecs import arrow, columns  # noqa: PLC0415 - 40 MB that few services need

        if self.kind == CSV:
            dialect = Dialect(self.fields.delimiter, self.fields.decimal, self.fields.encoding)
            as_sent = dict.fromkeys(self.fields.carried_names, MISSING)  # an id may be NA
            self.charge(len(self.body) // 2, NUMBER)  # each number has a digit and a delimiter
            table = arrow.table_of_csv(self.body, numbers, dialect, {**as_sent, **words})
        else:
            self.fields.refuse_dialect()
            table = arrow.table_of_arrow(self.body, self.charge)
        columns.charge_for(table, self.charge)
        return columns.carried_of_table(self.fields, table, features)

    def rows(self, schema: Schema) -> tuple[Rows, Carried]:
        """A column for each feature, by name, in any order, null or empty where missing; and what comes back."""
        from app.api.codecs.columns import categories_of, numeric_names, rows_of_table  # noqa: PLC0415 - with pyarrow

        table, carried = self.read(numeric_names(schema), schema.names, categories_of(schema))
        return rows_of_table(table, schema), carried


async def unpacked(request: Request, kind: str, body: bytes, most_rows: int | None = None) -> tuple[str, bytes]:
    """A Parquet file as an Arrow stream, by a process that is killed where it takes too much; others as they are.

    TooLarge where its footer states more than `most_rows`.
    """
    if kind != PARQUET:
        return kind, body
    content, charge = io.BytesIO(body), charge_of(request)
    try:
        stream = await run_while_connected(
            request, ports_of(request).datasets.arrow_of_parquet, content, charge, most_rows
        )
    except Invalid as error:  # the body itself is the file
        raise Invalid(error.detail, [Flaw(flaw.loc.removeprefix(FILE), flaw.msg) for flaw in error.flaws]) from error
    return ARROW, stream
