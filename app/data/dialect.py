"""How a CSV file is written."""

from __future__ import annotations

from typing import Literal, NamedTuple

Delimiter = Literal[",", ";", "\t", "|"]
Decimal = Literal[".", ","]
Encoding = Literal["utf-8", "utf-16", "latin-1"]


class Dialect(NamedTuple):
    """Spreadsheets and databases write other ones than the default."""

    delimiter: Delimiter = ","
    decimal: Decimal = "."
    encoding: Encoding = "utf-8"
