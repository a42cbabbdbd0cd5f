"""The OpenAPI document: what FastAPI derives, made true for what the layers around the routes do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.api.bodies.media_types import JSON
from app.api.documentation.samples import add_samples
from app.api.errors import INFERENCE, MEDIA_TYPE, InferenceError, Problem, problems
from app.api.middleware.guard import KEY_HEADER
from app.api.middleware.permits import SCHEME

LAST_TAG = "delete"
_ONE_OF = {
    "aliases": "alias", "datasets": "dataset", "matrices": "matrix", "models": "model", "versions": "version",
}  # fmt: skip
_LISTS = {
    "/audit": "",
    "/datasets": "",
    "/models": "",
    "/models/{name}/matrices": "",
    "/calibrate": "_jobs",
    "/compare": "_jobs",
    "/replay": "_jobs",
    "/train": "_jobs",
}
_CREATED = frozenset({"datasets", "versions"})
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
    components["securitySchemes"] = {
        SCHEME: {"type": "apiKey", "in": "header", "name": KEY_HEADER, "description": _SCHEME_TEXT}
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["operationId"] = operation_id(method, path)
            _complete(operation)
            add_samples(path, method, operation)
            if path.startswith(INFERENCE):
                operation["responses"] = dict(map(_in_form, operation["responses"].items()))
            if method == "delete":  # last on the page: what is deleted can no longer be tried
                operation["tags"] = [LAST_TAG]
    _make_valid(document)
    return document


def operation_id(method: str, path: str) -> str:
    """A name for the method that a generated client has: `list_models`, `get_model_version`, `predict`."""
    words: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "{job_id}":
            words[-1] += "_job"
        elif segment.startswith("{"):
            words[-1] = _ONE_OF.get(words[-1], words[-1])
        else:
            words.append(re.sub(r"\W", "_", segment))
    verb = {"get": "get", "put": "set", "delete": "cancel" if path.endswith("{job_id}") else "delete"}.get(method, "")
    if method == "get" and path in _LISTS:
        verb, words[-1] = "list", words[-1] + _LISTS[path]
    elif method == "post" and words[-1] in _CREATED:
        verb, words[-1] = "create", _ONE_OF[words[-1]]
    return "_".join(filter(None, [verb, *words]))


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


def _complete(operation: dict[str, Any]) -> None:
    """Add what every operation may answer: the guards' refusals, and our own form of 422 in place of FastAPI's."""
    responses = operation["responses"]
    if operation["security"]:
        responses.update(_named(401) | _named(403) | _named(429) | _named(503))
    for parameter in operation.get("parameters", []):
        samples = parameter["schema"].get("examples")
        if samples and "examples" not in parameter:
            parameter["example"] = samples[0]  # where the page's "try it out" looks
    if "requestBody" in operation:
        responses.update(_named(413) | _named(415))
    responses.update(_named(422))  # also where there is nothing to send: query parameters are unknown there
    operation["responses"] = dict(sorted(responses.items()))


def _in_form(answer: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """An answer of the Open Inference Protocol, whose errors have a form of their own."""
    status, described = answer
    if MEDIA_TYPE not in described.get("content", {}):
        return answer
    schema = {"$ref": f"#/components/schemas/{InferenceError.__name__}"}
    error = {**described["content"][MEDIA_TYPE], "schema": schema}
    status = "400" if status == "422" else status
    return status, {"description": HTTPStatus(int(status)).phrase, "content": {JSON: error}}


def _named(status: int) -> dict[str, Any]:
    return {str(code): answer for code, answer in problems(status).items()}
