"""However a path is spelt, a request is judged by what the route that it reaches declares."""

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Mount

from app.access.caller import Scope
from app.api.app import create_app
from app.api.gate import OPEN as EVERYBODY
from app.api.gate import GatedRoute, install, needs
from app.service import wire
from tests.api.callers import Admitting
from tests.api.permissions import (
    ADMIN,
    ANY_KEY,
    NEEDED,
    OPEN,
    STATIC,
    expected,
    filled,
    template_of,
)
from tests.conftest import settings_for

HOLDERS = (
    frozenset(),
    {Scope.PREDICT},
    {Scope.TRAIN},
    {Scope.PREDICT, Scope.TRAIN},
    {Scope.ADMIN},
)
WRONG = b"payoff_00000000." + b"a" * 43


class Doors:
    """An application with keys whose routes, once a request reaches one, answer with their template alone."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._service = wire(settings_for(folder, workers=0, admin_key="administrator"))
        self.app = create_app(self._service)
        self._loop = asyncio.new_event_loop()
        keys = self._service.stores.keys
        self.holders: list[tuple[frozenset[Scope] | None, bytes | None]] = [
            (None, None),
            (None, WRONG),
        ]
        self.holders.append((frozenset(Scope), b"administrator"))
        for number, scopes in enumerate(HOLDERS):
            _, key = keys.create(f"holder {number}", tuple(scopes))
            self.holders.append((frozenset(scopes), key.encode()))
        self._service.keyring.refresh()

        async def reached(route, scope, receive, send):
            if scope["method"] not in getattr(route, "methods", ("GET", "HEAD")):
                await Response(status_code=405)(scope, receive, send)
                return
            await Response(template_of(route.path), 299)(scope, receive, send)

        monkeypatch.setattr(APIRoute, "handle", reached)  # behind the gate's check
        monkeypatch.setattr(Mount, "handle", reached)

    def knock(
        self, method: str, path: str, key: bytes | None, root: str = ""
    ) -> int | str:
        """The template that is reached, or the status of the refusal; nobody who is refused has a body read."""
        headers = [] if key is None else [(b"x-api-key", key)]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": root,
            "headers": headers,
        }
        scope |= {
            "query_string": b"",
            "client": ("127.0.0.1", 9),
            "server": ("127.0.0.1", 80),
            "scheme": "http",
        }
        sent: list[dict] = []

        async def receive():
            raise AssertionError("the body was read before the request was allowed")

        async def send(message):
            sent.append(message)

        self._loop.run_until_complete(self.app(scope, receive, send))
        return (
            sent[1]["body"].decode() if sent[0]["status"] == 299 else sent[0]["status"]
        )

    def close(self) -> None:
        self._loop.close()
        self._service.stores.database.close()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        doors = Doors(tmp_path_factory.mktemp("doors"), monkeypatch)
        yield doors
        doors.close()


@pytest.mark.parametrize("template", sorted({template for _, template in NEEDED}))
@pytest.mark.sampled
def test_no_spelling_of_a_path_opens_more_than_its_route_declares(doors, template):
    """As it is, below a proxy's prefix, and in ways that a matcher may take for it, by each holder of a key."""
    own, path = (
        {method for method, path in NEEDED if path == template},
        filled(template),
    )
    middle, letters = (
        path.rfind("/"),
        "".join(letter if letter == "/" else f"%{ord(letter):02x}" for letter in path),
    )
    spelt = [
        path,
        path.upper(),
        letters,
        path.replace("/", "%2F"),
        f"/{path}",
        f"/docs/..{path}",
        f"%0A{path}",
    ]
    spelt += [
        f"{path}{end}" for end in ("%0A", "%00", "/", ";x", "%20", "%2F", "?", "/..")
    ]
    spelt += [
        f"{path[:middle]}{gap}{path[middle:]}" for gap in ("/", "/.", "%0A", ";x")
    ]
    asked = [
        *((unquote(one), "") for one in spelt),
        (f"/api{path}", "/api"),
        (path, "/api"),
    ]
    for (one, root), method in product(asked, sorted(own | {"HEAD", "OPTIONS"})):
        for scopes, key in doors.holders:
            assert doors.knock(method, one, key, root) == expected(
                method, one, scopes, root
            ), (
                method,
                one,
                scopes,
            )


VERBS = ("train", "calibrate", "compare", "replay")


def test_the_document_lists_the_scopes_that_are_checked(doors):
    operations = doors.app.openapi()["paths"]
    listed = {
        (method.upper(), path): operation["security"]
        for path, methods in operations.items()
        for method, operation in methods.items()
    }
    hidden = {
        ("GET", path) for path in ("/", "/docs", "/openapi.json", "/access", *STATIC)
    }
    of_verbs = {
        f"/{verb}{rest}"
        for verb in VERBS
        for rest in ("", "/{job_id}", "/{job_id}/events")
    }
    hidden |= {
        (method, path) for method in ("GET", "DELETE") for path in of_verbs
    }  # `/jobs` is in their place
    hidden |= {
        operation
        for operation in NEEDED
        if operation[1].startswith(("/v2/health", "/v2/models/{ref}/v"))
    }

    assert (
        set(listed)
        == {(method, path) for method, path in NEEDED if method != "HEAD"} - hidden
    )
    for operation, security in listed.items():
        needed = NEEDED[operation]
        if needed is OPEN:
            assert security == []
        elif needed == ANY_KEY:
            assert security == [{"key": []}]
        else:
            assert {scope for one in security for scope in one["key"]} == needed, (
                operation
            )
            assert all(len(one["key"]) == 1 for one in security), (
                "alternatives, of which one is enough"
            )


def test_a_route_that_declares_nothing_needs_admin():
    router = APIRouter(route_class=GatedRoute)

    @router.get("/forgotten")
    def forgotten() -> None: ...

    @needs(EVERYBODY)  # in the wrong place: the route was made before
    @router.get("/misplaced")
    def misplaced() -> None: ...

    assert [route.access.scopes for route in router.routes] == [ADMIN, ADMIN]
    assert not any(route.access.is_open for route in router.routes)


def test_a_route_that_would_not_ask_the_gate_is_refused_at_start():
    app = FastAPI(openapi_url=None)
    router = APIRouter()
    router.add_api_route("/plain", lambda: None)
    app.include_router(router)

    with pytest.raises(TypeError, match="/plain does not ask the gate"):
        install(app, Admitting(None))
