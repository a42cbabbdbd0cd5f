"""The OpenAPI document: FastAPI's, corrected for what the layers around the routes do.

And its page: Swagger UI, with all its files served from here, under a policy that allows no others.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.staticfiles import StaticFiles

from app.api.codecs.media_types import JSON
from app.api.errors import INFERENCE, MEDIA_TYPE, InferenceError, Problem
from app.api.gate import KEY_HEADER, OPEN, SCHEME, GatedMount, needs
from app.api.routing import StrictRoute
from app.errors import STATUSES

LAST_TAG = "delete"
_SCHEME_TEXT = (
    "Where keys are configured. Each operation lists the scopes of which a key needs one; "
    "`admin` opens all of them."
)
_DOCUMENT = "/openapi.json"
_STATIC = "/static-offline-docs"  # where the page's scripts are mounted
_FILES = Path(fastapi_offline.__file__).parent / "static"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SETTINGS = {"tryItOutEnabled": True, "persistAuthorization": True}


def install(app: FastAPI, documents: Sequence[type[BaseModel]]) -> None:
    """Serve the document from `app`, with `documents` among its schemas (bodies of routes that read
    them raw); and the scripts of its page.
    """
    app.router.routes.append(
        GatedMount(_STATIC, StaticFiles(directory=_FILES), name="static-offline-docs")
    )

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
    components = document.setdefault("components", {})
    _complete_schemas(components.setdefault("schemas", {}), documents)
    components["responses"] = dict(
        _error(status, in_inference=in_inference)
        for status in {400, *STATUSES}
        for in_inference in (False, True)
    )
    components["securitySchemes"] = {
        SCHEME: {
            "type": "apiKey",
            "in": "header",
            "name": KEY_HEADER,
            "description": _SCHEME_TEXT,
        }
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(operation, in_inference=path.startswith(INFERENCE))
            if (
                method == "delete"
            ):  # last on the page: what is deleted can no longer be tried
                operation["tags"] = [LAST_TAG]
    return document


def _complete_schemas(
    schemas: dict[str, Any], documents: Sequence[type[BaseModel]]
) -> None:
    """Add the schemas of errors and `documents`; remove unused ones, and titles that only repeat
    names.
    """
    models: list[tuple[Any, JsonSchemaMode]] = [
        (model, "validation") for model in (Problem, InferenceError, *documents)
    ]
    _, definitions = models_json_schema(
        models, ref_template="#/components/schemas/{model}"
    )
    schemas.update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for schema in schemas.values():
        for titled in (schema, *schema.get("properties", {}).values()):
            titled.pop("title", None)


def _complete(operation: dict[str, Any], *, in_inference: bool) -> None:
    """Show examples of parameters where the page looks for them, and refer to the errors that an
    operation may answer with: those of its route, of the gate, and of input that is invalid.
    """
    for parameter in operation.get("parameters", []):
        parameter["schema"].pop("title", None)  # it repeats the name
        samples = parameter["schema"].pop("examples", None)
        if samples and "examples" not in parameter:
            parameter["example"] = samples[0]
    answers = {int(status): answer for status, answer in operation["responses"].items()}
    for content in answers[200].get("content", {}).values() if 200 in answers else ():
        if content.pop("itemSchema", None):  # which is OpenAPI 3.2
            content["schema"] = {
                "type": "string",
                "description": "events, whose data are JSON",
            }
    errors = {status for status in answers if status >= 400}
    errors.add(422)  # a query parameter may always be unknown
    if operation["security"]:
        errors |= {401, 403, 429, 503}
    if "requestBody" in operation:
        errors |= {413, 415}
    if in_inference:
        errors = errors - {422} | {400}
    answers = {status: answer for status, answer in answers.items() if status < 400}
    for status in sorted(errors):
        name, _ = _error(status, in_inference=in_inference)
        answers[status] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = {str(status): answer for status, answer in answers.items()}


def _error(status: int, *, in_inference: bool) -> tuple[str, dict[str, Any]]:
    """The name and the description of an error, whose document the Open Inference Protocol defines
    differently.
    """
    document, media_type = Problem.__name__, MEDIA_TYPE
    if in_inference:
        document, media_type = InferenceError.__name__, JSON
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{document}"}}}
    description = {"description": HTTPStatus(status).phrase, "content": content}
    return f"{document}{status}", description


# The page


router = APIRouter(route_class=StrictRoute, include_in_schema=False)


@router.get(_DOCUMENT)
@needs(OPEN)
def document(request: Request) -> JSONResponse:
    content = request.app.openapi()
    root = request.scope.get("root_path", "")
    if root:
        content = {**content, "servers": [{"url": root}]}
    return JSONResponse(content)


@router.get("/docs")
@needs(OPEN)
def page(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    html = get_swagger_ui_html(
        openapi_url=f"{root}{_DOCUMENT}",
        title=request.app.title,
        swagger_js_url=f"{root}{_STATIC}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{_STATIC}/swagger-ui.css",
        swagger_favicon_url=f"{root}{_STATIC}/favicon.png",
        swagger_ui_parameters=_SETTINGS,
    )
    html.headers["Content-Security-Policy"] = _policy(bytes(html.body).decode())
    return html


def _policy(html: str) -> str:
    """Scripts from here, and those in the page itself as it is; Swagger UI styles its elements one
    by one and draws its icons from `data:`.
    """
    digests = (
        hashlib.sha256(script.encode()).digest() for script in _INLINE.findall(html)
    )
    scripts = " ".join(
        f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests
    )
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    )
