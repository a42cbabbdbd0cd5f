"""What the routes' wire types share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.types import Receive, Scope, Send

from app.api.errors import flaws_of
from app.api.permits import GuardedRoute
from app.errors import Invalid, Unsupported
from app.text import MOST_NAME, check_document

JSON = "application/json"
_MOST_FIELDS = 100  # of an object whose fields are named in the documentation

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="lower-case letters, digits, _ and -")]
Text = Annotated[str, Field(max_length=MOST_NAME)]  # an action, class or feature, or a reference to a model or data set

_Form = TypeVar("_Form", bound=BaseModel)


class WireModel(BaseModel):
    """A document on the wire: unknown fields are refused, and NaN or Infinity neither come in nor go out."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, sent: Any) -> Any:
        """Millions of unknown fields would each be worded as an error."""
        if isinstance(sent, dict) and len(sent) > _MOST_FIELDS:
            raise ValueError(f"an object of {len(sent)} fields; this one takes {', '.join(cls.model_fields)}")
        return sent


class ModelVersion(BaseModel):
    """A published version of a model."""

    name: str
    version: int


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Parse strictly: the standard library would let NaN and Infinity in."""
        if not hasattr(self, "_json"):
            self._json = parsed(await self.body())
        return self._json


class StrictRoute(GuardedRoute):
    """A route whose JSON body is what RFC 8259 says, no more."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            request = _StrictRequest(request.scope, request.receive)
            if self.body_field is not None and request.headers.get("content-type", "").startswith(JSON):
                await request.json()  # FastAPI would hide what it raises
            return await handle(request)

        return strict


class DirectRoute(GuardedRoute):
    """A documented route whose function is given the request itself: no dependency injection on the way."""

    def __init__(self, path: str, endpoint: Callable[[Request], Awaitable[Response]], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def direct(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = direct


def checked(form: type[_Form], fields: Any) -> _Form:
    """The fields as `form`; Invalid with every place that does not fit."""
    try:
        return form.model_validate(fields)
    except ValidationError as error:
        flaws = flaws_of(error.errors(include_url=False, include_context=False, include_input=False), fields)
        raise Invalid(flaws[0].msg, flaws) from error


def parsed(body: bytes) -> Any:
    """The body's JSON; Invalid where it is none, or where text in it holds control characters."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid.at("", f"this is not JSON: {error}") from error
    check_document(document, body)
    return document


def kind_of_body(request: Request, others: Collection[str]) -> str:
    """The media type of the body, JSON where none is named; Unsupported where it is neither that nor of `others`."""
    kind = str(request.headers.get("content-type", JSON)).partition(";")[0].strip().lower()
    if kind == JSON or kind in others:
        return kind
    if kind.startswith("application/") and kind.endswith("+json"):
        return JSON
    raise Unsupported(f"the body comes as {kind[:80]!r}; send {', '.join((JSON, *others))}, and say so in Content-Type")


def kind_of_answer(request: Request, known: Collection[str]) -> str:
    """The media type in `Accept` that is among the `known` and wanted most, JSON where none is."""
    accept = request.headers.get("accept", "*/*")
    if accept in ("*/*", JSON):  # nearly always, and then nothing is to be weighed
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


def query_fields(request: Request, words: Collection[str]) -> dict[str, Any]:
    """The query parameters, each parsed as JSON where it is JSON, else, and for `words`, the string it is."""
    fields: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name in fields:
            raise Invalid.at(f"/{name}", "this query parameter is given twice")
        try:
            fields[name] = text if name in words else orjson.loads(text)
        except orjson.JSONDecodeError:
            fields[name] = text
    return fields
