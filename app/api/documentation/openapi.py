"""The OpenAPI document: what FastAPI derives, made true for what the layers around the routes do."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.api.errors import INFERENCE, MEDIA_TYPE, InferenceError, Problem, problems
from app.api.middleware.guard import KEY_HEADER
from app.api.middleware.permits import SCHEME

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
    components["securitySchemes"] = {
        SCHEME: {"type": "apiKey", "in": "header", "name": KEY_HEADER, "description": _SCHEME_TEXT}
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(operation)
            if path.startswith(INFERENCE):
                operation["responses"] = dict(map(_in_form, operation["responses"].items()))
            if method == "delete":  # last on the page: what is deleted can no longer be tried
                operation["tags"] = [LAST_TAG]
    return document


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
    error = {"schema": {"$ref": f"#/components/schemas/{InferenceError.__name__}"}}
    status = "400" if status == "422" else status
    return status, {"description": HTTPStatus(int(status)).phrase, "content": {"application/json": error}}


def _named(status: int) -> dict[str, Any]:
    return {str(code): answer for code, answer in problems(status).items()}
