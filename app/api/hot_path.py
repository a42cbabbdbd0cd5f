"""Plain requests to `POST /predict`, answered without the steps that only others need.

What is answered here is what the plain way would answer, byte for byte: some instances and one benefit matrix as JSON,
a model in memory, a caller who may ask, no errors, and no warnings but those that every answer of the model and the
matrix has. For all else there is None, and the request goes the plain way through all layers, as if nothing had
happened: nothing is counted before the answer is certain. The rules for keys and rates are the guard's.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import orjson
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import Caller
from app.api.bodies.json_bodies import INLINE_BYTES
from app.api.bodies.matrices import HEADER as MATRIX
from app.api.bodies.media_types import JSON
from app.api.middleware.guard import NOT_RECORDED, TAKEN, Guard
from app.api.middleware.memory import SMALL, announced
from app.api.middleware.observe import Record, new_request_id, request_id_of
from app.api.middleware.permits import PREDICT
from app.api.middleware.security_headers import Header, secured
from app.errors import PayoffError
from app.outcomes.decided import Batch
from app.outcomes.recorder import Done
from app.registry.loaded import Loaded
from app.usecases.plans import Plan, written
from app.usecases.ports import Ports
from app.usecases.predict import Question
from app.usecases.record import Wish, ids_of, plain_batch
from app.usecases.shadow import ShadowDecider

_PATH = "/predict"
_JSON = JSON.encode()
_MATRIX = MATRIX.encode()
_ACCEPTED = (None, _JSON, b"*/*")
_OTHER_HEADS = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})
_TRIED = "hot_path"  # in the state of a request that the server has asked the hot path about: `HotLayer` does not
_COMMON = secured([])
_LINES = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\nx-request-id: %b\r\n%b%b\r\n%b"
Head = Mapping[bytes, bytes]
_RECORDED = frozenset({"ids", "instances"})
_log = structlog.get_logger("payoff.request")


class Hot(NamedTuple):
    """An answer with status 200: the request's id, more headers, and its body.

    Where it has a `batch` it may be sent after these decisions were recorded. `HotPath.count` counts it once sent.
    """

    request_id: str
    more: list[Header]
    body: bytes
    batch: Batch | None
    decided: tuple[str, int, int]  # the model's name, its version, and how many instances
    began: float

    def messages(self) -> Iterator[Message]:
        headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", _JSON)]
        headers += [(b"x-request-id", self.request_id.encode()), *self.more, *_COMMON]
        yield {"type": "http.response.start", "status": 200, "headers": headers}
        yield {"type": "http.response.body", "body": self.body}

    def lines(self, defaults: list[Header]) -> bytes:
        """The same as it goes over the wire, with the server's own headers."""
        identity = self.request_id.encode()
        return _LINES % (_lines(defaults), len(self.body), identity, _lines(self.more), _COMMON_LINES, self.body)


@dataclass(frozen=True)
class _PlainWish(Wish):
    """What a plain request says about recording, the colons in it, and how often the word true."""

    colons: int = 0
    words: int = 0


_NO_WISH = _PlainWish(wanted=False)
_USUAL = tuple(_PlainWish(wanted=True, instances=instances) for instances in (False, True))


def _lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_COMMON_LINES = _lines(_COMMON)
_Decided = tuple[list[Header], bytes, Batch | None, tuple[str, int, int]]


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
                    if hot is not None and await self._path.recorded(scope, hot):
                        for part in hot.messages():
                            await send(part)
                        self._path.count(scope, hot)
                        return
                receive = _after(message, receive)
        await self._app(scope, receive, send)


