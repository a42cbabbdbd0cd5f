"""Answers of the Open Inference Protocol v2: outputs as JSON or, where it is wanted, as binary data after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from fastapi import Response

from app.api.codecs.carried import NOTHING, Carried
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import BINARY, JSON
from app.api.codecs.tensors import BYTES, OutputDocument
from app.errors import Flaw, pointer, reject, unknown
from app.registry.loaded import Loaded
from app.usecases.predict import Answer

HEADER_LENGTH = "Inference-Header-Content-Length"
_NO_MATRIX = "no benefits were sent: the decisions are the most probable classes"


@dataclass(frozen=True)
class OutputsAsked:
    """What the answer shall hold: all outputs where none are named; `binary` is the form of those that name none.

    `no_matrix`: the request had neither a matrix nor a rule.
    """

    id: str | None
    outputs: Sequence[OutputDocument] | None
    binary: bool
    no_matrix: bool

    def decisions(self, answer: Answer, model: Loaded | None, carried: Carried = NOTHING) -> Response:
        """Decisions, probabilities and, with a matrix, expected benefits; the rest is in `parameters`."""
        assert model is not None
        words = _Words(answer.choice, [str(name) for name in answer.actions])
        found: dict[str, np.ndarray | _Words] = {"decisions": words, "probabilities": answer.probabilities}
        if answer.expected_benefits is not None:
            found["expected_benefits"] = answer.expected_benefits
        rest = {
            **carried.document(),
            "rule": answer.rule,
            "classes": answer.classes,
            "actions": answer.actions,
            **answer.figures,
            **({} if answer.propensities is None else {"propensities": answer.propensities}),
            **({} if answer.explanations is None else {"explanations": answer.explanations}),
        }
        return self._answer(model, found, rest, [*answer.warnings, *([_NO_MATRIX] if self.no_matrix else [])])

    def values(
        self, values: np.ndarray, model: Loaded, warnings: Sequence[str], _carried: Carried = NOTHING
    ) -> Response:
        """The output `values` of a model of numbers."""
        return self._answer(model, {"values": values}, {}, warnings)

    def _answer(self, model: Loaded, found: dict[str, Any], rest: dict[str, Any], warnings: Sequence[str]) -> Response:
        names = list(found) if not self.outputs else [wanted.name for wanted in self.outputs]
        reject(
            Flaw(pointer("outputs", number, "name"), unknown("output", name, found))
            for number, name in enumerate(names)
            if name not in found
        )
        blocks: list[bytes] = []
        forms = self._forms(len(names))
        outputs = [_output(name, found[name], blocks, form) for name, form in zip(names, forms, strict=True)]
        document = {
            "model_name": model.name,
            "model_version": str(model.version),
            **({} if self.id is None else {"id": self.id}),
            "parameters": {name: _scalar(value) for name, value in {**rest, "warnings": warnings}.items()},
        }
        content = b'%b,"outputs":[%b]}' % (orjson.dumps(document)[:-1], b",".join(outputs))
        if not any(forms):
            return Response(content, media_type=JSON)
        return Response(b"".join((content, *blocks)), media_type=BINARY, headers={HEADER_LENGTH: str(len(content))})

    def _forms(self, count: int) -> list[bool]:
        """For each output whether it comes as binary data."""
        if not self.outputs:
            return [self.binary] * count
        asked = [wanted.parameters.binary_data if wanted.parameters else None for wanted in self.outputs]
        return [self.binary if binary is None else binary for binary in asked]


@dataclass(frozen=True)
class _Words:
    """One of the `names` for each row."""

    choice: np.ndarray
    names: Sequence[str]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.choice.shape

    def texts(self) -> list[str]:
        return list(map(self.names.__getitem__, self.choice.tolist()))

    def tobytes(self) -> bytes:
        encoded = [name.encode() for name in self.names]
        elements = [len(name).to_bytes(4, "little") + name for name in encoded]
        return b"".join(map(elements.__getitem__, self.choice.tolist()))


def _output(name: str, values: np.ndarray | _Words, blocks: list[bytes], is_binary: bool) -> bytes:
    """The output as the answer describes it, as JSON: with its data, or with their size and the data in `blocks`."""
    datatype = BYTES if isinstance(values, _Words) else "FP64"
    described: dict[str, Any] = {"name": name, "datatype": datatype, "shape": values.shape}
    if not is_binary:
        return json_bytes(described | {"data": values.texts() if isinstance(values, _Words) else np.ravel(values)})
    blocks.append(values.tobytes())
    return json_bytes(described | {"parameters": {"binary_data_size": len(blocks[-1])}})


def _scalar(value: Any) -> Any:
    """A parameter of the protocol is a number, a boolean or a text: other values are JSON text."""
    if isinstance(value, str | int | float):
        return value
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
