"""How bodies and queries are read, and in which media type a request is answered."""

from collections import Counter
from collections.abc import Collection
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.api.codecs.json import check_document, parsed, syntax_error
from app.api.codecs.media_types import JSON
from app.api.gate import charge_of
from app.api.limiters import pace_of, run
from app.errors import Unsupported
from payoff.errors import Flaw, Invalid, below, flaws_of, pointer, reject, unknown_at

_Body = TypeVar("_Body", bound=BaseModel)


def media_type_of_body(request: Request, others: Collection[str] = ()) -> str:
    """The media type of the body, JSON where none is named; Unsupported where it is neither that nor of `others`."""
    kind = str(request.headers.get("content-type", JSON)).partition(";")[0].strip().lower()
    if kind == JSON or kind in others:
        return kind
    if kind.startswith("application/") and kind.endswith("+json"):
        return JSON
    raise unsupported(kind, (JSON, *others))


def unsupported(kind: str, known: Collection[str]) -> Unsupported:
    """The error that a body comes in a media type that is none of the `known` ones."""
    arrived = (
        f"the body comes as {kind[:60]!r}" if kind else "the body comes without a Content-Type"
    )
    if kind == "application/x-www-form-urlencoded":
        arrived += ", which curl -d sends, joining the lines of a file; use --data-binary @file"
    return Unsupported(f"{arrived}; send {', '.join(known)}, and say so in Content-Type")


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


async def read(request: Request, body_type: type[_Body]) -> _Body:
    """The JSON body, checked; raises Unsupported for another media type, and what `parsed` and `checked` raise."""
    media_type_of_body(request)
    if "Inference-Header-Content-Length" in request.headers:  # after so many bytes the JSON ends
        raise Unsupported(
            "binary data are not supported; send 'data' as JSON (in Triton's client binary_data=False)"
        )
    body = await request.body()
    return await run(
        request, pace_of(len(body)), lambda: checked(body_type, parsed(body, charge_of(request)))
    )


def checked(body_type: type[_Body], fields: Any) -> _Body:
    """The fields as `body_type`; Invalid with every place that does not fit."""
    try:
        return body_type.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise Invalid.of(flaws_of(details, fields)) from error


def refuse_query(
    request: Request, known: Collection[str] = (), lists: Collection[str] = ()
) -> None:
    """Invalid with the name of each query parameter that is not `known`, or comes twice and is not in `lists`."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    reject(
        Flaw(pointer(name), "this query parameter is given twice")
        if name in known
        else unknown_at(pointer(name), "query parameter", name, known)
        for name, count in counts.items()
        if name not in known or (count > 1 and name not in lists)
    )


def read_query(request: Request, body_type: type[_Body], text_fields: Collection[str]) -> _Body:
    """The query parameters, each parsed as JSON where it is JSON; the others, and `text_fields`, are text."""
    refuse_query(request, body_type.model_fields)
    texts = request.query_params.items()
    return checked(
        body_type,
        {name: text if name in text_fields else parsed_text(name, text) for name, text in texts},
    )


def parsed_text(name: str, text: str) -> Any:
    """The value of a field that comes as text: parsed where it is JSON, else the text; Invalid below `/name`, also
    where a list or an object is begun that is not JSON.
    """
    written = text.encode()
    try:
        value = orjson.loads(written)
    except orjson.JSONDecodeError as error:
        if text.startswith(("[", "{")):
            raise Invalid.at(
                pointer(name), f"{name!r} is not JSON: {syntax_error(error)}"
            ) from error
        return text
    with below(pointer(name)):
        check_document(value, written)
    return value
