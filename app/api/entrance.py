"""The entrance for short requests to `POST /predict`: decided and answered before any layer is
entered.

It chooses which requests it takes, by their headers and fields; these are decoded, decided and
encoded by the functions of the route. What needs more than these, or is answered with an error,
goes through all layers as if nothing had happened, counted once. The rules for keys and rates are
the gate's.
"""

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple, Self

import numpy as np
import orjson
import structlog
from starlette.types import Message, Receive, Scope, Send

from app.access.caller import Caller, Keyring
from app.answering.decide import (
    PreparedMatrices,
    check_finite,
    decide,
    extent,
    is_short,
)
from app.answering.predict import PredictQuestion
from app.api.bodies import MATRIX_HEADER
from app.api.codecs.answers import Answered, json_of
from app.api.codecs.json import INLINE_BYTES, document_of, json_bytes
from app.api.codecs.media_types import JSON
from app.api.codecs.predict_bodies import body_of_document, question_of
from app.api.exchange import (
    ALWAYS,
    UNLESS_OWN,
    Header,
    Records,
    announced,
    exchange_of,
)
from app.api.gate import PREDICT, Gate
from app.api.memory import SMALL, BodyLimits
from app.monitoring.metrics import RequestMetrics
from app.registry.loaded import Loaded
from app.requests.rows import RowPacker
from app.stores import Stores
from payoff.decisions.benefit import Prepared
from payoff.errors import PayoffError
from payoff.learners.background import DRAWS

