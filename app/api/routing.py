"""Routes that take what they document and nothing else, and how their bodies and queries are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any, Literal, TypeVar, cast, get_origin

import orjson
from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app.api.codecs.json import INLINE_BYTES, parsed
from app.api.codecs.media_types import JSON, media_type_of_body
from app.api.errors import flaws_of
from app.api.gate import passage_of
from app.api.guard import GuardedRoute
from app.api.limiters import limiters
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.text import check_document, syntax_error

_AS_IN_JSON = "as in the JSON body; text or JSON"
_LONG_BYTES = 1 << 20  # of a body; a longer one takes tenths of a second

_Body = TypeVar("_Body", bound=BaseModel)
_Result = TypeVar("_Result")


class StrictRoute(GuardedRoute):
    """A route that takes the query parameters and the JSON body that it documents, and nothing else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        parameters = [each for each in get_flat_params(self.dependant) if isinstance(each.field_info, Query)]
        known = [each.alias for each in parameters]
        lists = [each.alias for each in parameters if get_origin(each.field_info.annotation) is list]
        body_type = cast(type[BaseModel], self.body_field.field_info.annotation) if self.body_field else None

        async def strict(request: Request) -> Response:
            refuse_query(request, known, lists)
            if body_type is not None:
                request = _ReadRequest(request, await read(request, body_type))
            return await handle(request)

        return strict


class _ReadRequest(Request):
    """A request whose body was read, parsed and checked before FastAPI asks for it."""

    def __init__(self, read: Request, document: BaseModel) -> None:
        super().__init__(read.scope, read.receive)  # which tells whether the client is still there
        self._document = document

    async def body(self) -> Any:
        return self._document

    async def json(self) -> Any:
        return self._document


class DirectRoute(GuardedRoute):
    """A documented route whose function is given the request itself: no dependency injection on the way.

    `body_type` and `examples` document its JSON body, `others` the media types of the other bodies and answers, and
    `query_type` the query parameters beside these bodies, which stand for the fields of JSON.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        body_type: type[BaseModel] | None = None,
        examples: Mapping[str, Any] | None = None,
        others: Collection[str] = (),
        query_type: type[BaseModel] | None = None,
        **options: Any,
    ) -> None:
        self.body_type = body_type
        if body_type is not None:
            binary = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in others}
            schema = {"$ref": f"#/components/schemas/{body_type.__name__}"}
            shown = {name: {"value": example} for name, example in (examples or {}).items()}
            content = {JSON: {"schema": schema, "examples": shown}, **binary}
            options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
            if query_type is not None:
                options["openapi_extra"]["parameters"] = list(_parameters(query_type, body_type))
            if binary:
                options["responses"] = {200: {"content": binary}, **options["responses"]}
        super().__init__(path, endpoint, methods=["POST"], **options)

        async def direct(scope: Scope, receive: Receive, send: Send) -> None:
            response: Response = await self.endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = direct


def _parameters(query_type: type[BaseModel], body_type: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """The query parameters that `read_query` takes, as OpenAPI describes them: most are fields of the JSON body."""
    for name, field in query_type.model_fields.items():
        words = _AS_IN_JSON if name in body_type.model_fields else field.description or name
        yield {"name": name, "in": "query", "required": False, "description": words, "schema": {"type": "string"}}


async def read(request: Request, body_type: type[_Body]) -> _Body:
    """The JSON body, checked; raises Unsupported for another media type, and what `parsed` and `checked` raise."""
    media_type_of_body(request)
    body = await request.body()
    return await run(request, pace_of(len(body)), lambda: checked(body_type, parsed(body, passage_of(request).reserve)))


Pace = Literal["now", "in a thread", "long"]
"""Where work is done: on the event loop, in a thread, or in one of the few for long work."""


def pace_of(size: int) -> Pace:
    """Where a body of so many bytes is read."""
    return "now" if size <= INLINE_BYTES else "in a thread" if size <= _LONG_BYTES else "long"


async def run(request: Request, pace: Pace, work: Callable[[], _Result]) -> _Result:
    """What `work` returns."""
    if pace == "now":
        return work()
    return await (run_in_threadpool(work) if pace == "in a thread" else limiters(request).long.run(work))


def checked(body_type: type[_Body], fields: Any) -> _Body:
    """The fields as `body_type`; Invalid with every place that does not fit."""
    try:
        return body_type.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise Invalid.of(flaws_of(details, fields)) from error


def refuse_query(request: Request, known: Collection[str] = (), lists: Collection[str] = ()) -> None:
    """Invalid with the name of each query parameter that is not `known`, or comes twice and is not in `lists`."""
    if not request.scope["query_string"]:
        return
    counts = Counter(name for name, _ in request.query_params.multi_items())
    reject(
        Flaw(
            pointer(name),
            "this query parameter is given twice" if name in known else unknown("query parameter", name, known),
        )
        for name, count in counts.items()
        if name not in known or (count > 1 and name not in lists)
    )


def refuse_query_of_json(request: Request, others: Collection[str]) -> None:
    """Invalid with the name of each query parameter; `others` go with bodies that are not JSON."""
    known = "a JSON body has this field itself; beside another body, name its format in Content-Type"
    reject(
        Flaw(pointer(name), known if name in others else unknown("query parameter", name, others))
        for name in (request.query_params if request.scope["query_string"] else ())
    )


def read_query(request: Request, body_type: type[_Body], text_fields: Collection[str]) -> _Body:
    """The query parameters, each parsed as JSON where it is JSON; the others, and `text_fields`, are text."""
    refuse_query(request, body_type.model_fields)
    texts = request.query_params.items()
    return checked(body_type, {name: text if name in text_fields else parsed_text(name, text) for name, text in texts})


def parsed_text(name: str, text: str) -> Any:
    """The value of a field that comes as text: parsed where it is JSON, else the text; Invalid below `/name`, also
    where a list or an object is begun that is not JSON.
    """
    written = text.encode()
    try:
        value = orjson.loads(written)
        check_document(value, written)
    except orjson.JSONDecodeError as error:
        if text.startswith(("[", "{")):
            raise Invalid.at(pointer(name), f"{name!r} is not JSON: {syntax_error(error)}") from error
        return text
    except Invalid as error:
        raise error.under(pointer(name)) from error
    return value
