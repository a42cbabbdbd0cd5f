"""Outcomes of recorded decisions: rows, or a file as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from payoff_client.bodies import query
from payoff_client.dialect import Dialect
from payoff_client.errors import PayoffError, located
from payoff_client.file_parts import in_file, opened
from payoff_client.shapes import COUNTS
from payoff_client.tables import records
from payoff_client.values import Table, whole
from payoff_client.wire import Call, Link, post

_NAMES = ("id", "truth", "action", "benefit", "at")
_WORDS = _NAMES[:3]
_AT_ONCE = 20_000
_PART = 2**18  # bytes; a request has at most 100,000 outcomes, each of three bytes at least


async def send_rows(link: Link, table: Table, *, correct: bool) -> dict[str, Any]:
    """Send objects or a frame; ValueError for a column that outcomes do not have."""
    names = table.names or []
    odd = [name for name in names if name not in _NAMES]
    if odd or "id" not in names:
        reason = f"the column {odd[0]!r} is unknown" if odd else "the column 'id' is missing"
        raise ValueError(f"{reason}; outcomes have the columns {', '.join(_NAMES)}")
    total = _nothing()
    for start in range(0, len(table), _AT_ONCE):
        rows = records(table.part(start, start + _AT_ONCE), names)
        sent = [
            {name: whole(value) if name in _WORDS else value for name, value in row.items() if _is_stated(name, value)}
            for row in rows
        ]
        try:
            answer = await link.document(post("/outcomes", {"outcomes": sent, "correct": correct}), COUNTS)
        except PayoffError as error:
            raise located(error, names, lambda i, start=start: table.label(start + i)) from None  # type: ignore[misc]
        _add(total, answer)
    return total


async def send_file(link: Link, path: Path, dialect: Dialect, *, correct: bool) -> dict[str, Any]:
    """Send a file; the service reads it."""
    total = _nothing()
    with opened(path, dialect, _PART) as (kind, names, parts):
        params = query({"correct": correct, **dialect.of_parts()})
        for part in parts:
            call = Call("POST", "/outcomes", params, part.content, {"Content-Type": kind})
            try:
                _add(total, await link.document(call, COUNTS))
            except PayoffError as error:
                before = sum(value if isinstance(value, int) else len(value) for value in total.values())
                raise in_file(error, names, before) from None
    return total


def _is_stated(name: str, value: Any) -> bool:
    return value is not None or name == "truth"


def _nothing() -> dict[str, Any]:
    return {"accepted": 0, "unchanged": 0, "open": 0, "unknown": [], "conflicts": []}


def _add(total: dict[str, Any], answer: Mapping[str, Any]) -> None:
    total |= {field: total[field] + value if field in COUNTS else value for field, value in answer.items()}
