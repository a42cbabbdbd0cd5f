"""Errors on the wire: RFC 9457 problem documents, from one table and one handler."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from app import errors
from app.api.codecs.media_types import JSON

_log = structlog.get_logger("payoff")
MEDIA_TYPE = "application/problem+json"
INFERENCE = "/v2"  # below it the Open Inference Protocol is spoken
_MAX_CHARACTERS = 1000  # characters of a message or pointer
_MAX_JOINED = 3  # flaws in a text
_OF_THE_BODY = frozenset({"content-type", "content-length"})

_INVALID = errors.Invalid.status
STATUSES = {kind.status for kind in errors.PayoffError.__subclasses__()} - {500}


class FlawDocument(BaseModel):
    """One place in the request, and how to fix it."""

    loc: str = Field(description="JSON pointer into what was sent", examples=["/instances/3/1"])
    msg: str = Field(description="what is wrong, and what is needed", examples=["'age' takes a number or null"])


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = Field(examples=["urn:payoff:problem:invalid"])
    title: str = Field(examples=["Invalid request"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["'age' takes a number or null"])
    errors: list[FlawDocument] | None = Field(
        default=None, exclude_if=lambda value: value is None, description="for bad input: every place found wrong"
    )
    columns: list[dict[str, Any]] | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="of a refused data set: how it was read",
    )


class InferenceError(BaseModel):
    """What went wrong, in the form of the Open Inference Protocol."""

    error: str = Field(examples=["there is no model 'triage'"])


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route declares in `responses=` for the problems it can answer with; `openapi` describes them."""
    return {status: {} for status in statuses}


def problem(
    status: int,
    title: str,
    detail: str,
    flaws: tuple[errors.Flaw, ...] = (),
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """A problem document, with `more` members, as a response."""
    return Response(orjson.dumps(_document(status, title, detail, flaws) | more), status, headers, MEDIA_TYPE)


def stored_problem(stored: dict[str, Any]) -> dict[str, Any]:
    """The problem document of an error that ended a job, from what the job table has of it (`app.jobs.job.Failure`)."""
    flaws = tuple(errors.Flaw(**flaw) for flaw in stored["errors"])
    return _document(stored["status"], stored["title"], stored["detail"], flaws)


def _document(status: int, title: str, detail: str, flaws: tuple[errors.Flaw, ...]) -> dict[str, Any]:
    """`type` is derived from the title of the status."""
    phrase = HTTPStatus(status).phrase.lower().replace(" ", "-")
    body: dict[str, Any] = {
        "type": f"urn:payoff:problem:{phrase}",
        "title": title,
        "status": status,
        "detail": _cut(detail),
    }
    if flaws:
        body["errors"] = [{"loc": _near(flaw.loc), "msg": _cut(flaw.msg)} for flaw in flaws]
    return body


def _cut(text: str) -> str:
    """Words about what was sent may quote it, whatever its length."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def _near(loc: str) -> str:
    """The pointer, or where that is very long one to the nearest place around it whose pointer is not."""
    while len(loc) > _MAX_CHARACTERS:
        loc = loc.rpartition("/")[0]
    return loc


def respond(error: errors.PayoffError) -> Response:
    """The response for one of our own errors."""
    headers = {401: {"WWW-Authenticate": 'ApiKey realm="payoff"'}, 408: {"Connection": "close"}}.get(error.status)
    if isinstance(error, errors.TooMany | errors.NotReady):
        headers = {"Retry-After": str(error.seconds)}
    more = {"columns": error.columns} if error.columns else {}
    return problem(error.status, error.title, error.detail, error.flaws, headers, **more)


def in_form(scope: Scope, response: Response) -> Response:
    """A problem in the form of the Open Inference Protocol, `{"error": text}`, where the path belongs to it."""
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    if path != INFERENCE and not path.startswith(f"{INFERENCE}/"):
        return response
    document = orjson.loads(bytes(response.body))
    flaws = document.get("errors", [])[:_MAX_JOINED]
    texts = [flaw["msg"] + (f" (at {flaw['loc']})" if flaw["loc"] else "") for flaw in flaws]
    headers = {name: value for name, value in response.headers.items() if name not in _OF_THE_BODY}
    status = 400 if response.status_code == _INVALID else response.status_code
    return Response(orjson.dumps({"error": "; ".join(texts) or document["detail"]}), status, headers, JSON)


def _methods(request: Request) -> set[str]:
    """What the path can be asked with; each of its methods may have a route of its own."""
    found: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] != Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


async def _system(_request: Request, error: Exception) -> Response:
    """503 for what the machine cannot do at the moment; any other error is one of ours."""
    assert isinstance(error, OSError)
    if error.errno in errors.EXHAUSTED:
        _log.error("the process has no more files or memory", error=str(error.strerror))
        return respond(errors.Busy("the service has too many files open, or too little memory; try again later"))
    if error.errno in errors.UNWRITABLE:
        _log.error("the storage failed", error=str(error.strerror))
        return respond(errors.NotReady("the storage cannot be written at the moment; nothing was changed"))
    raise error


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document, or as the protocol of the path has it."""

    def add(kind: type[Exception], handle: Callable[[Request, Exception], Awaitable[Response]]) -> None:
        async def formed(request: Request, error: Exception) -> Response:
            return in_form(request.scope, await handle(request, error))

        app.add_exception_handler(kind, formed)

    async def own(_request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.PayoffError)
        return respond(error)

    async def validation(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()  # about parameters: `routing.read` checks bodies
        return respond(
            errors.Invalid.of(errors.Flaw(errors.pointer(each["loc"][1]), errors.words_of(each)) for each in found)
        )

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        status = _INVALID if error.status_code == 400 else error.status_code  # unreadable bodies count as bad input
        headers = dict(error.headers) if error.headers else {}
        if status == 405:
            headers["Allow"] = ", ".join(sorted(_methods(request)))
        return problem(status, phrase, str(error.detail), (), headers)

    async def too_deep(_request: Request, _error: Exception) -> Response:
        return respond(errors.Invalid.at("", "this is nested too deeply"))

    add(errors.PayoffError, own)
    add(RecursionError, too_deep)
    add(OSError, _system)
    add(RequestValidationError, validation)
    add(HTTPException, http)
