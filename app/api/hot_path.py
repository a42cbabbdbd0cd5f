"""Plain requests to `POST /predict`, answered without the steps that only others need.

What is answered here is what the plain way would answer, byte for byte: some instances and one benefit matrix as JSON,
a model in memory, a caller who may ask, no errors, and no warnings but those that every answer of the model and the
matrix has. For all else there is None, and the request goes the plain way through all layers, as if nothing had
happened: nothing is counted before the answer is certain. The rules for keys and rates are the guard's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import orjson
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import Caller
from app.api.bodies.json_bodies import INLINE_BYTES, INLINE_NUMBERS
from app.api.bodies.media_types import JSON
from app.api.middleware.guard import Guard
from app.api.middleware.memory import SMALL
from app.api.middleware.observe import Record, new_request_id, request_id_of
from app.api.middleware.permits import PREDICT
from app.api.middleware.security_headers import Header, secured
from app.errors import PayoffError
from app.registry.registry import Registry
from app.usecases.plans import Decided, Plan, Prepared

_PATH = "/predict"
_JSON = JSON.encode()
_ACCEPTED = (None, _JSON, b"*/*")
_OTHER_HEADS = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})
_TRIED = "hot_path"  # in the state of a request that goes the plain way
_COMMON = secured([])
_COMMON_LINES = b"".join(b"%b: %b\r\n" % header for header in _COMMON)
_LINES = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\nx-request-id: %b\r\n%b%b\r\n%b"
Head = Mapping[bytes, bytes]
_log = structlog.get_logger("payoff.request")


class Hot(NamedTuple):
    """An answer with status 200: the request's id, the headers about its rate, and its body."""

    request_id: str
    rate: list[Header]
    body: bytes

    def messages(self) -> Iterator[Message]:
        headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", _JSON)]
        headers += [(b"x-request-id", self.request_id.encode()), *self.rate, *_COMMON]
        yield {"type": "http.response.start", "status": 200, "headers": headers}
        yield {"type": "http.response.body", "body": self.body}

    def lines(self, defaults: list[Header]) -> bytes:
        """The same as it goes over the wire, with the server's own headers."""
        return _LINES % (
            lines(defaults),
            len(self.body),
            self.request_id.encode(),
            lines(self.rate),
            _COMMON_LINES,
            self.body,
        )


def lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


class HotLayer:
    """ASGI middleware around all others, for servers that do not ask the hot path themselves."""

    def __init__(self, app: ASGIApp, path: HotPath) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        new = scope["type"] == "http" and not scope.get("state", {}).get(_TRIED)
        head = self._path.plain_head(scope) if new else None
        if head is not None:
            began = perf_counter()
            caller = self._path.caller(scope, head)
            if caller is not None:  # else the answer is an error, for which the body is not read
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body"):
                    hot = self._path.tried(scope, head, caller, message.get("body", b""), began)
                    if hot is not None:
                        for part in hot.messages():
                            await send(part)
                        return
                receive = _after(message, receive)
        await self._app(scope, receive, send)


class HotPath:
    """Answers plain requests; `app.api.middleware.http_protocol` asks it before it starts a task."""

    def __init__(self, guard: Guard, registry: Registry, record: Record) -> None:
        self._guard = guard
        self._registry = registry
        self._record = record
        self._most = min(INLINE_BYTES, guard.most_bytes)

    def plain_head(self, scope: Scope) -> Head | None:
        """The headers of a request that is plain as far as they tell: JSON in and out, a short body, none twice."""
        if scope["path"] != _PATH or scope["method"] != "POST" or scope.get("query_string") or scope.get("root_path"):
            return None
        headers = scope["headers"]
        head = dict(headers)
        length = head.get(b"content-length", b"")
        if len(head) != len(headers) or not length.isdigit() or int(length) > self._most:
            return None
        plain = head.get(b"content-type", _JSON) == _JSON and head.get(b"accept") in _ACCEPTED
        return head if plain and _OTHER_HEADS.isdisjoint(head) else None

    def answer(self, scope: Scope, head: Head, body: bytes) -> Hot | None:
        """The answer to a request with a `plain_head`, None where it has to go the plain way."""
        began = perf_counter()
        scope["state"][_TRIED] = True
        caller = self.caller(scope, head)
        return None if caller is None else self.tried(scope, head, caller, body, began)

    def caller(self, scope: Scope, head: Head) -> Caller | None:
        """Who asks, None where they may not."""
        try:
            caller = self._guard.caller(scope, head)
            caller.need(PREDICT.scopes)
        except PayoffError:
            return None
        return caller

    def tried(self, scope: Scope, head: Head, caller: Caller, body: bytes, began: float) -> Hot | None:
        """The answer to the `caller`, None where the request has to go the plain way."""
        try:
            decided = self._decide(caller, body)
            if decided is None:
                return None
            rate, wait = self._guard.take(caller, scope)
            if wait:
                return None
            content, name, version, count = decided
            request_id = request_id_of(scope) if b"x-request-id" in head else new_request_id()
            self._record.metrics.decided(name, version, count)
            self._record(scope, _PATH, request_id, 200, perf_counter() - began)
        except Exception:  # noqa: BLE001 - the plain way answers it
            _log.exception("unexpected error on the hot path")
            return None
        return Hot(request_id, rate, content)

    def _decide(self, caller: Caller, body: bytes) -> tuple[bytes, str, int, int] | None:
        """The answer's body; the model's name and version, and the number of decisions, to be counted."""
        document = _document(body)
        if document is None or not caller.allows(document["model"]):
            return None
        reference, instances = document["model"], document["instances"]
        model = self._registry.cached(reference)
        if model is None or not (plan := model.once(Plan)).applies:
            return None
        matrix = plan.matrix(model, document["benefits"], document.get("actions"))
        if matrix is None or (len(model.classes) + len(matrix.actions)) * len(instances) > INLINE_NUMBERS:
            return None
        rows = len(instances) * plan.colons if instances and type(instances[0]) is dict else 0
        if body.count(b":") != len(document) + reference.count(":") + matrix.colons + rows:
            return None  # an object has a name twice
        decided = plan.decide(model, instances, matrix, booleans_possible=b"true" in body or b"false" in body)
        written = None if decided is None else _written(matrix, decided)
        return None if written is None or len(written) > SMALL else (written, model.name, model.version, len(instances))


def _document(body: bytes) -> dict[str, Any] | None:
    """The fields of a body that has no others; None, too, where its text may hold what needs a closer look."""
    if b"\\" in body or b"\x7f" in body or b"\xc2" in body:
        return None
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if type(fields) is not dict or len(fields) != 3 + ("actions" in fields) or "benefits" not in fields:
        return None
    known = type(fields.get("model")) is str and type(fields.get("instances")) is list
    return fields if known else None


def _written(matrix: Prepared, decided: Decided) -> bytes:
    columns = {
        "decisions": [matrix.actions[a] for a in decided.choice],
        "probabilities": decided.probabilities,
        "expected_benefits": decided.expected_benefits,
    }
    return b'%b,%b,"warnings":%b}' % (matrix.head, orjson.dumps(columns)[1:-1], matrix.tail)


def _after(message: Message, receive: Receive) -> Receive:
    """The same channel from its beginning, of which `message` was received."""
    first: Message | None = message

    async def replayed() -> Message:
        nonlocal first
        if first is None:
            return await receive()
        message, first = first, None
        return message

    return replayed
