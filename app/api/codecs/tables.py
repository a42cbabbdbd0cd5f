"""Tables in requests and answers: CSV, Parquet and Arrow streams, in one way on all routes."""

from collections.abc import Collection
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import Request
from pydantic import BeforeValidator, Field

from app.api.codecs.media_types import ARROW, CSV, PARQUET
from app.api.codecs.uploads import run_while_connected
from app.api.exchange import charge_of
from app.api.memory import Charge
from app.requests.fields import Names, Text
from app.requests.rows import Rows
from app.stores import Stores
from app.tables.features import Schema
from app.tables.source import FILE
from app.tables.upload_request import Dialect
from payoff.errors import Flaw, Invalid, pointer, reject

DIALECT_FIELDS = tuple(Dialect.model_fields)
_MAX_KEPT = 100


class DialectFields(Dialect):
    """How a CSV file is written."""

    def refuse_dialect(self) -> None:
        """Invalid where one is named, for bodies of other formats."""
        reject(
            Flaw(pointer(name), f"{name!r} is for {CSV} alone")
            for name in DIALECT_FIELDS
            if name in self.model_fields_set
        )


def _split(value: Any) -> Any:
    """Several names are separated by commas, or they are a list in JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value) if value.startswith("[") else value.split(",")
    except orjson.JSONDecodeError as error:
        raise ValueError(
            "send names separated by commas, or a list of them as JSON"
        ) from error


class TableFields(DialectFields):
    """Query parameters beside a table: how it is to be read, and which of its columns come back."""

    id: Text | None = Field(
        default=None, description="the column that comes back as `ids`"
    )
    keep: Annotated[Names, Field(max_length=_MAX_KEPT), BeforeValidator(_split)] = (
        Field(
            default=[],
            description="more columns, which come back under `kept`; separated by commas",
        )
    )

    @property
    def carried_names(self) -> list[str]:
        """All columns that come back, once each."""
        return list(
            dict.fromkeys([*([] if self.id is None else [self.id]), *self.keep])
        )


class Sheet(NamedTuple):
    """The body of a table, which is read once it is known which of its columns are numbers."""

    kind: str
    body: bytes
    fields: TableFields
    charge: Charge

    def rows(self, schema: Schema, names: Collection[str] = ()) -> Rows:
        """The rows for a model, with the columns `names`."""
        # pyarrow takes 40 MB.
        from app.api.codecs.columns import rows_of_sheet  # noqa: PLC0415

        return rows_of_sheet(self, schema, names)


async def unpacked(
    request: Request, kind: str, body: bytes, max_rows: int | None = None
) -> tuple[str, bytes]:
    """The media type and the body, of a Parquet file as an Arrow stream.

    A process converts the file, and is killed where it takes too long or too much memory. TooLarge
    where the footer states more than `max_rows`.
    """
    if kind != PARQUET:
        return kind, body
    charge = charge_of(request)
    stores: Stores = request.app.state.service.stores
    try:
        stream = await run_while_connected(
            request,
            stores.datasets.arrow_of_parquet,
            body,
            charge,
            max_rows,
        )
    except Invalid as error:  # the body itself is the file
        raise Invalid(
            error.detail,
            [Flaw(flaw.loc.removeprefix(FILE), flaw.msg) for flaw in error.flaws],
        ) from error
    return ARROW, stream
