"""The OpenAPI document: what FastAPI derives, made true for what the layers around the routes do."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.api.codecs.media_types import JSON
from app.api.errors import INFERENCE, MEDIA_TYPE, STATUS, InferenceError, Problem
from app.api.guard import KEY_HEADER, SCHEME

LAST_TAG = "delete"
_SCHEME_TEXT = (
    "Where keys are configured. Each operation lists the scopes of which a key needs one; `admin` opens all of them."
)


def install(app: FastAPI, documents: Sequence[type[BaseModel]]) -> None:
    """Serve the document from `app`, with `documents` among its schemas (bodies of routes that read them raw)."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, documents)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to replace it


def _document(app: FastAPI, documents: Sequence[type[BaseModel]]) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        summary=app.summary,
        tags=app.openapi_tags,
        routes=app.routes,
    )
    models: list[tuple[Any, JsonSchemaMode]] = [(Problem, "validation"), (InferenceError, "validation")]
    models += [(model, "validation") for model in documents]
    _, extra = models_json_schema(models, ref_template="#/components/schemas/{model}")
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(extra["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for schema in schemas.values():
        for titled in (schema, *schema.get("properties", {}).values()):
            titled.pop("title", None)  # its name again
    components["responses"] = {
        _name_of_error(status, in_inference=in_inference): _error(status, in_inference=in_inference)
        for status in {400, *STATUS.values()}
        for in_inference in (False, True)
    }
    components["securitySchemes"] = {
        SCHEME: {"type": "apiKey", "in": "header", "name": KEY_HEADER, "description": _SCHEME_TEXT}
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(operation, in_inference=path.startswith(INFERENCE))
            if method == "delete":  # last on the page: what is deleted can no longer be tried
                operation["tags"] = [LAST_TAG]
    _make_valid(document)
    return document


def with_optional_key(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a service without keys: no operation needs one."""
    paths = {
        path: {
            method: {**operation, "security": [{}, *operation["security"]] if operation["security"] else []}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": paths}


def _make_valid(value: Any) -> None:
    """Turn what FastAPI and pydantic write into OpenAPI 3.1: events have no `itemSchema`, which is 3.2, and a field
    that is null by default admits null.
    """
    if isinstance(value, list):
        for inner in value:
            _make_valid(inner)
    if not isinstance(value, dict):
        return
    if "itemSchema" in value:
        del value["itemSchema"]
        value["schema"] = {"type": "string", "description": "events, whose data are JSON"}
    if value.get("default", ...) is None:
        if isinstance(value.get("type"), str):
            value["type"] = [value["type"], "null"]
        elif "oneOf" in value and {"type": "null"} not in value["oneOf"]:
            value["oneOf"] = [*value["oneOf"], {"type": "null"}]
    for inner in value.values():
        _make_valid(inner)


def _complete(operation: dict[str, Any], *, in_inference: bool) -> None:
    """Show examples of parameters where the page looks for them, and refer to the errors that an operation may answer
    with: those of its route, of the gate, and of input that is invalid.
    """
    for parameter in operation.get("parameters", []):
        parameter["schema"].pop("title", None)  # its name again
        samples = parameter["schema"].pop("examples", None)
        if samples and "examples" not in parameter:
            parameter["example"] = samples[0]
    answers = {int(status): answer for status, answer in operation["responses"].items()}
    errors = {status for status in answers if status >= 400} | {422}  # a query parameter may always be unknown
    errors |= {401, 403, 429, 503} if operation["security"] else set()
    errors |= {413, 415} if "requestBody" in operation else set()
    if in_inference:
        errors = errors - {422} | {400}
    answers = {status: answer for status, answer in answers.items() if status < 400}
    for status in sorted(errors):
        answers[status] = {"$ref": f"#/components/responses/{_name_of_error(status, in_inference=in_inference)}"}
    operation["responses"] = {str(status): answer for status, answer in answers.items()}


def _name_of_error(status: int, *, in_inference: bool) -> str:
    return f"{_form(in_inference=in_inference)[0].__name__}{status}"


def _error(status: int, *, in_inference: bool) -> dict[str, Any]:
    model, kind = _form(in_inference=in_inference)
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"description": HTTPStatus(status).phrase, "content": {kind: {"schema": schema}}}


def _form(*, in_inference: bool) -> tuple[type[BaseModel], str]:
    """The form of errors, and its media type: the Open Inference Protocol has one of its own."""
    return (InferenceError, JSON) if in_inference else (Problem, MEDIA_TYPE)
