"""The outermost layer of every request: an id, a log line, the metrics, and a response to unexpected errors."""

from __future__ import annotations

import re
import secrets
from itertools import count
from time import perf_counter

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
_CLIENT_GONE = 499  # the client disconnected before the response; logged only


class Observe:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, *, access_log: bool, traced: bool = False) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log
        self._traced = traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        header = (b"x-request-id", request_id.encode())
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._traced:  # before the answer's end, which ends the span
                    tracing.describe(scope["method"], _route(scope), bool(scope["query_string"]), request_id)
                headers = [*message["headers"], header, *scope["state"].get("headers", ())]
                message["headers"] = secured(headers)
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = status or _CLIENT_GONE
        except Exception:
            _log.exception("unexpected error")
            if status:
                raise  # the answer has begun: all that is left is to break the connection off
            response = problem(500, "Internal Server Error", f"unexpected error; see the log for request {request_id}")
            await in_form(scope, response)(scope, receive, send_with_id)
        finally:
            self._record(scope, status or _CLIENT_GONE, perf_counter() - began)
            structlog.contextvars.clear_contextvars()

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.count(scope["method"], _route(scope), status, seconds)
        if self._access_log:
            write_request(
                request_id=scope["state"]["request_id"],
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1e3, 3),
                **({"trace_id": tracing.trace_id()} if self._traced else {}),
            )


def _route(scope: Scope) -> str:
    """The template of the request's path, of which there are few."""
    return getattr(scope.get("route"), "path", "unmatched")


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{_PROCESS}{next(_numbers):08x}"
