"""Plain requests to `POST /predict`, answered without the steps that only others need.

The route asks here first. What is answered is what the route would answer, byte for byte: some instances and one
benefit matrix as JSON, a model in memory, no errors, and no warnings but those that every answer of the model and the
matrix has. For all else there is None, and the route goes on; nothing is counted before the answer is certain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response

from app.api.bodies.json_bodies import INLINE_BYTES, INLINE_NUMBERS
from app.api.bodies.media_types import JSON
from app.api.deps import cached
from app.errors import PayoffError
from app.registry.loaded import Loaded
from app.usecases.plans import Plan, Prepared, decide_plainly

_NEEDED = frozenset({"model", "instances", "benefits"})
_FIELDS = _NEEDED | {"actions"}
_JSON = JSON.encode()
_ACCEPTED = (_JSON, b"*/*")


class _Answer(Response):
    """A JSON body with its two headers, as `Response` would write them."""

    def __init__(self, body: bytes) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", _JSON)]


def is_plain(request: Request) -> bool:
    """Whether a request and its answer are JSON, without query parameters, as far as its head tells."""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            if value != _JSON:
                return False
        elif name == b"accept" and value not in _ACCEPTED:
            return False
    return not request.scope["query_string"]


def answer(request: Request, body: bytes) -> Response | None:
    """The answer to a request that `is_plain`, and whose body is, too; else None. Reads nothing but memory."""
    document = _document(body)
    model = None if document is None else _model(request, document["model"])
    if document is None or model is None:
        return None
    plan, instances = model.once(Plan), document["instances"]
    matrix = plan.matrix(model, document["benefits"], document.get("actions")) if plan.applies else None
    if matrix is None or (len(model.classes) + len(matrix.actions)) * len(instances) > INLINE_NUMBERS:
        return None
    rows = len(instances) * plan.colons if instances and type(instances[0]) is dict else 0
    if body.count(b":") != len(document) + document["model"].count(":") + matrix.colons + rows:
        return None  # an object has a name twice
    decided = decide_plainly(model, instances, matrix, booleans_possible=b"true" in body or b"false" in body)
    if decided is None:
        return None
    request.app.state.metrics.requests.decided(model.name, model.version, len(instances))
    P, (choice, expected) = decided
    return _Answer(_written(matrix, choice, P, expected))


def _document(body: bytes) -> dict[str, Any] | None:
    """The fields of a body that has no others; None, too, where its text may hold what needs a closer look."""
    if len(body) > INLINE_BYTES or b"\\" in body or b"\x7f" in body or b"\xc2" in body:
        return None
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    known = type(fields) is dict and _NEEDED <= fields.keys() <= _FIELDS
    return fields if known and type(fields["instances"]) is list else None


def _model(request: Request, reference: Any) -> Loaded | None:
    """The model in memory; None, too, where the key is not for it."""
    try:
        return cached(request, reference) if type(reference) is str else None
    except PayoffError:
        return None


def _written(matrix: Prepared, choice: np.ndarray, P: np.ndarray, expected: np.ndarray) -> bytes:
    columns = {
        "decisions": [matrix.actions[a] for a in choice.tolist()],
        "probabilities": P,
        "expected_benefits": expected,
    }
    written = orjson.dumps(columns, option=orjson.OPT_SERIALIZE_NUMPY)
    return b'%b,%b,"warnings":%b}' % (matrix.head, written[1:-1], matrix.tail)
