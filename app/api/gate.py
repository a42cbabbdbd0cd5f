"""The gate: what happens to every request before its route is asked, and to every answer on its way out.

`Gate` is the one ASGI layer around the application. On the way in a request gets an id and, unless it is a health
check, a place among those in progress. Which route it is for is known only where it is dispatched: there `Guard.admit`
says who asks, whether they may, how often, and how large the body may be. `Passage` bounds the body in bytes and time,
charges it and the answer to the budget of memory, and puts on the headers of every answer. At the end come the log line
and the metrics. Slow clients, connections, sizes of headers and TLS are for the server and the balancer in front.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple, cast

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import tracing
from app.access.caller import Caller, Keyring, WrongKey
from app.access.rates import Windows, whole
from app.api.budget import SMALL, Budget, Share, announced, length_of_body
from app.api.errors import in_form, problem, respond
from app.api.permits import Access
from app.errors import Busy, Invalid, KeyMissing, PayoffError, Refused, TooLarge, TooMany, TooSlow, Unsupported
from app.logs import told_path, write_request
from app.metrics import RequestMetrics
from app.text import check_query

Header = tuple[bytes, bytes]
KEY_HEADER = "X-API-Key"
MAX_AT_ONCE = 1_000  # event streams and requests that wait for a thread are among them
BODY_SECONDS = 300.0  # for a whole body; the balancer in front reads slow ones before it passes them on
CLIENT_GONE = 499  # the client disconnected before the response; logged only
_HEALTH = "/health/"
_BEARER = b"bearer "
_log = structlog.get_logger("payoff.request")


# Every request


class Record(NamedTuple):
    """Counts a request that was answered, and writes its line."""

    metrics: RequestMetrics
    access_log: bool
    traced: bool = False
    write: Callable[[dict[str, Any]], None] = write_request

    def __call__(self, scope: Scope, route: str, request_id: str, status: int, seconds: float) -> None:
        self.metrics.count(scope["method"], route, status, seconds)
        if self.access_log:
            line = {"request_id": request_id, "method": scope["method"], "path": told_path(scope["path"])}
            line["status"] = status
            line["ms"] = round(seconds * 1e3, 3)
            if self.traced:
                line["trace_id"] = tracing.trace_id()
            self.write(line)


class Gate:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, record: Record, budget: Budget, most: int = MAX_AT_ONCE) -> None:
        self._app = app
        self._record = record
        self._budget = budget
        self._most = most
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        passage = Passage(scope, receive, send, Share(self._budget), traced=self._record.traced)
        structlog.contextvars.bind_contextvars(request_id=passage.request_id)
        try:
            with self._place(scope["path"]):
                await self._app(scope, passage.receive, passage.send)
            passage.complete()
        except ClientDisconnect:
            pass
        except Exception as error:
            if isinstance(error, PayoffError):  # that no layer further in has answered
                response = respond(error)
            else:
                _log.exception("unexpected error")
                words = f"unexpected error; see the log for request {passage.request_id}"
                response = problem(500, "Internal Server Error", words)
            if passage.status:
                raise  # the answer has begun: all that is left is to break the connection off
            await in_form(scope, response)(scope, receive, passage.send)
        finally:
            passage.share.close()
            seconds = perf_counter() - began
            self._record(scope, _route(scope), passage.request_id, passage.status or CLIENT_GONE, seconds)
            structlog.contextvars.clear_contextvars()

    @contextmanager
    def _place(self, path: str) -> Iterator[None]:
        """A place among the requests in progress; Busy where there is none, except for health checks."""
        if path.startswith(_HEALTH):
            yield
            return
        if self._running >= self._most:
            raise Busy(f"{self._most:,} requests are in progress; try again later", seconds=1)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


class Passage:
    """One request: its body on the way in, its answer on the way out. `Guard.admit` says how large the body may be.

    Of an answer that comes in parts, such as a file, only one part is in memory at a time, and charged.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, share: Share, *, traced: bool) -> None:
        self.share = share
        self.request_id = request_id_of(scope)
        self.status = 0  # of the answer, once it has begun
        self.most = 0
        self._scope, self._receive, self._send, self._traced = scope, receive, send, traced
        self._announced = length_of_body(scope)
        self._seen = 0
        self._until: float | None = None
        self._read = False
        self._start: Message | None = None  # of a long answer, until its first part tells whether it comes whole
        self._refused: PayoffError | None = None
        scope.setdefault("state", {}).update(request_id=self.request_id, passage=self, memory=share)

    async def receive(self) -> Message:
        """The next part of the body; TooLarge, TooSlow, or Busy where it does not fit into memory now."""
        if self._read:
            return await self._receive()
        charged = self._announced is None or self._announced > SMALL
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + BODY_SECONDS
            if charged:
                self.share.expect(self._announced or 0)
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {BODY_SECONDS:g} s") from error
        self._read = not message.get("more_body", False)
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._seen += size
            if self._seen > self.most:
                raise _too_large(self.most)
            if charged:
                self.share.receive(size)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer. A long one is charged before it begins, and counts as sent once the client has
        read it; where it does not fit, `complete` answers.
        """
        if self._refused is not None:
            return
        if message["type"] == "http.response.start":
            if int(dict(message["headers"]).get(b"content-length", 0)) > SMALL:
                self._start = message
            else:
                await self._begin(message)
            return
        size = len(message.get("body", b""))
        if self._start is not None:
            try:
                self.share.answer(size)
            except PayoffError as error:
                self._refused = error
                return
            start, self._start = self._start, None
            await self._begin(start)
        if size > SMALL and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            message = {"type": "http.response.body"}  # the server takes it when the client has read nearly all
        await self._send(message)

    def complete(self) -> None:
        """Raise what the answer was refused for."""
        if self._refused is not None:
            refused, self._refused, self._start = self._refused, None, None
            raise refused

    async def _begin(self, start: Message) -> None:
        self.status = start["status"]
        if self._traced:  # before the answer's end, which ends the span
            scope = self._scope
            path, asks = told_path(scope["path"]), bool(scope["query_string"])
            tracing.describe(scope["method"], _route(scope), path, asks, self.request_id)
        own = (b"x-request-id", self.request_id.encode())
        start["headers"] = secured([*start["headers"], own, *self._scope["state"].get("headers", ())])
        await self._send(start)


# Who may come in, where, how often, and with how much


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

    def admit(self, access: Access, scope: Scope) -> None:
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
        passage.share.streams = access.uploads
        if (announced(head.get(b"content-length", b"")) or 0) > passage.most:
            raise _too_large(passage.most)

    def caller(self, scope: Scope, head: Mapping[bytes, bytes]) -> Caller:
        """Who asks, `head` being the headers; raises the PayoffError to be answered otherwise. Counts nothing."""
        key = head.get(b"x-api-key")
        if key is None:
            bearer = head.get(b"authorization", b"")
            key = bearer[len(_BEARER) :].strip() if bearer[: len(_BEARER)].lower() == _BEARER else None
        caller = self._keyring.caller(key)
        if caller is self._keyring.anybody:
            check_site(scope, self._hosts)
        return caller

    def take(self, caller: Caller, scope: Scope) -> tuple[list[Header], float]:
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

    def holds(self, scope: Scope) -> bool:
        """Whether the key of a request that was admitted is still in force."""
        return self._keyring.holds(scope["state"]["caller"])

    def address(self, scope: Scope) -> str:
        """The address that a request counts for; behind trusted proxies the server has put the client's there."""
        return scope["client"][0] if scope.get("client") else ""

    def _identify(self, scope: Scope, head: Mapping[bytes, bytes], *, counted: bool) -> Caller:
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
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_PAGES = frozenset({b"origin", b"sec-fetch-site"})
_FOREIGN = frozenset({"cross-site", "same-site"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_MAX_HOST = 260  # characters: of a name and a port
_PORTS = {"http": ":80", "https": ":443"}
_SHOWN = 80  # characters of a header that an error repeats


def check_site(scope: Scope, hosts: frozenset[str]) -> None:
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


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1").strip().lower() for name, value in scope["headers"] if name == header]


def _is_origin(origin: str, host: str) -> bool:
    """Whether a page of this origin was served by this host; ports that the scheme implies may be left out."""
    scheme, _, site = origin.partition("://")
    implied = _PORTS.get(scheme, "")
    return bool(site) and site.removesuffix(implied) == host.removesuffix(implied)


def _shown(texts: list[str]) -> str:
    return ", ".join(repr(text[:_SHOWN]) for text in texts[:2]) or "another site"


# Small parts of the above

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


def request_id_of(scope: Scope) -> str:
    """The id that the request brings where it is one, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{_PROCESS}{next(_numbers):08x}"


def _route(scope: Scope) -> str:
    """The template of the request's path, of which there are few."""
    return getattr(scope.get("route"), "path", "unmatched")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body may have at most {limit:,} bytes here")