class HotPath:
    """Answers plain requests; `app.api.middleware.http_protocol` asks it before it starts a task."""

    def __init__(self, guard: Guard, ports: Ports, shadow: ShadowDecider, record: Record) -> None:
        self._guard = guard
        self._registry = ports.registry
        self._recorder = ports.recorder
        self._matrices = ports.matrices
        self._shadow = shadow
        self._record = record
        self._most = min(INLINE_BYTES, guard.most_bytes)

    def plain_head(self, scope: Scope) -> Head | None:
        """The headers of a request that is plain as far as they tell: JSON in and out, a short body, none twice."""
        if scope["path"] != _PATH or scope["method"] != "POST" or scope.get("query_string") or scope.get("root_path"):
            return None
        headers = scope["headers"]
        head = dict(headers)
        length = announced(head.get(b"content-length", b""))
        if len(head) != len(headers) or length is None or length > self._most:
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
        """Who asks, None where they may not, or not now."""
        try:
            caller = self._guard.caller(scope, head)
            caller.need(PREDICT.scopes)
        except PayoffError:
            return None
        return None if self._guard.must_wait(caller, scope) else caller

    def tried(self, scope: Scope, head: Head, caller: Caller, body: bytes, began: float) -> Hot | None:
        """The answer to the `caller`, which `count` counts; None where the request has to go the plain way."""
        try:
            decided = self._decide(caller, body)
            if decided is None:
                return None
            rate, wait = self._guard.take(caller, scope)
            if wait:
                return None
            request_id = request_id_of(scope) if b"x-request-id" in head else new_request_id()
            named, answer, batch, counted = decided
            hot = Hot(request_id, named + rate, answer, batch, counted, began)
            if batch is not None:
                scope.setdefault("state", {})[TAKEN] = rate
        except PayoffError:
            return None
        except Exception:  # noqa: BLE001 - the plain way answers it
            _log.exception("unexpected error on the hot path")
            return None
        return hot

    def count(self, scope: Scope, hot: Hot, status: int = 200) -> None:
        self._record.metrics.decided(*hot.decided)
        self._record(scope, _PATH, hot.request_id, status, perf_counter() - hot.began)

    def submit(self, hot: Hot, loop: AbstractEventLoop, done: Done) -> None:
        """Have `done` called when the decisions of the answer are recorded, or cannot be."""
        assert hot.batch is not None
        self._recorder.submit(hot.batch, loop, done)

    async def recorded(self, scope: Scope, hot: Hot) -> bool:
        """Whether the answer may be sent; if not, the plain way tells why."""
        try:
            if hot.batch is not None:
                await self._recorder.record(hot.batch)
        except Exception as error:  # noqa: BLE001 - the plain way answers it
            self.leave_error(scope, error)
            return False
        return True

    def leave_error(self, scope: Scope, error: BaseException) -> None:
        """Have the plain way answer a request whose decisions could not be recorded, without deciding again."""
        scope["state"][NOT_RECORDED] = error

    def _decide(self, caller: Caller, body: bytes) -> _Decided | None:
        """Headers, the answer's body, what is to be recorded before, and what is to be counted."""
        document = _document(body)
        if document is None or not caller.allows(document["model"]):
            return None
        reference, instances = document["model"], document["instances"]
        model = self._registry.cached(reference)
        if model is None or not (plan := model.once(Plan)).applies:
            return None
        benefits, actions, saved = document["benefits"], document.get("actions"), None
        if type(benefits) is str and actions is None:
            saved = self._matrices.of(model.name).get(benefits)
        matrix = plan.matrix(model, benefits, actions) if saved is None else plan.saved(model, saved)
        if matrix is None or matrix.row_bytes * len(instances) > SMALL:
            return None
        colons = matrix.colons if saved is None else benefits.count(":")
        rows = len(instances) * plan.colons if instances and type(instances[0]) is dict else 0
        wish = self._wish(model, document)
        if wish is None or body.count(b":") != len(document) + reference.count(":") + colons + rows + wish.colons:
            return None  # an object has a name twice
        booleans = b"false" in body or body.count(b"true") > wish.words
        decided = plan.decide(model, instances, matrix, booleans_possible=booleans)
        if decided is None:
            return None
        batch = None
        if wish.wanted:
            ids = ids_of(wish, len(instances))
            batch = plain_batch(model, matrix, decided, ids, caller, instances if wish.instances else None)
            if saved is not None:
                benefits, actions = saved.checked
            question = Question(benefits, None, actions)
            batch = self._shadow.watched(batch, reference, model, question, instances)
        answer = written(matrix, decided, batch)
        named = [] if saved is None else [(_MATRIX, saved.reference.encode())]
        counted = model.name, model.version, len(instances)
        return None if len(answer) > SMALL else (named, answer, batch, counted)

    def _wish(self, model: Loaded, document: dict[str, Any]) -> _PlainWish | None:
        """Whether the request is recorded; None for all that needs a closer look."""
        sent = document.get("record")
        if sent is None and "record" not in document:
            default = self._recorder.defaults.of(model.name)
            return _NO_WISH if default is None else _USUAL[default]
        if sent is True:
            return _PlainWish(wanted=True, words=1)
        if type(sent) is not dict or not sent.keys() <= _RECORDED or type(sent.get("instances", False)) is not bool:
            return None
        ids, instances = sent.get("ids"), sent.get("instances", False)
        try:
            colons = len(sent) + ("" if ids is None else "".join(ids)).count(":")
        except TypeError:
            return None
        return _PlainWish(wanted=True, ids=ids, instances=instances, colons=colons, words=int(instances))


def _document(body: bytes) -> dict[str, Any] | None:
    """The fields of a body that has no others; None, too, where its text may hold what needs a closer look."""
    if b"\\" in body or b"\x7f" in body or b"\xc2" in body:
        return None
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if type(fields) is not dict or len(fields) != 3 + ("actions" in fields) + ("record" in fields):
        return None
    known = "benefits" in fields and type(fields.get("model")) is str and type(fields.get("instances")) is list
    return fields if known else None


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
