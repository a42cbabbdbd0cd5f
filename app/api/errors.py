"""Errors on the wire: RFC 9457 problem documents, from one table and one function."""

from http import HTTPStatus
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from app import errors
from app.api.codecs.media_types import JSON
from payoff.errors import Flaw, Invalid, PayoffError, pointer, words_of

_log = structlog.get_logger("payoff")
MEDIA_TYPE = "application/problem+json"
INFERENCE = "/v2"  # below it the Open Inference Protocol is spoken
_MAX_CHARACTERS = 1000  # of a message or pointer
_HEADERS = {
    401: {"WWW-Authenticate": 'ApiKey realm="payoff"'},
    408: {"Connection": "close"},
}
_MAX_JOINED = 3  # flaws that are joined into a text
_INVALID = errors.answer_to(Invalid("")).status
# The framework's status of an unreadable body, which counts as invalid input here.
_UNREADABLE = 400


class FlawDocument(BaseModel):
    """One place in the request, and how to fix it."""

    loc: str = Field(
        description="JSON pointer into what was sent", examples=["/instances/3/1"]
    )
    msg: str = Field(
        description="what is wrong, and what is needed",
        examples=["'age' takes a number or null"],
    )


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    type: str = Field(examples=["urn:payoff:problem:invalid"])
    title: str = Field(examples=["Invalid request"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["'age' takes a number or null"])
    errors: list[FlawDocument] | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="for bad input: every place found wrong",
    )
    columns: list[dict[str, Any]] | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="of a refused data set: how it was read",
    )


class InferenceError(BaseModel):
    """An error as the Open Inference Protocol has it."""

    error: str = Field(examples=["there is no model 'triage'"])


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that may answer with these statuses; `openapi` describes them."""
    return {status: {} for status in statuses}


def problem(
    scope: Scope,
    status: int,
    title: str,
    detail: str,
    flaws: tuple[Flaw, ...] = (),
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """A problem document, with `more` members, as a response; below `INFERENCE` an error as that
    protocol has it.
    """
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    if path != INFERENCE and not path.startswith(f"{INFERENCE}/"):
        content = orjson.dumps(_document(status, title, detail, flaws) | more)
        return Response(content, status, headers, MEDIA_TYPE)
    texts = [
        flaw.msg + (f" (at {flaw.loc})" if flaw.loc else "")
        for flaw in flaws[:_MAX_JOINED]
    ]
    document = InferenceError(error=_shortened("; ".join(texts) or detail))
    inference_status = _UNREADABLE if status == _INVALID else status
    return Response(document.model_dump_json(), inference_status, headers, JSON)


def stored_problem(stored: dict[str, Any]) -> dict[str, Any]:
    """The problem document of an error that ended a job, from the `app.jobs.job.Failure` in the job
    table.
    """
    flaws = tuple(Flaw(**flaw) for flaw in stored["errors"])
    return _document(stored["status"], stored["title"], stored["detail"], flaws)


def _document(
    status: int, title: str, detail: str, flaws: tuple[Flaw, ...]
) -> dict[str, Any]:
    """`type` is derived from the title of the status."""
    phrase = HTTPStatus(status).phrase.lower().replace(" ", "-")
    body: dict[str, Any] = {
        "type": f"urn:payoff:problem:{phrase}",
        "title": title,
        "status": status,
        "detail": _shortened(detail),
    }
    if flaws:
        body["errors"] = [
            {"loc": _shortened(flaw.loc), "msg": _shortened(flaw.msg)} for flaw in flaws
        ]
    return body


def _shortened(text: str) -> str:
    """Messages may quote the request, and pointers do, whatever its length."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def response_to(scope: Scope, error: Exception) -> Response | None:
    """The response to an error that has a status; None for an unexpected one."""
    if isinstance(error, HTTPException):
        unreadable = error.status_code == _UNREADABLE
        status = _INVALID if unreadable else error.status_code
        allow = {"Allow": ", ".join(sorted(_methods(scope)))} if status == 405 else {}
        phrase = HTTPStatus(error.status_code).phrase
        headers = {**(error.headers or {}), **allow}
        return problem(scope, status, phrase, str(error.detail), (), headers)
    known_error = _as_known(error)
    if known_error is None:
        return None
    status, title = errors.answer_to(known_error)
    headers_of_status = _HEADERS.get(status)
    if isinstance(known_error, errors.TooMany | errors.NotReady):
        headers_of_status = {"Retry-After": str(known_error.seconds)}
    members = {}
    if isinstance(known_error, errors.InvalidTable) and known_error.columns:
        members["columns"] = known_error.columns
    detail, flaws = known_error.detail, known_error.flaws
    return problem(scope, status, title, detail, flaws, headers_of_status, **members)


def _as_known(error: Exception) -> PayoffError | None:
    """The error as one of the service's, also of the framework or the machine; else None."""
    if isinstance(error, PayoffError):
        return error
    if isinstance(
        error, RequestValidationError
    ):  # about parameters: `routing.read` checks bodies
        return Invalid.of(
            Flaw(pointer(detail["loc"][1]), words_of(detail))
            for detail in error.errors()
        )
    if isinstance(error, RecursionError):
        return Invalid.at("", "this is nested too deeply")
    if isinstance(error, OSError) and error.errno in errors.EXHAUSTED:
        _log.error("the process has no more files or memory", error=str(error.strerror))
        return errors.Busy(
            "the service has too many files open, or too little memory; try again later"
        )
    if isinstance(error, OSError) and error.errno in errors.UNWRITABLE:
        _log.error("the storage failed", error=str(error.strerror))
        return errors.NotReady(
            "the storage cannot be written at the moment; nothing was changed"
        )
    return None


def _methods(scope: Scope) -> set[str]:
    """The methods of the path, each of which may have a route of its own."""
    routes = (
        context.original_route for context in iter_route_contexts(scope["app"].routes)
    )
    matching = (route for route in routes if route.matches(scope)[0] != Match.NONE)
    return {
        method for route in matching for method in getattr(route, "methods", None) or ()
    }


def install(app: FastAPI) -> None:
    """Answer errors of the routes of `app`, also those that the framework would answer itself."""

    async def respond(request: Request, error: Exception) -> Response:
        response = response_to(request.scope, error)
        if response is None:
            raise error
        return response

    for kind in (
        PayoffError,
        HTTPException,
        RequestValidationError,
        RecursionError,
        OSError,
    ):
        app.add_exception_handler(kind, respond)
