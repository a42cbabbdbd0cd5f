"""The outermost layer of every request: an id, a log line, the metrics, and a response to unexpected errors."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import tracing
from app.api.errors import in_form, problem
from app.api.middleware.security_headers import secured
from app.logs import write_request
from app.metrics import RequestMetrics

_log = structlog.get_logger("payoff.request")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PROCESS = secrets.token_hex(4)  # ids need to be unique, not secret, and random bytes are a system call each
_numbers = count(1)


def _name_process() -> None:
    global _PROCESS  # noqa: PLW0603 - of this process
    _PROCESS = secrets.token_hex(4)


os.register_at_fork(after_in_child=_name_process)
_DECISION = "/outcomes/"  # an id follows
CLIENT_GONE = 499  # the client disconnected before the response; logged only


class Record(NamedTuple):
    """Counts a request that was answered, and writes its line."""

    metrics: RequestMetrics
    access_log: bool
    traced: bool = False
    write: Callable[[dict[str, Any]], None] = write_request

    def __call__(self, scope: Scope, route: str, request_id: str, status: int, seconds: float) -> None:
        self.metrics.count(scope["method"], route, status, seconds)
        if self.access_log:
            line = {"request_id": request_id, "method": scope["method"], "path": told_path(scope["path"])}
            line["status"] = status
            line["ms"] = round(seconds * 1e3, 3)
            if self.traced:
                line["trace_id"] = tracing.trace_id()
            self.write(line)


class Observe:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, *, access_log: bool, traced: bool = False) -> None:
        self._app = app
        self._record = Record(metrics, access_log, traced)
        self._traced = traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        request_id = request_id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        header = (b"x-request-id", request_id.encode())
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._traced:  # before the answer's end, which ends the span
                    path = told_path(scope["path"])
                    tracing.describe(scope["method"], _route(scope), path, bool(scope["query_string"]), request_id)
                headers = [*message["headers"], header, *scope["state"].get("headers", ())]
                message["headers"] = secured(headers)
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = status or CLIENT_GONE
        except Exception:
            _log.exception("unexpected error")
            if status:
                raise  # the answer has begun: all that is left is to break the connection off
            response = problem(500, "Internal Server Error", f"unexpected error; see the log for request {request_id}")
            await in_form(scope, response)(scope, receive, send_with_id)
        finally:
            self._record(scope, _route(scope), request_id, status or CLIENT_GONE, perf_counter() - began)
            structlog.contextvars.clear_contextvars()


def _route(scope: Scope) -> str:
    """The template of the request's path, of which there are few."""
    return getattr(scope.get("route"), "path", "unmatched")


def told_path(path: str) -> str:
    """The path as logs and traces have it: without the id of a decision, which may tell of a person."""
    return path[: path.index(_DECISION) + len(_DECISION)] + "{id}" if _DECISION in path else path


def request_id_of(scope: Scope) -> str:
    """The id that the request brings where it is one, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return new_request_id()


def new_request_id() -> str:
    """An id that no other request has."""
    return f"{_PROCESS}{next(_numbers):08x}"
