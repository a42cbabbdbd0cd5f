"""The gate: who may call a route, and how often.

Each route declares what it needs of its caller (`needs`), and calls `Gate.admit` where it is
dispatched; nothing is derived from the text of a path. A route that declares nothing, a method that
a path does not have and a path without a route need `admin`. `app.api.exchange` bounds the body and
charges for it (`app.api.memory`). Slow clients, connections, sizes of headers and TLS are for the
server and the balancer in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute, Mount, iter_route_contexts
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from app.access.caller import Caller, Keyring, Scope, WrongKey
from app.access.rates import Windows, rounded_up
from app.api.exchange import (
    Exchange,
    Header,
    RateState,
    announced,
    exchange_of,
    too_large,
)
from app.api.memory import BodyLimits
from app.errors import Forbidden, KeyMissing, TooMany, Unsupported
from app.tables.text import check_query
from payoff.errors import Invalid

KEY_HEADER = "X-API-Key"
SCHEME = "key"  # the name of the security scheme in the OpenAPI document
# Headers that decide about a request, so that none may come twice; the latter two without keys.
_KEY_HEADERS = (KEY_HEADER, "Authorization")
_SITE_HEADERS = ("Host", "Origin", "Sec-Fetch-Site")
_ACCESS_ATTRIBUTE = "__payoff_access__"  # of a route's function
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


# What routes need of their callers


@dataclass(frozen=True)
class Access:
    """The callers of a route: holders of one of the `scopes`; of any key if there are none;
    everybody if it `is_open`.

    `uploads`: the route's bodies may be as large as a data set, and go to disk as they arrive.
    `counted`: a request counts towards the caller's rate.
    """

    scopes: frozenset[Scope]
    is_open: bool = False
    uploads: bool = False
    counted: bool = True


OPEN = Access(frozenset(), is_open=True)
ANY_KEY = Access(frozenset())
CHECK = replace(ANY_KEY, counted=False)
PREDICT = Access(frozenset({Scope.PREDICT}))
TRAIN = Access(frozenset({Scope.TRAIN}))
UPLOAD = replace(TRAIN, uploads=True)
METRICS = Access(frozenset({Scope.METRICS}))
PREDICT_OR_TRAIN = Access(PREDICT.scopes | TRAIN.scopes)
REVIEW_OR_TRAIN = Access(frozenset({Scope.REVIEW}) | TRAIN.scopes)
PREDICT_OR_REVIEW = Access(frozenset({Scope.REVIEW}) | PREDICT.scopes)
ADMIN = Access(frozenset({Scope.ADMIN}))
INSTALL = replace(ADMIN, uploads=True)


def needs(access: Access) -> Callable[[_Endpoint], _Endpoint]:
    """Declare what a route needs of its caller, directly at its function."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _ACCESS_ATTRIBUTE, access)
        return endpoint

    return declare


