"""Plain requests to `POST /predict`, answered without the steps that only others need.

What is answered here is what the plain way would answer, byte for byte: some instances and one benefit matrix as JSON,
a model in memory, a caller who may ask, no errors, and no warnings but those that every answer of the model and the
matrix has, and nothing to record. For all else there is None, and the request goes the plain way through all layers, as
if nothing had happened: nothing is counted before the answer is certain. The rules for keys and rates are the guard's.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, NamedTuple

import orjson
import structlog
from starlette.types import Scope

from app.access.caller import Caller
from app.api.budget import SMALL, announced
from app.api.codecs.json import INLINE_BYTES
from app.api.codecs.media_types import JSON
from app.api.deps import MATRIX_HEADER
from app.api.gate import Guard, Header, Record, new_request_id, request_id_of, secured
from app.api.permits import PREDICT
from app.errors import PayoffError
from app.usecases.plans import Plan, written
from app.usecases.ports import Ports

_PATH = "/predict"
_JSON = JSON.encode()
_MATRIX = MATRIX_HEADER.encode()
_ACCEPTED = (None, _JSON, b"*/*")
_OTHER_HEADS = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})
_COMMON = secured([])
_LINES = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\nx-request-id: %b\r\n%b%b\r\n%b"
Head = Mapping[bytes, bytes]
_log = structlog.get_logger("payoff.request")


class Hot(NamedTuple):
    """An answer with status 200: the request's id, more headers, and its body; `HotPath.count` counts it once sent."""

    request_id: str
    more: list[Header]
    body: bytes
    decided: tuple[str, int, int]  # the model's name, its version, and how many instances
    began: float

    def lines(self, defaults: list[Header]) -> bytes:
        """It as it goes over the wire, with the server's own headers."""
        identity = self.request_id.encode()
        return _LINES % (_lines(defaults), len(self.body), identity, _lines(self.more), _COMMON_LINES, self.body)


def _lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_COMMON_LINES = _lines(_COMMON)
_Decided = tuple[list[Header], bytes, tuple[str, int, int]]


class HotPath:
    """Answers plain requests; `HotProtocol` asks it before it starts a task."""

    def __init__(self, guard: Guard, ports: Ports, record: Record) -> None:
        self._guard = guard
        self._registry = ports.registry
        self._recorder = ports.recorder
        self._matrices = ports.matrices
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
        caller = self.caller(scope, head)
        return None if caller is None else self.tried(scope, head, caller, body, began)

    def caller(self, scope: Scope, head: Head) -> Caller | None:
        """Who asks, None where they may not, or not now."""
        try:
            caller = self._guard.caller(scope, head)
            caller.need(PREDICT.scopes)
        except PayoffError:
            return None
        if caller.client is None and b"x-forwarded-for" in head:
            return None  # the server reads the address, for which it counts, on the plain way
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
            named, answer, counted = decided
            hot = Hot(request_id, named + rate, answer, counted, began)
        except PayoffError:
            return None
        except Exception:  # noqa: BLE001 - the plain way answers it
            _log.exception("unexpected error on the hot path")
            return None
        return hot

    def count(self, scope: Scope, hot: Hot) -> None:
        self._record.metrics.decided(*hot.decided)
        self._record(scope, _PATH, hot.request_id, 200, perf_counter() - hot.began)

    def _decide(self, caller: Caller, body: bytes) -> _Decided | None:
        """Headers, the answer's body, and what is to be counted."""
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
        if document.get("record", self._recorder.defaults.of(model.name) is not None) is not False:
            return None
        booleans = body.count(b"false") > ("record" in document) or b"true" in body
        decided = plan.decide(model, instances, matrix, booleans_possible=booleans)
        if decided is None:
            return None
        answer = written(matrix, decided)
        named = [] if saved is None else [(_MATRIX, saved.reference.encode())]
        counted = model.name, model.version, len(instances)
        return None if len(answer) > SMALL else (named, answer, counted)


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