HELD_SECONDS = 1.0  # that the rest of a short body may take
PATH = "/predict"
_JSON = JSON.encode()
_ACCEPTED = (None, _JSON, b"*/*")
_OTHER_HEADS = frozenset(
    {b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"}
)
_NUMBER_BYTES = 25  # of the longest float64 in JSON, and a comma
_TYPE = (b"content-type", _JSON)
Head = Mapping[bytes, bytes]
_log = structlog.get_logger("payoff.request")


class Hot(NamedTuple):
    """An answer with status 200: its headers and its body; `Entrance.count` counts it once sent."""

    request_id: str
    headers: list[Header]
    body: bytes
    # the model's name, its version, and how many instances
    decided: tuple[str, int, int]
    began: float

    def lines(self, defaults: list[Header]) -> bytes:
        """The bytes of the response, with the `defaults`, which are the server's own headers."""
        head = b"".join(
            [b"%b: %b\r\n" % header for header in (*defaults, *self.headers)]
        )
        return b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (head, self.body)


class Frame(NamedTuple):
    """The beginning and the end of the JSON of all answers of a model by one matrix alone."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, model: Loaded, matrix: Prepared) -> Self:
        head = {
            "model": model.named,
            "rule": "expected_benefit",
            "classes": model.classes,
            "actions": matrix.actions,
        }
        warnings = [*model.card.warnings, *matrix.warnings]
        return cls(
            json_bytes(head)[:-1] + b",", b"," + json_bytes({"warnings": warnings})[1:]
        )

    def around(
        self, names: list[int | str], P: np.ndarray, expected: np.ndarray
    ) -> bytes:
        """The document that `answers.json_of` makes."""
        columns = {
            "decisions": names,
            "probabilities": P.tolist(),
            "expected_benefits": expected.tolist(),
        }
        # For a few rows lists are faster than arrays.
        return b"%b%b%b" % (self.head, orjson.dumps(columns)[1:-1], self.tail)


class Entrance:
    """Answers short requests: those that the server hands over (`HotProtocol`) before it starts a
    task for them.
    """

    def __init__(
        self,
        stores: Stores,
        keyring: Keyring,
        gate: Gate,
        limits: BodyLimits,
        metrics: RequestMetrics,
        records: Records,
    ) -> None:
        self._stores = stores
        self._keyring = keyring
        self._gate = gate
        self._max_bytes = min(INLINE_BYTES, limits.default)
        self._metrics = metrics
        self._records = records

    def plain_head(self, scope: Scope) -> Head | None:
        """The headers of a request for JSON with a short JSON body; None for all others."""
        if (
            scope["path"] != PATH
            or scope["method"] != "POST"
            or scope.get("query_string")
            or scope.get("root_path")
        ):
            return None
        headers = scope["headers"]
        head = dict(headers)
        length = announced(head.get(b"content-length", b""))
        if len(head) != len(headers) or length is None or length > self._max_bytes:
            return None
        plain = (
            head.get(b"content-type", _JSON) == _JSON
            and head.get(b"accept") in _ACCEPTED
        )
        return head if plain and _OTHER_HEADS.isdisjoint(head) else None

    def answer(self, scope: Scope, head: Head, body: bytes) -> Hot | None:
        """The answer to a request with a `plain_head`; None where it goes through all layers."""
        began = perf_counter()
        exchange = exchange_of(scope)
        exchange.was_at_entrance = True
        try:
            caller = self._keyring.caller_of(scope["method"], head)
            caller.need(PREDICT.scopes)
            if caller.client is None and b"x-forwarded-for" in head:
                return None  # the server reads the address, for which it counts, further in
            rate = [] if caller.rate is None else self._gate.take(caller, scope)
            return self._decided(exchange.request_id, caller, rate, body, began)
        except PayoffError:
            return None
        except Exception:  # noqa: BLE001 - the layers answer it
            _log.exception("unexpected error at the entrance")
            return None

    def _decided(
        self,
        request_id: str,
        caller: Caller,
        rate: list[Header],
        body: bytes,
        began: float,
    ) -> Hot | None:
        """The answer to a request that is decided at once, and not recorded."""
        document = document_of(body)
        reference = document.get("model") if isinstance(document, dict) else None
        if not isinstance(reference, str) or not caller.allows(reference):
            return None
        model = self._stores.registry.cache.get(reference)
        if model is None or model.regression or model.rewarded:
            return None
        predict_body = body_of_document(document, body)
        fields = predict_body.fields
        if fields.record or fields.explore is not None:
            return None
        question = question_of(predict_body, model, self._stores)
        content = _quick_content(model, question) or _content(model, question)
        if content is None or len(content) > SMALL:
            return None
        headers = [
            (b"content-length", b"%d" % len(content)),
            _TYPE,
            (b"x-request-id", request_id.encode()),
        ]
        if question.fields.saved is not None:
            headers.append((MATRIX_HEADER.encode(), question.fields.saved.encode()))
        counted = model.name, model.version, len(question.rows.X)
        return Hot(
            request_id, [*headers, *rate, *ALWAYS, *UNLESS_OWN], content, counted, began
        )

    def count(self, scope: Scope, hot: Hot) -> None:
        """Count an answer, and write its line."""
        name, version, instances = hot.decided
        self._metrics.decisions_of(name, version).inc(instances)
        seconds = perf_counter() - hot.began
        self._records.add(scope, PATH, hot.request_id, 200, seconds)

    async def offer(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Answer a request that the server has not offered yet, as `HotProtocol` does most.

        Returns the `receive` for a request that goes through all layers.
        """
        head = self.plain_head(scope)
        if head is None:
            return receive
        try:
            async with asyncio.timeout(HELD_SECONDS):
                first: Message | None = await receive()
        except TimeoutError:  # the layers limit the time of the body
            first = None
        is_request = first is not None and first["type"] == "http.request"
        if first is not None and is_request and not first.get("more_body", False):
            hot = self.answer(scope, head, first.get("body", b""))
            if hot is not None:
                start = {"type": "http.response.start", "status": 200}
                await send({**start, "headers": hot.headers})
                await send({"type": "http.response.body", "body": hot.body})
                self.count(scope, hot)
                return None

        received = [] if first is None else [first]

        async def receive_again() -> Message:
            return received.pop() if received else await receive()

        return receive_again


def _content(model: Loaded, question: PredictQuestion) -> bytes | None:
    """The JSON of an answer; None where it needs a thread, or would be long."""
    fields, rows, key = question
    numbers = extent(fields, model.classes, len(rows.X))
    # A warning may mean missing values, for which the model is asked several times.
    work = numbers * DRAWS if rows.warnings else numbers
    if not (model.inline and is_short(fields, work)):
        return None
    if numbers * _NUMBER_BYTES > SMALL:
        return None
    return json_of(Answered(decide(model, fields, rows, key), model, rows.carried))


def _quick_content(model: Loaded, question: PredictQuestion) -> bytes | None:
    """The answer as JSON, in a fifth of the time, to a question that need not be recorded.

    None unless the rows are a few within the bounds of training, and one matrix alone decides,
    which decided before.
    """
    fields, rows, key = question
    if not rows.in_bounds or rows.carried.columns:
        return None
    matrix = model.once(PreparedMatrices).by_key.get(key)
    if matrix is None or not fields.is_plain:
        return None
    P = model.once(RowPacker).posterior(rows.X)
    check_finite(P)
    choice, expected = matrix.decide(P)
    frame: Frame | None = matrix.notes.get("frame")
    if frame is None:
        frame = matrix.notes.setdefault("frame", Frame.of(model, matrix))
    return frame.around([matrix.actions[a] for a in choice.tolist()], P, expected)