class GatedRoute(APIRoute):
    """A route that calls the gate before anything of the request is read."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.access: Access = getattr(endpoint, _ACCESS_ATTRIBUTE, ADMIN)
        alternatives = [
            [scope.value] for scope in Scope if scope in self.access.scopes
        ] or [[]]
        security = (
            [] if self.access.is_open else [{SCHEME: scopes} for scopes in alternatives]
        )
        extra = {"security": security, **(options.pop("openapi_extra", None) or {})}
        # Generated clients name a method as the function is named here.
        options["generate_unique_id_function"] = lambda route: route.name
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        is_declared = scope["method"] in (self.methods or ())
        scope["app"].state.service.gate.admit(
            self.access if is_declared else ADMIN, scope
        )
        await super().handle(scope, receive, send)


class GatedMount(Mount):
    """Files for everybody to read; any other method needs `admin`."""

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        is_read = scope["method"] in ("GET", "HEAD")
        scope["app"].state.service.gate.admit(OPEN if is_read else ADMIN, scope)
        await super().handle(scope, receive, send)


def install(app: FastAPI, gate: Gate) -> None:
    """Put `gate` before the paths of `app` that have no route; TypeError for a route that ignores
    it.
    """
    for context in iter_route_contexts(app.routes):
        if not isinstance(context.original_route, GatedRoute | GatedMount):
            raise TypeError(
                f"{context.path} does not ask the gate: use GatedRoute or GatedMount"
            )
    not_found = app.router.not_found

    async def unmatched(scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            gate.admit(ADMIN, scope)
        await not_found(scope, receive, send)

    app.router.default = unmatched


class Gate:
    """The checks of all requests: keys, sites, rates, and what the headers say of the body."""

    def __init__(self, keyring: Keyring, limits: BodyLimits) -> None:
        self._keyring = keyring
        self._limits = limits
        self._rates = Windows()

    def admit(self, access: Access, scope: ASGIScope) -> None:
        """Raise the PayoffError to be answered where the request is not allowed, before anything of
        it is read.

        Sets the caller and the limits of the body of the exchange.
        """
        if not scope["path"].isprintable():
            raise Invalid.at(
                "",
                "the path has a control character or another that cannot be printed: leave it out",
            )
        exchange = exchange_of(scope)
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Unsupported(
                "bodies are taken as they are: send no Content-Encoding (files may be gzipped)"
            )
        if not access.is_open:
            self._admit_caller(access, scope, exchange, headers)
        query = scope["query_string"]
        if query:
            check_query(query)
        exchange.streams = access.uploads
        exchange.max_bytes = (
            self._limits.upload if access.uploads else self._limits.default
        )
        length = headers.get(b"content-length", b"0")
        if length != b"0" and (announced(length) or 0) > exchange.max_bytes:
            raise too_large(exchange.max_bytes)

    def _admit_caller(
        self,
        access: Access,
        scope: ASGIScope,
        exchange: Exchange,
        headers: Mapping[bytes, bytes],
    ) -> None:
        if len(headers) != len(scope["headers"]):
            self._check_repeated(scope)
        try:
            caller = self._keyring.caller_of(scope["method"], headers)
            exchange.caller = caller
        except WrongKey:
            self._keyring.count_wrong_key(_address(scope))
            raise
        if access.counted and caller.rate is not None:
            self.take(caller, scope)
        caller.need(access.scopes)

    def _check_repeated(self, scope: ASGIScope) -> None:
        """KeyMissing or Forbidden where a decisive header is repeated: readers differ in which one
        counts.
        """
        names = [name for name, _ in scope["headers"]]
        decisive = (
            _KEY_HEADERS if self._keyring.required else (*_KEY_HEADERS, *_SITE_HEADERS)
        )
        for header in decisive:
            if names.count(header.lower().encode()) > 1:
                error = KeyMissing if header in _KEY_HEADERS else Forbidden
                raise error(f"header {header!r} is sent twice; send it once")

    def take(self, caller: Caller, scope: ASGIScope) -> list[Header]:
        """Count this request towards the caller's rate, once; the rate's headers of the answer.

        TooMany where the rate is exceeded. A request with many instances is one.
        """
        rate = caller.rate
        if rate is None:
            return []
        exchange = exchange_of(scope)
        if (
            exchange.rate is None
        ):  # else the entrance has counted it, and could not answer
            allowance = self._rates.take(caller.client or _address(scope), rate)
            name = b'"key"' if caller.client else b'"address"'
            seconds = rounded_up(allowance.seconds)
            policy = b"%b;q=%d;w=%d" % (name, rate.amount, rate.seconds)
            remaining = b"%b;r=%d;t=%d" % (name, allowance.remaining, seconds)
            headers = [(b"ratelimit-policy", policy), (b"ratelimit", remaining)]
            exchange.rate = RateState(headers, allowance.wait)
        if exchange.rate.wait:
            raise TooMany(
                f"more than {rate.amount} requests in {rate.seconds} s",
                seconds=rounded_up(exchange.rate.wait),
            )
        return exchange.rate.headers


def _address(scope: ASGIScope) -> str:
    """The address that a request counts for; behind trusted proxies it is the client's."""
    return scope["client"][0] if scope.get("client") else ""
