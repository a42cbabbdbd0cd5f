"""What a request's head decides: who asks, whether they may, how often, and how large the body may be.

Each route declares what it asks of its caller (`needs`), which is checked where it is dispatched: nothing is derived
from the text of a path. A route that declares nothing, a method that a path does not have and a path that no route
matches need the scope `admin`. What all answers have in common is here, too: their headers, their line in the log.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute, Mount, iter_route_contexts
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from app.access.caller import Caller, Keyring, Scope, WrongKey
from app.access.rates import Windows, whole
from app.errors import Invalid, KeyMissing, Refused, TooLarge, TooMany, Unsupported
from app.logs import told_path, write_request
from app.metrics import RequestMetrics
from app.text import check_query

Header = tuple[bytes, bytes]
KEY_HEADER = "X-API-Key"
SCHEME = "key"  # the name of the security scheme in the OpenAPI document
_BEARER = b"bearer "
_MARK = "__payoff_access__"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MAX_DIGITS = 20  # of 2⁶⁴; `int` refuses thousands, of which all but the last may be zeros

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


# What routes ask of their callers


@dataclass(frozen=True)
class Access:
    """Who may call a route: holders of one of the `scopes`; of any key if there are none; everybody if it `is_open`.

    `uploads` says that the route's bodies may be as large as a data set, `counted` that requests take one off the
    caller's rate.
    """

    scopes: frozenset[Scope]
    is_open: bool = False
    uploads: bool = False
    counted: bool = True

    @property
    def security(self) -> list[dict[str, list[str]]]:
        """The security requirements of an OpenAPI operation, of which a caller has to meet one."""
        if self.is_open:
            return []
        return [{SCHEME: [scope.value]} for scope in Scope if scope in self.scopes] or [{SCHEME: []}]


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


def _name(route: APIRoute) -> str:
    return route.name


class GuardedRoute(APIRoute):
    """A route that asks the guard before anything of the request is read."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.access: Access = getattr(endpoint, _MARK, ADMIN)
        extra = {"security": self.access.security, **(options.pop("openapi_extra", None) or {})}
        options["generate_unique_id_function"] = _name  # generated clients call a method as its function is called here
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        access = self.access if scope["method"] in (self.methods or ()) else ADMIN
        guard_of(scope).admit(access, scope)
        await super().handle(scope, receive, send)


class OpenMount(Mount):
    """Files for everybody to read; any other method needs `admin`."""

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        access = OPEN if scope["method"] in ("GET", "HEAD") else ADMIN
        guard_of(scope).admit(access, scope)
        await super().handle(scope, receive, send)


