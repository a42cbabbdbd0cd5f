"""Tables in requests and answers: CSV, Parquet and Arrow streams, in one way on all routes."""

from collections.abc import Collection
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import Request
from pydantic import BeforeValidator, Field

from app.answering.predict import Rows
from app.api.codecs.answers import Carried
from app.api.codecs.media_types import ARROW, CSV, PARQUET
from app.api.codecs.uploads import run_while_connected
from app.api.dependencies import stores_of
from app.api.gate import charge_of
from app.api.memory import Charge
from app.requests.fields import Names, Text
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


class Sheet(NamedTuple):
    """A table as it came, to be read once it is known which of its columns are numbers."""

    kind: str
    body: bytes
    fields: TableFields
    charge: Charge

    def rows(self, schema: Schema, names: Collection[str] = ()) -> tuple[Rows, Carried]:
        """The instances that it has for a model, with the columns `names`, and what comes back with their answer."""
        from app.api.codecs.columns import rows_of_sheet  # noqa: PLC0415 - with pyarrow, which takes 40 MB

        return rows_of_sheet(self, schema, names)


async def unpacked(
    request: Request, kind: str, body: bytes, most_rows: int | None = None
) -> tuple[str, bytes]:
    """A Parquet file as an Arrow stream, by a process that is killed where it takes too much; others as they are.

    TooLarge where its footer states more than `most_rows`.
    """
    if kind != PARQUET:
        return kind, body
    charge = charge_of(request)
    try:
        stream = await run_while_connected(
            request, stores_of(request).datasets.arrow_of_parquet, body, charge, most_rows
        )
    except Invalid as error:  # the body itself is the file
        raise Invalid(
            error.detail, [Flaw(flaw.loc.removeprefix(FILE), flaw.msg) for flaw in error.flaws]
        ) from error
    return ARROW, stream
