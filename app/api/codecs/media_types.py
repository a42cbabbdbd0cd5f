"""Media types of requests and answers, and which of them a request has and wants."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import Request

from app.errors import Unsupported

JSON = "application/json"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
GZIP = "application/gzip"
BINARY = "application/octet-stream"
FORM = "multipart/form-data"
SVG = "image/svg+xml"
TABULAR = (ARROW, CSV, PARQUET)


def media_type_of_body(request: Request, others: Collection[str] = ()) -> str:
    """The media type of the body, JSON where none is named; Unsupported where it is neither that nor of `others`."""
    kind = str(request.headers.get("content-type", JSON)).partition(";")[0].strip().lower()
    if kind == JSON or kind in others:
        return kind
    if kind.startswith("application/") and kind.endswith("+json"):
        return JSON
    raise Unsupported(f"the body comes as {kind[:80]!r}; send {', '.join((JSON, *others))}, and say so in Content-Type")


def media_type_of_answer(request: Request, known: Collection[str]) -> str:
    """The media type in `Accept` that is among the `known` and wanted most, JSON where none is."""
    accept = request.headers.get("accept", "*/*")
    if accept in ("*/*", JSON):  # nearly always, and then there is no preference to evaluate
        return JSON
    best, most = JSON, 0.0
    for wanted in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in wanted.split(";"))
        weight = next((_weight(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
        if kind in known and weight > most:
            best, most = kind, weight
    return best


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
