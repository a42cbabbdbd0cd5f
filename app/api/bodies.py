"""How bodies and queries are read, and in which media type a request is answered."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ValidationError

from app.api.codecs import binary_tensors
from app.api.codecs.json import parsed, refused_texts, syntax_error
from app.api.codecs.media_types import JSON
from app.api.exchange import charge_of
from app.api.limiters import pace_of, run
from app.errors import Unsupported
from app.requests.matrices import MatrixFields
from payoff.errors import Flaw, Invalid, below, flaws_of, pointer, reject, unknown_at

MATRIX_HEADER: Final = "payoff-matrix"  # of the answer
_MAX_SHOWN = 60  # characters of a media type that an error repeats
_Body = TypeVar("_Body", bound=BaseModel)


def media_type_of_body(request: Request, supported: Collection[str] = ()) -> str:
    """The media type of the body, JSON without one; Unsupported where it is neither JSON nor one of
    `supported`.
    """
    kind = (
        str(request.headers.get("content-type", JSON)).partition(";")[0].strip().lower()
    )
    if kind == JSON or kind in supported:
        return kind
    if kind.startswith("application/") and kind.endswith("+json"):
        return JSON
    raise unsupported(kind, (JSON, *supported))


def unsupported(kind: str, supported: Collection[str]) -> Unsupported:
    """The error for a body in a media type that is not supported."""
    problem = "the body comes without a Content-Type"
    if kind:
        problem = f"the body comes as {kind[:_MAX_SHOWN]!r}"
    if kind == "application/x-www-form-urlencoded":
        problem += ", which curl -d sends, joining the lines of a file; use --data-binary @file"
    return Unsupported(
        f"{problem}; send {', '.join(supported)}, and say so in Content-Type"
    )


def media_type_of_answer(request: Request, supported: Collection[str]) -> str:
    """The supported media type that `Accept` prefers, JSON where it has none of them."""
    accept = request.headers.get("accept", "*/*")
    if accept in (
        "*/*",
        JSON,
    ):  # nearly always, and then there is no preference to evaluate
        return JSON
    best = JSON
    best_weight = 0.0
    for media_range in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in media_range.split(";"))
        weight = next(
            (_weight(part[2:]) for part in parameters if part.startswith("q=")), 1.0
        )
        if kind in supported and weight > best_weight:
            best = kind
            best_weight = weight
    return best


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


async def read(request: Request, body_type: type[_Body]) -> _Body:
    """The JSON body, checked; Unsupported for another media type, and the errors of `parsed` and
    `checked`.
    """
    length = request.headers.get(binary_tensors.HEADER)
    if length is not None and not issubclass(body_type, binary_tensors.TensorBody):
        raise Unsupported("only tensors of /v2 come as binary data")
    media_type_of_body(request, () if length is None else (binary_tensors.OCTETS,))
    body = await request.body()
    charge = charge_of(request)

    def document() -> Any:
        if length is None:
            return parsed(body, charge)
        return binary_tensors.document_of(body, length, charge)

    return await run(
        request, pace_of(len(body)), lambda: checked(body_type, document())
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
    """Invalid with the name of each query parameter that is not `known`, or comes twice and is not
    in `lists`.
    """
    counts = Counter(name for name, _ in request.query_params.multi_items())
    reject(_query_flaws(counts, known, lists))


def _query_flaws(
    counts: Mapping[str, int], known: Collection[str], lists: Collection[str]
) -> Iterator[Flaw]:
    for name, count in counts.items():
        if name not in known:
            yield unknown_at(pointer(name), "query parameter", name, known)
        elif count > 1 and name not in lists:
            yield Flaw(pointer(name), "this query parameter is given twice")


def read_query(
    request: Request, body_type: type[_Body], text_fields: Collection[str]
) -> _Body:
    """The query parameters as `body_type`: each is parsed where it is JSON, and text otherwise;
    `text_fields` are text.
    """
    refuse_query(request, body_type.model_fields)
    fields = {
        name: text if name in text_fields else parsed_text(name, text)
        for name, text in request.query_params.items()
    }
    return checked(body_type, fields)


def parsed_text(name: str, text: str) -> Any:
    """The value of a field that comes as text: parsed where it is JSON, else the text; Invalid
    below `/name`, also where a list or an object is begun that is not JSON.
    """
    content = text.encode()
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if text.startswith(("[", "{")):
            message = f"{name!r} is not JSON: {syntax_error(error)}"
            raise Invalid.at(pointer(name), message) from error
        return text
    with below(pointer(name)):
        reject(refused_texts(value))
    return value


def with_matrix(response: Response, fields: MatrixFields) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if fields.saved is not None:
        response.headers[MATRIX_HEADER] = fields.saved
    return response
