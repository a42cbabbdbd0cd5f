"""The gate: what happens to every request before its route is asked, and to every answer on its way out.

`Gate.around` is ASGI middleware around all requests that the entrance does not answer: a request gets an id, a place
among those in progress, and at the end its line in the log and in the metrics. Each route declares what it asks of its
caller (`needs`), and asks `Gate.admit` where it is dispatched; nothing is derived from the text of a path. A route that
declares nothing, a method that a path does not have and a path without a route need `admin`. `Exchange` bounds the body
and charges for it (`app.api.memory`). Slow clients, connections, sizes of headers and TLS are for the server and the
balancer in front.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from time import perf_counter
from typing import Any, TypeVar, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute, Mount, iter_route_contexts
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ASGIScope

from app.access.caller import Caller, Keyring, Scope, WrongKey
from app.access.rates import Windows, rounded_up
from app.api.errors import problem, response_to
from app.api.memory import BODY, SMALL, VALUE, BodyLimits, Charge, Memory
from app.errors import Busy, Forbidden, KeyMissing, TooMany, TooSlow, Unsupported
from app.monitoring.logs import RequestLines
from app.monitoring.metrics import RequestMetrics
from app.tables.text import check_query
from payoff.errors import Invalid, TooLarge

MAX_AT_ONCE = 1_000  # event streams and requests that wait for a thread are among them
BODY_SECONDS = (
    300.0  # for a whole body; the balancer in front reads slow ones before it passes them on
)
CLIENT_GONE = 499  # the client disconnected before the response; logged only
KEY_HEADER = "X-API-Key"
SCHEME = "key"  # the name of the security scheme in the OpenAPI document
Header = tuple[bytes, bytes]
_KEYS, _SITES = (KEY_HEADER, "Authorization"), ("Host", "Origin", "Sec-Fetch-Site")
_MARK = "__payoff_access__"
_HEALTH = "/health/"
_MAX_DIGITS = 20  # of 2⁶⁴; `int` refuses thousands, of which all but the last may be zeros
_log = structlog.get_logger("payoff.request")
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


# What routes ask of their callers


@dataclass(frozen=True)
class Access:
    """Who may call a route: holders of one of the `scopes`; of any key if there are none; everybody if it `is_open`.

    `uploads` says that the route's bodies may be as large as a data set, and go to disk as they arrive; `counted` that
    requests take one off the caller's rate.
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
ADMIN = Access(frozenset({Scope.ADMIN}))
INSTALL = replace(ADMIN, uploads=True)


def needs(access: Access) -> Callable[[_Endpoint], _Endpoint]:
    """Declare what a route asks of its caller, directly at its function."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _MARK, access)
        return endpoint

    return declare


class GatedRoute(APIRoute):
    """A route that asks the gate before anything of the request is read."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.access: Access = getattr(endpoint, _MARK, ADMIN)
        alternatives = [[scope.value] for scope in Scope if scope in self.access.scopes] or [[]]
        security = [] if self.access.is_open else [{SCHEME: scopes} for scopes in alternatives]
        extra = {"security": security, **(options.pop("openapi_extra", None) or {})}
        options["generate_unique_id_function"] = lambda route: (
            route.name
        )  # clients name a method as it is named here
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        scope["app"].state.gate.admit(
            self.access if scope["method"] in (self.methods or ()) else ADMIN, scope
        )
        await super().handle(scope, receive, send)


class GatedMount(Mount):
    """Files for everybody to read; any other method needs `admin`."""

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        scope["app"].state.gate.admit(OPEN if scope["method"] in ("GET", "HEAD") else ADMIN, scope)
        await super().handle(scope, receive, send)


