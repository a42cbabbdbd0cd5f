"""The kinds of learner as a JSON schema, made from the catalogue so that the documentation cannot lag behind."""

from __future__ import annotations

from typing import Any

from app.learners.catalogue import KINDS, Kind
from app.learners.parameters import Parameter

_TYPES: dict[str, list[str]] = {
    "number": ["number"],
    "integer": ["integer"],
    "boolean": ["boolean"],
    "choice": ["string"],
    "label": ["integer", "string"],
    "amount": ["string", "number", "integer"],
    "learner": ["object"],
}


def learner_schema() -> dict[str, Any]:
    """One object schema per kind."""
    return {"oneOf": [_kind_schema(kind) for kind in KINDS.values()]}


def _kind_schema(kind: Kind) -> dict[str, Any]:
    properties = {"kind": {"const": kind.name}}
    properties |= {parameter.name: _parameter_schema(parameter) for parameter in kind.parameters}
    return {
        "type": "object",
        "title": kind.name,
        "description": kind.doc,
        "properties": properties,
        "required": ["kind"],
        "additionalProperties": False,
    }


def _parameter_schema(parameter: Parameter) -> dict[str, Any]:
    types = [*_TYPES[parameter.type], *(["null"] if parameter.optional else [])]
    schema: dict[str, Any] = {
        "type": types if len(types) > 1 else types[0],
        "description": parameter.doc,
        "default": parameter.default,
    }
    if parameter.type == "learner":
        del schema["type"]  # generators of clients fail at an object within these alternatives, and at a reference
    if parameter.type == "amount":
        del schema["type"]
        amounts = [{"enum": list(parameter.choices)}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]
        schema["anyOf"] = [
            *amounts,
            {"type": "integer", "minimum": 1},
            *([{"type": "null"}] if parameter.optional else []),
        ]
    if parameter.type == "choice":
        schema["enum"] = [*parameter.choices, *([None] if parameter.optional else [])]
    if parameter.low is not None:
        schema["exclusiveMinimum" if parameter.above_low else "minimum"] = parameter.low
    if parameter.high is not None:
        schema["maximum"] = parameter.high
    if parameter.choices and parameter.type in ("integer", "number"):
        bounds = {
            name: schema.pop(name) for name in ("type", "minimum", "exclusiveMinimum", "maximum") if name in schema
        }
        schema["anyOf"] = [{"enum": list(parameter.choices)}, bounds]
    return schema
