"""A bound on the head of a request, which the server's fast parser does not have: without it one connection can fill
the memory with headers that never end.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.errors import problem

MOST_BYTES = 64 * 1024  # besides what came in one piece with the end of the head, or with its beginning


class BoundedHeads(HttpToolsProtocol):
    """The server's protocol, which breaks off a request line and headers of more than `MOST_BYTES` with 431."""

    _head_bytes = -1  # below 0 while no head is being read

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_BYTES:
                self._head_bytes = -1
                self._refuse()

    def _refuse(self) -> None:
        title = "Request Header Fields Too Large"
        response = problem(431, title, f"the request line and headers may have at most {MOST_BYTES:,} bytes")
        head = [*response.raw_headers, (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in head)
        self.transport.write(b"HTTP/1.1 431 " + title.encode() + b"\r\n" + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