def install(app: FastAPI, gate: Gate) -> None:
    """Put `gate` around `app`, and before each of its routes; TypeError if a route would not ask it."""
    for context in iter_route_contexts(app.routes):
        if not isinstance(context.original_route, GatedRoute | GatedMount):
            raise TypeError(f"{context.path} does not ask the gate: use GatedRoute or GatedMount")
    absent = app.router.not_found

    async def unmatched(scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            gate.admit(ADMIN, scope)
        await absent(scope, receive, send)

    app.state.gate = gate
    app.router.default = unmatched
    app.add_middleware(gate.around)


class Gate:
    """What all requests have in common: keys, rates, sites, places, memory, figures and log."""

    def __init__(
        self,
        keyring: Keyring,
        limits: BodyLimits,
        memory: Memory,
        metrics: RequestMetrics,
        *,
        hosts: Iterable[str] = (),
        access_log: bool = False,
    ) -> None:
        self.limits = limits
        self._keyring, self._memory, self._metrics = keyring, memory, metrics
        self._lines = RequestLines() if access_log else None
        self._hosts = frozenset(host.lower() for host in hosts)
        self._rates = Windows()
        self._running = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """`app` with the gate around it."""

        async def gated(scope: ASGIScope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began = perf_counter()
            exchange = Exchange(self._memory, scope, receive, send)
            structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
            takes_place = not scope["path"].startswith(_HEALTH)
            self._running += takes_place
            try:
                if takes_place and self._running > MAX_AT_ONCE:
                    raise Busy(f"{MAX_AT_ONCE:,} requests are in progress; try again later")  # noqa: TRY301
                await app(scope, exchange.receive, exchange.send)
            except ClientDisconnect:
                pass
            except Exception as error:
                response = response_to(scope, error)
                if response is None:
                    _log.exception("unexpected error")
                    words = f"unexpected error; see the log for request {exchange.request_id}"
                    response = problem(scope, 500, "Internal Server Error", words)
                if exchange.status:
                    raise  # the answer has begun: all that is left is to break the connection off
                await response(scope, receive, exchange.send)
            finally:
                self._running -= takes_place
                if exchange.held:
                    self._memory.give_back(exchange.held)
                route = getattr(
                    scope.get("route"), "path", "unmatched"
                )  # the template, of which there are few
                status, seconds = exchange.status or CLIENT_GONE, perf_counter() - began
                self.record(scope, route, exchange.request_id, status, seconds)
                structlog.contextvars.clear_contextvars()

        return gated

    def admit(self, access: Access, scope: ASGIScope) -> None:
        """Raise the PayoffError to be answered where the request is not allowed, before anything of it is read.

        Leaves the `caller` in the request's state.
        """
        if not scope["path"].isprintable():
            raise Invalid.at(
                "",
                "the path has a control character or another that cannot be printed: leave it out",
            )
        headers, state = scope["headers"], scope["state"]
        head, exchange = dict(headers), state["exchange"]
        if head.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Unsupported(
                "bodies are taken as they are: send no Content-Encoding (files may be gzipped)"
            )
        if not access.is_open:
            decisive = _KEYS if self._keyring.required else (*_KEYS, *_SITES)
            for name in decisive if len(head) != len(headers) else ():
                if (
                    sum(sent == name.lower().encode() for sent, _ in headers) > 1
                ):  # readers differ in which one counts
                    raise (KeyMissing if name in _KEYS else Forbidden)(
                        f"header {name!r} is sent twice; send it once"
                    )
            try:
                caller = state["caller"] = self.caller(scope, head)
            except WrongKey:
                self._keyring.count_wrong_key(_address(scope))
                raise
            if access.counted and caller.rate is not None:
                self.take(caller, scope)
            caller.need(access.scopes)
        if query := scope["query_string"]:
            check_query(query)
        exchange.streams = access.uploads
        exchange.most = self.limits.upload if access.uploads else self.limits.default
        if (announced(head.get(b"content-length", b"")) or 0) > exchange.most:
            raise _too_large(exchange.most)

    def caller(self, scope: ASGIScope, head: Mapping[bytes, bytes]) -> Caller:
        """Who asks, `head` being the headers; raises the PayoffError to be answered otherwise. Counts nothing."""
        key = head.get(b"x-api-key")
        if key is None:
            scheme, _, token = head.get(b"authorization", b"").partition(b" ")
            key = token.strip() if scheme.lower() == b"bearer" else None
        caller = self._keyring.caller(key)
        if caller is self._keyring.anybody:
            check_site(scope["method"], head, self._hosts)
        return caller

    def take(self, caller: Caller, scope: ASGIScope) -> list[Header]:
        """Take this request off the caller's rate, once: what the answer's headers say of it, which `Exchange` adds.

        TooMany where nothing is left of it. A request with many instances is one.
        """
        rate, state = caller.rate, scope["state"]
        if rate is None:
            return []
        if "rate" not in state:  # else the entrance has asked, and could not answer
            allowed = self._rates.take(caller.client or _address(scope), rate)
            name = b'"key"' if caller.client else b'"address"'
            policy = (b"ratelimit-policy", b"%b;q=%d;w=%d" % (name, rate.amount, rate.seconds))
            seconds = rounded_up(allowed.seconds)
            limit = (b"ratelimit", b"%b;r=%d;t=%d" % (name, allowed.remaining, seconds))
            state["rate"], state["wait"] = [policy, limit], allowed.wait
        if wait := state["wait"]:
            raise TooMany(
                f"more than {rate.amount} requests in {rate.seconds} s", seconds=rounded_up(wait)
            )
        return cast(list[Header], state["rate"])

    def record(
        self, scope: ASGIScope, route: str, request_id: str, status: int, seconds: float
    ) -> None:
        """Count a request that was answered, and write its line."""
        self._metrics.count(scope["method"], route, status, seconds)
        if self._lines is not None:
            line = {"request_id": request_id, "method": scope["method"], "path": scope["path"]}
            self._lines.add({**line, "status": status, "ms": round(seconds * 1e3, 3)})


# What a service without keys accepts: requests for this machine, and no writes from pages of other sites. A browser
# sends requests for any page: by DNS rebinding a foreign name becomes this machine's address, which only Host shows; a
# form on a foreign page can post here, which Origin and Sec-Fetch-Site show.

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]{1,253})(?::\d{1,5})?")
_LOOPBACK = re.compile(
    r"(.+\.)?localhost\.?|127(\.\d{1,3}){3}\.?|\[::1\]", re.ASCII
)  # RFC 6761, section 6.3
_PORTS = {"http": ":80", "https": ":443"}
_SHOWN = 80  # characters of a header that an error repeats