def guard_routes(app: FastAPI, guard: Guard) -> None:
    """Ask `guard` about every request that `app` gets; TypeError if a route would not."""
    for context in iter_route_contexts(app.routes):
        if not isinstance(context.original_route, GuardedRoute | OpenMount):
            raise TypeError(f"{context.path} is not a guarded route: use GuardedRoute or OpenMount")
    absent = app.router.not_found

    async def guarded(scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            guard.admit(ADMIN, scope)
        await absent(scope, receive, send)

    app.state.guard = guard
    app.router.default = guarded


def guard_of(scope: ASGIScope) -> Guard:
    """The guard of the application that the request is for."""
    return cast(Guard, scope["app"].state.guard)


# Who may come in, how often, and with how much


class BodyLimits(NamedTuple):
    """Largest bodies in bytes."""

    default: int
    upload: int


class Guard:
    """Lets through only what it should; routes ask it when they are dispatched.

    It leaves in the request's state the `caller`, and `headers` to be added to the answer.
    """

    def __init__(self, keyring: Keyring, limits: BodyLimits, hosts: Iterable[str] = ()) -> None:
        self._keyring = keyring
        self._limits = limits
        self.most_bytes = limits.default
        self._hosts = frozenset(host.lower() for host in hosts)
        self._used = Windows()

    def admit(self, access: Access, scope: ASGIScope) -> None:
        """Raise the PayoffError to be answered where the request is not allowed, before anything of it is read."""
        if not scope["path"].isprintable():
            raise Invalid.at("", "the path has a control character or another that cannot be printed: leave it out")
        head = dict(scope["headers"])
        if head.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Unsupported("bodies are taken as they are: send no Content-Encoding (files may be gzipped)")
        if not access.is_open:
            self._identify(scope, head, counted=access.counted).need(access.scopes)
        check_query(scope.get("query_string", b""))
        passage = scope["state"]["passage"]
        passage.most = self._limits.upload if access.uploads else self._limits.default
        passage.streams = access.uploads
        if (announced(head.get(b"content-length", b"")) or 0) > passage.most:
            raise too_large(passage.most)

    def caller(self, scope: ASGIScope, head: Mapping[bytes, bytes]) -> Caller:
        """Who asks, `head` being the headers; raises the PayoffError to be answered otherwise. Counts nothing."""
        key = head.get(b"x-api-key")
        if key is None:
            bearer = head.get(b"authorization", b"")
            key = bearer[len(_BEARER) :].strip() if bearer[: len(_BEARER)].lower() == _BEARER else None
        caller = self._keyring.caller(key)
        if caller is self._keyring.anybody:
            check_site(scope, self._hosts)
        return caller

    def take(self, caller: Caller, scope: ASGIScope) -> tuple[list[Header], float]:
        """Take this request off the caller's rate, once: what the answer's headers say of it, and the seconds to wait.

        Seconds are 0 where the rate allows the request. One with many instances is one.
        """
        rate, state = caller.rate, scope["state"]
        if rate is None:
            return [], 0.0
        if "rate" in state:  # the entrance has asked, and could not answer
            return cast(tuple[list[Header], float], state["rate"])
        allowed = self._used.take(caller.client or self.address(scope), rate)
        name = b'"key"' if caller.client else b'"address"'
        policy = (b"ratelimit-policy", b"%b;q=%d;w=%d" % (name, rate.amount, rate.seconds))
        left = (b"ratelimit", b"%b;r=%d;t=%d" % (name, allowed.left, whole(allowed.seconds)))
        state["rate"] = [policy, left], allowed.wait
        return [policy, left], allowed.wait

    def holds(self, scope: ASGIScope) -> bool:
        """Whether the key of a request that was admitted is still in force."""
        return self._keyring.holds(scope["state"]["caller"])

    def address(self, scope: ASGIScope) -> str:
        """The address that a request counts for; behind trusted proxies the server has put the client's there."""
        return scope["client"][0] if scope.get("client") else ""

    def _identify(self, scope: ASGIScope, head: Mapping[bytes, bytes], *, counted: bool) -> Caller:
        headers = scope["headers"]
        for name in (KEY_HEADER, "Authorization") if len(head) != len(headers) else ():
            if sum(sent == name.lower().encode() for sent, _ in headers) > 1:  # readers differ in which one counts
                raise KeyMissing(f"the header {name!r} is sent twice; send one key")
        try:
            caller = self.caller(scope, head)
        except WrongKey:
            self._keyring.count_wrong_key(self.address(scope))
            raise
        state = scope["state"]
        state["caller"] = caller
        if counted and caller.rate is not None:
            state["headers"], wait = self.take(caller, scope)
            if wait:
                raise TooMany(
                    f"more than {caller.rate.amount} requests in {caller.rate.seconds} s", seconds=whole(wait)
                )
        return caller


# What a service without keys accepts: requests for this machine, and no writes from pages of other sites. A browser
# sends requests for any page: by DNS rebinding a foreign name becomes this machine's address, which only Host shows; a
# form on a foreign page can post here, which Origin and Sec-Fetch-Site show.

_LOOPBACK = re.compile(r"(.+\.)?localhost\.?|127(\.\d{1,3}){3}\.?|\[::1\]", re.ASCII)  # RFC 6761, section 6.3
_OF_PAGES = frozenset({b"origin", b"sec-fetch-site"})
_FOREIGN = frozenset({"cross-site", "same-site"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_MAX_HOST = 260  # characters: of a name and a port
_PORTS = {"http": ":80", "https": ":443"}
_SHOWN = 80  # characters of a header that an error repeats


def check_site(scope: ASGIScope, hosts: frozenset[str]) -> None:
    """Refused where the request is not for one of `hosts` or loopback, or is a write from another site's page."""
    named = _values(scope, b"host")
    if len(named) != 1 or len(named[0]) > _MAX_HOST or not _is_ours(named[0], hosts):
        raise Refused(
            "without keys the service answers requests for localhost and for the hosts in PAYOFF_HOSTS, not for"
            f" {_shown(named)}: add the host name there, without a port, or configure keys"
        )
    if scope["method"] in _READS or _OF_PAGES.isdisjoint(dict(scope["headers"])):
        return
    origins, sites = _values(scope, b"origin"), _values(scope, b"sec-fetch-site")
    if not all(_is_origin(origin, named[0]) for origin in origins) or not _FOREIGN.isdisjoint(sites):
        raise Refused(
            f"without keys only pages of {_shown(named)} may change anything, not a page of {_shown(origins)}:"
            " configure keys, or send the request without a browser; a reverse proxy has to pass on the Host header"
            " that it received, and PAYOFF_HOSTS has to contain that host"
        )


@lru_cache(maxsize=100)
def _is_ours(host: str, hosts: frozenset[str]) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and (found[1] in hosts or _LOOPBACK.fullmatch(found[1]) is not None)


def _values(scope: ASGIScope, header: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for name, value in scope["headers"] if name == header]


def _is_origin(origin: str, host: str) -> bool:
    """Whether a page of this origin was served by this host; ports that the scheme implies may be left out."""
    scheme, _, site = origin.partition("://")
    implied = _PORTS.get(scheme, "")
    return bool(site) and site.removesuffix(implied) == host.removesuffix(implied)


def _shown(texts: list[str]) -> str:
    return ", ".join(repr(text[:_SHOWN]) for text in texts[:2]) or "another site"


# What the entrance and the gate have in common

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PROCESS = secrets.token_hex(4)  # ids need to be unique, not secret, and random bytes are a system call each
_numbers = count(1)
_ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_UNLESS_OWN: tuple[Header, ...] = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),  # answers hold data, and what is true only now
)


def secured(headers: list[Header]) -> list[Header]:
    """The headers with those that are to be on every answer, unless it has its own.

    That browsers shall come by TLS only is for whoever ends TLS to say, in front of the service.
    """
    names = {name for name, _ in headers}
    return [*headers, *_ALWAYS, *(header for header in _UNLESS_OWN if header[0] not in names)]


def request_id_of(scope: ASGIScope) -> str:
    """The id that the request brings where it is one, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{_PROCESS}{next(_numbers):08x}"


def route_of(scope: ASGIScope) -> str:
    """The template of the request's path, of which there are few."""
    return getattr(scope.get("route"), "path", "unmatched")


class Record(NamedTuple):
    """Counts a request that was answered, and writes its line."""

    metrics: RequestMetrics
    access_log: bool
    write: Callable[[dict[str, Any]], None] = write_request

    def __call__(self, scope: ASGIScope, route: str, request_id: str, status: int, seconds: float) -> None:
        self.metrics.count(scope["method"], route, status, seconds)
        if self.access_log:
            line = {"request_id": request_id, "method": scope["method"], "path": told_path(scope["path"])}
            line["status"] = status
            line["ms"] = round(seconds * 1e3, 3)
            self.write(line)


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, and where it is too long to be read quickly."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def length_of_body(scope: ASGIScope) -> int | None:
    """The length of the body, 0 where there is none, None where only its end will tell."""
    head = dict(scope["headers"])
    if b"transfer-encoding" in head:
        return None
    return announced(head.get(b"content-length", b"0"))


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body may have at most {limit:,} bytes here")
