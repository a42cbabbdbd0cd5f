"""The documentation page: Swagger UI, with all it needs served from here, under a policy that lets in nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.api.documentation.openapi import with_optional_key
from app.api.guard import OPEN, OpenMount, needs
from app.api.routing import StrictRoute

_DOCUMENT = "/openapi.json"
_STATIC = "/static-offline-docs"  # where the page's scripts are mounted
_FILES = Path(fastapi_offline.__file__).parent / "static"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SETTINGS = {"tryItOutEnabled": True, "persistAuthorization": True}


def install(app: FastAPI) -> None:
    """Serve the page's scripts from `app`."""
    app.router.routes.append(OpenMount(_STATIC, _Files(directory=_FILES), name="static-offline-docs"))


router = APIRouter(route_class=StrictRoute, include_in_schema=False)


@router.get(_DOCUMENT)
@needs(OPEN)
def document(request: Request) -> JSONResponse:
    found = request.app.openapi()
    if not request.app.state.service.keyring.required:
        found = with_optional_key(found)
    if root := request.scope.get("root_path", ""):
        found = {**found, "servers": [{"url": root}]}
    return JSONResponse(found)


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


class _Files(StaticFiles):
    """Files that a browser may keep, and asks again whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _policy(html: str) -> str:
    """Scripts from here, and those that stand in the page itself as it is; Swagger UI styles its elements one by one
    and draws its icons from `data:`.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in _INLINE.findall(html))
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
