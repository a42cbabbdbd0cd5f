"""The console: static files that a browser runs, under a policy that allows no others; and `/` and
`/console`, which lead to it.

The files hold no data and need no key: the page asks for one, and sends it with each request to the
other routes.
"""

from functools import cache
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app import console
from app.api.gate import OPEN, GatedMount, needs
from app.api.routing import StrictRoute
from app.errors import NotFound

PATH = "/console"
_FILES = Path(console.__file__).parent
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)

router = APIRouter(route_class=StrictRoute, include_in_schema=False)


def install(app: FastAPI) -> None:
    """Serve the console from `app`."""
    app.router.routes.append(
        GatedMount(PATH, _Files(directory=_FILES, html=True), name="console")
    )


@router.get("/")
@router.api_route(PATH, methods=["GET", "HEAD"])
@needs(OPEN)
async def front(request: Request) -> RedirectResponse:
    path = f"{PATH}/" if request.app.state.service.console else "/docs"
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}")


@router.api_route(f"{PATH}/sample.csv", methods=["GET", "HEAD"])
@needs(OPEN)
def sample(request: Request) -> Response:
    """The table of `payoff demo`, for a start without a file of one's own."""
    if not request.app.state.service.console:
        raise NotFound("the console is turned off")
    return Response(_sample(), media_type="text/csv")


@cache
def _sample() -> str:
    # The import takes a second, which the start of the service need not wait for.
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    table = load_breast_cancer()
    lines = [[*table.feature_names, "diagnosis"]]
    lines += (
        [*row, table.target_names[y]]
        for row, y in zip(table.data.tolist(), table.target, strict=True)
    )
    return "".join(f"{','.join(map(str, line))}\n" for line in lines)


class _Files(StaticFiles):
    """Files of the types above; a browser may cache them, and revalidates them by their ETag."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        name = "index.html" if path in ("", ".") else path
        kind = _TYPES.get(Path(name).suffix)
        response = await super().get_response(path if kind else "none", scope)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Content-Security-Policy"] = _POLICY
        if response.status_code == 200 and kind:  # 304 has no type
            response.headers["Content-Type"] = kind
        return response
