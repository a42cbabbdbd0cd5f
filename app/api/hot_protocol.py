"""The entrance for plain requests inside the server: an answer of the entrance is written without a
task.

Through ASGI alone the same answers reach less than .7 of the bare route's requests per second;
`benchmarks/serving.py` measures it. Everything else is uvicorn's, whose private parts this uses:
its version is pinned.
"""

from typing import Any, cast

from starlette.types import Scope
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)

from app.api.entrance import HELD_SECONDS, Entrance, Head
from app.api.errors import problem
from app.api.exchange import ALWAYS

_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
_UPGRADE = (
    "the request has a body and asks for an upgrade to another protocol: send it as HTTP/1.1"
    " without the header Upgrade (in Java: HttpClient.Version.HTTP_1_1)"
)


class HotProtocol(HttpToolsProtocol):
    """uvicorn's protocol. The first complete request of each piece of the stream is offered to the
    entrance; those that are pipelined behind it take the plain way, so that one connection does not
    hold the event loop.
    """

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        state = getattr(config.app, "state", None)
        service = getattr(state, "service", None)
        self._entrance: Entrance | None = getattr(service, "entrance", None)
        # The plain request whose body is not complete.
        self._held: tuple[RequestResponseCycle, Head] | None = None
        self._may_hold = False

    def data_received(self, data: bytes) -> None:
        self._may_hold = self._entrance is not None
        before = self._held
        super().data_received(data)
        if self._held is not None and self._held is before:
            # The body comes in more than two pieces; the plain way limits its time.
            self._start_held()
        elif self._held is not None:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                HELD_SECONDS, self._start_held
            )
        # no timer is set where a request begins between two pieces
        self._may_hold = False

    def _start_asgi_task(
        self, cycle: RequestResponseCycle, app: ASGI3Application
    ) -> None:
        self._unset_keepalive_if_required()  # armed by the answer to a request of the same piece
        head = None
        if (
            self._may_hold
            and cycle is self.cycle
            and cycle.more_body
            and app is self.app
        ):
            assert self._entrance is not None
            head = self._entrance.plain_head(cast(Scope, cycle.scope))
        if head is None:
            super()._start_asgi_task(cycle, app)
        else:
            self._held = (cycle, head)
            self._may_hold = False

    def on_headers_complete(self) -> None:
        """ValueError for an upgrade with a body: the parser takes that for the next request."""
        if self.parser.should_upgrade() and not _BODY_HEADERS.isdisjoint(
            dict(self.headers)
        ):
            raise ValueError(
                _UPGRADE
            )  # the parser has the protocol answer 400 and close
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, or a request for an upgrade, and close."""
        detail = _UPGRADE if self.parser.should_upgrade() else msg
        scope = {"path": (self.url or b"").decode("latin-1")}
        response = problem(
            scope, 400, "Bad Request", detail, headers={"Connection": "close"}
        )
        headers = [*self.server_state.default_headers, *response.raw_headers, *ALWAYS]
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (head, bytes(response.body))
        )
        self.transport.close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._held is not None and not self._answer(*self._held):
            self._start_held()

    def _start_held(self) -> None:
        assert self._held is not None
        cycle, _ = self._held
        self._held = None
        if not self.transport.is_closing():
            super()._start_asgi_task(cycle, self.app)

    def _answer(self, cycle: RequestResponseCycle, head: Head) -> bool:
        """Whether the entrance has answered."""
        assert self._entrance is not None
        if (
            not cycle.keep_alive
            or self.flow.write_paused
            or self.transport.is_closing()
        ):
            return False
        scope = cast(Scope, cycle.scope)
        answer = self._entrance.answer(scope, head, bytes(cycle.body))
        if answer is None:
            return False
        self._held = None
        cycle.response_started = cycle.response_complete = True
        self.transport.write(answer.lines(cycle.default_headers))
        self.on_response_complete()
        self._entrance.count(scope, answer)  # after writing, to delay nothing
        return True