def check_site(method: str, head: Mapping[bytes, bytes], hosts: frozenset[str]) -> None:
    """Forbidden where the request is not for one of `hosts` or loopback, or is a write from another site's page."""
    host = head.get(b"host", b"").decode("latin-1").lower()
    if not _is_ours(host, hosts):
        raise Forbidden(
            "without keys the service answers requests for localhost and for the hosts in PAYOFF_HOSTS, not for"
            f" {host[:_SHOWN]!r}: add the host name there, without a port, or configure keys"
        )
    origin = head.get(b"origin")
    if method in ("GET", "HEAD", "OPTIONS") or (origin is None and b"sec-fetch-site" not in head):
        return
    scheme, _, site = (
        f"://{host}" if origin is None else origin.decode("latin-1").lower()
    ).partition("://")
    implied = _PORTS.get(scheme, "")  # stores that the scheme implies may be left out
    foreign = head.get(b"sec-fetch-site", b"").lower() in (b"cross-site", b"same-site")
    if foreign or site.removesuffix(implied) != host.removesuffix(implied):
        raise Forbidden(
            f"without keys only pages of {host[:_SHOWN]!r} may change anything, not a page of another site: configure"
            " keys, or send the request without a browser; a reverse proxy has to pass on the Host header that it"
            " received, and PAYOFF_HOSTS has to contain that host"
        )


@lru_cache(maxsize=100)
def _is_ours(host: str, hosts: frozenset[str]) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and (found[1] in hosts or _LOOPBACK.fullmatch(found[1]) is not None)


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PROCESS = secrets.token_hex(
    4
)  # ids need to be unique, not secret, and random bytes are a system call each
_numbers = count(1)
# On every answer. That browsers shall come by TLS only is for whoever ends TLS to say, in front of the service.
ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
UNLESS_OWN: tuple[Header, ...] = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),  # answers hold data, and what is true only now
)


class Exchange:
    """One request and its answer. `Gate.admit` sets `most`, the largest body in bytes, `streams` where the body goes to
    disk as it arrives, and is not charged.
    """

    def __init__(self, memory: Memory, scope: ASGIScope, receive: Receive, send: Send) -> None:
        self.request_id = request_id_of(scope)
        self.status = 0  # of the answer, once it has begun
        self.held = 0  # bytes of memory
        self.most, self.streams = 0, False
        self._memory, self._receive, self._send = memory, receive, send
        self._seen = 0
        self._until: float | None = None
        self._read = False
        self._state: dict[str, Any] = scope.setdefault("state", {})
        self._state["exchange"] = self

    def charge(self, count: int, each: int = VALUE) -> None:
        """Hold memory until the answer is sent, see `Charge`; from any thread."""
        if count * each > SMALL:
            self._hold(count * each)

    async def receive(self) -> Message:
        """The next part of the body; TooLarge, TooSlow, or Busy where it does not fit into memory now."""
        if self._read:
            return await self._receive()
        self._until = self._until or asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {BODY_SECONDS:g} s") from error
        self._read = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self._seen += size
        if self._seen > self.most:
            raise _too_large(self.most)
        if self._seen > SMALL and not self.streams:
            self._hold(size * BODY)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with the headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (b"x-request-id", self.request_id.encode())
            headers = [*message["headers"], own, *self._state.get("rate", ()), *ALWAYS]
            names = {name for name, _ in headers}
            message["headers"] = [
                *headers,
                *(header for header in UNLESS_OWN if header[0] not in names),
            ]
        await self._send(message)

    def _hold(self, size: int) -> None:
        self._memory.take(size, self.held)
        self.held += size


def charge_of(request: Request) -> Charge:
    """What charges for the memory that the request needs."""
    return cast(Exchange, request.scope["state"]["exchange"]).charge


def request_id_of(scope: ASGIScope) -> str:
    """The id that the request brings where it is one, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{_PROCESS}{next(_numbers):08x}"


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, and where it is too long to be read quickly."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body may have at most {limit:,} bytes here")


def _address(scope: ASGIScope) -> str:
    """The address that a request counts for; behind trusted proxies the server has put the client's there."""
    return scope["client"][0] if scope.get("client") else ""
