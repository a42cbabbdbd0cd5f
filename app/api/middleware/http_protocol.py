"""Bounds of connections that the server's fast parser does not have: their number, the size of heads, trailers and
chunk extensions, the number of pipelined requests, and the time that a client may take to send or to read. What the
hot path answers is answered here, without a task.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.errors import problem
from app.api.hot_path import Head, Hot, HotPath
from app.api.middleware.closing import Closing
from app.api.middleware.connections import crowd_of, most_connections
from app.api.middleware.observe import CLIENT_GONE
from app.api.middleware.timeouts import Wait, Waiting, watch

# without a part of a body, besides what came in one piece with one, or with a request's beginning
MAX_BYTES = 64 * 1024
MAX_FIELDS = 200  # each takes some 200 bytes, however short it is
MAX_PIPELINED = 100  # each takes some 3 kB, however short it is
MAX_AT_ONCE = 20  # answers, or kB of requests, of one piece of the stream: other connections wait meanwhile
_SMALLEST_CHUNK = 6  # bytes on the wire of a chunk with one byte
_CLOSE = (b"connection", b"close")
DRAINED_BYTES = 256 * 1024  # what is still read of a request that is answered already


class BoundedHeads(HttpToolsProtocol):
    """The server's protocol with bounds.

    A request line, headers, trailers or chunk extensions of more than `MAX_BYTES` get 431. An answer that is complete
    before its request is carries `Connection: close`; then at most `DRAINED_BYTES` are read, and thrown away. Clients
    that are slower than `waits` allows get 408, or are disconnected where an answer has begun.
    """

    waits = Waiting.LIMITS
    most = staticmethod(most_connections)  # of one server; beyond it the one that has waited longest is closed

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.requests = 0  # that began on this connection
        self.body_bytes = 0  # of all of them
        self.in_head = False
        self.in_body = False
        self._keep_alive = True  # as the client wants it
        self._other_bytes = 0  # of the request: what is not body, less what the body allows
        self._closing = cast(Closing, None)
        self._waiting = Waiting()
        self._crowd = crowd_of(self.server_state)
        self._hot_path: HotPath | None = getattr(getattr(self.app, "state", None), "hot_path", None)
        self._held: tuple[RequestResponseCycle, Head] | None = None  # what the hot path may answer when complete
        self._at_once = 0  # of `MAX_AT_ONCE`

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._closing = Closing(transport, self.has_unread)
        super().connection_made(cast(asyncio.Transport, self._closing))
        watch(self.server_state, self.loop)
        self._crowd.wait(self)
        if len(self.connections) > self.most():
            self._crowd.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._crowd.leave(self)
        self._closing.forget()

    def evict(self) -> None:
        """Close at once what waits for a request, or for its client to close."""
        self._closing.finish()

    def has_unread(self) -> bool:
        """Whether the client has begun a request and not ended it."""
        return self.in_head or self.in_body

    # What the parser finds

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many pipelined requests")
        super().on_message_begin()
        self.requests += 1
        self._other_bytes = 0
        self.in_head = True

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_FIELDS:
            raise ValueError("too many headers")
        super().on_headers_complete()
        self._crowd.leave(self)
        self.in_head = False
        self.headers = _DROPPED  # trailers must not add to the headers, see RFC 9110, 6.5.1
        self.in_body = True
        self._keep_alive = self.cycle.keep_alive and not self.parser.should_upgrade()
        self.cycle.keep_alive = False  # until the request is complete: an earlier answer closes the connection

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.body_bytes += len(body)
        self._other_bytes = max(self._other_bytes - _SMALLEST_CHUNK * len(body), 0)

    def on_message_complete(self) -> None:
        self.in_body = False
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        super().on_message_complete()
        if self._held is not None and not self._answer_at_once(*self._held):
            self._start_held()

    # What the hot path answers

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Hold back what the hot path may answer, as long as the bytes that came in one piece are parsed."""
        head = None
        if self._hot_path is not None:
            head = self._hot_path.plain_head(cast(Scope, cycle.scope))
        if head is None:
            super()._start_asgi_task(cycle, app)
        else:
            self._held = (cycle, head)

    def _start_held(self) -> None:
        assert self._held is not None
        (cycle, _), self._held = self._held, None
        super()._start_asgi_task(cycle, self.app)

    def _answer_at_once(self, cycle: RequestResponseCycle, head: Head) -> bool:
        """Answer a complete request without a task, if the hot path does; pipelined requests follow as usual.

        Beyond `MAX_AT_ONCE`, and where the client does not read, the request and those that follow it take the plain
        way, on which they are counted and wait.
        """
        if (
            self._at_once >= MAX_AT_ONCE
            or not cycle.keep_alive
            or self.flow.write_paused
            or cycle.disconnected
            or self.transport.is_closing()
        ):
            return False
        assert self._hot_path is not None
        self._at_once += 1 + (len(cycle.body) >> 10)
        answer = self._hot_path.answer(cast(Scope, cycle.scope), head, bytes(cycle.body))
        if answer is None:
            return False
        if answer.batch is None:
            self._held = None
            self._send(cycle, answer)
            self._hot_path.count(cast(Scope, cycle.scope), answer)  # now that the client has it
            return True
        try:
            self._hot_path.submit(answer, self.loop, partial(self._send_recorded, cycle, answer))
        except Exception as error:  # noqa: BLE001 - the plain way answers it
            self._hot_path.leave_error(cast(Scope, cycle.scope), error)
            return False
        self._held = None
        return True

    def _send(self, cycle: RequestResponseCycle, answer: Hot) -> None:
        cycle.response_started = cycle.response_complete = True
        self.transport.write(
            answer.lines(cycle.default_headers if cycle.keep_alive else [*cycle.default_headers, _CLOSE])
        )
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _send_recorded(self, cycle: RequestResponseCycle, answer: Hot, error: BaseException | None) -> None:
        """Send the answer, if its decisions are recorded; else the plain way tells why not."""
        assert self._hot_path is not None
        if self.transport.is_closing():
            cycle.disconnected = True  # the server marks only the newest of pipelined requests
        if error is not None:
            self._hot_path.leave_error(cast(Scope, cycle.scope), error)
            super()._start_asgi_task(cycle, self.app)
            return
        self._hot_path.count(cast(Scope, cycle.scope), answer, CLIENT_GONE if cycle.disconnected else 200)
        if not cycle.disconnected:
            self._send(cycle, answer)

    def on_response_complete(self) -> None:
        """Without the server's timer for each answer: `check` closes what waits for a request for too long."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                super()._start_asgi_task(*self.pipeline.pop())
        if self.cycle.response_complete:  # else one of the pipeline has begun
            self._crowd.wait(self)

    def _should_upgrade(self) -> bool:
        """There is no WebSocket here: a request for one is answered like any other."""
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """No lines in the log for what any client can send."""

    def shutdown(self) -> None:
        self._keep_alive = False
        super().shutdown()

    # What comes over the wire

    def data_received(self, data: bytes) -> None:
        if self._closing.lingering:
            self._closing.drained += len(data)
            if self._closing.drained > DRAINED_BYTES:
                self._closing.finish()
            return
        self._other_bytes += len(data)
        self._at_once = 0
        super().data_received(data)
        if self._held is not None:
            self._start_held()
        if self._other_bytes > MAX_BYTES or (self.in_head and len(self.headers) > MAX_FIELDS):
            self.refuse(431, f"headers and trailers may have at most {MAX_BYTES:,} bytes and {MAX_FIELDS} fields")

    def send_400_response(self, _msg: str) -> None:
        self.refuse(400, "this is not an HTTP request that the server understands")

    def refuse(self, status: int, detail: str) -> None:
        """Answer the request that is being received with a problem, where no answer has begun, and close."""
        if self._closing.is_closing():
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy or (self.in_body and not self.pipeline and not self.cycle.response_started):
            self.transport.write(_answer(status, detail))
        if busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    # What happens every second

    def check(self, now: float) -> None:
        """Disconnect a client that neither sends nor reads what it should."""
        wait, progress = self._awaited()
        if not self._waiting.is_over(self.waits, wait, progress, now):
            return
        if wait is Wait.BODY or (wait is Wait.HEAD and self.in_head):
            self.refuse(408, "the request was not received in time")
        elif wait is Wait.HEAD:
            self.transport.close()
        else:
            self._closing.abort()

    def _awaited(self) -> tuple[Wait, int]:
        """What the client has to do next, and a number that changes as it does so."""
        unsent = self._closing.get_write_buffer_size()
        if unsent:
            return Wait.READ, unsent
        if self._closing.lingering:
            return Wait.CLOSE, 0
        if self.cycle is None or self.cycle.response_complete:
            return Wait.HEAD, self.requests
        if self.in_body and not self.flow.read_paused:
            return Wait.BODY, self.body_bytes
        return Wait.NOTHING, 0


def _answer(status: int, detail: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    response = problem(status, phrase, detail)
    headers = [*response.raw_headers, (b"connection", b"close")]
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, phrase.encode(), lines, bytes(response.body))


class _Dropped(list[tuple[bytes, bytes]]):
    def append(self, _field: tuple[bytes, bytes]) -> None:
        """Keep nothing."""


_DROPPED = _Dropped()
