"""Closing a connection on which the client still sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Closing:
    """A transport whose `close` first ends the answer alone while the client still sends.

    Closing a socket with unread bytes resets the connection, and the client may lose the answer (RFC 9112, 9.6). So
    the answer's end is sent, and the owner goes on reading a little: it counts in `drained`, and calls `finish`.
    What is written after the end, for requests that came before it, is dropped: the transport would raise an error.
    """

    def __init__(self, transport: asyncio.Transport, has_unread: Callable[[], bool]) -> None:
        self._transport = transport
        self._has_unread = has_unread
        self.lingering = False
        self.drained = 0
        self.write: Callable[[bytes], None] = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingering or self._transport.is_closing()

    def close(self) -> None:
        if self.lingering or self._transport.is_closing():
            return
        if self._has_unread():
            self.lingering = True
            self.write = _drop
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def finish(self) -> None:
        """Read no more, and close as soon as the answer is sent."""
        self._transport.close()

    def forget(self) -> None:
        """Let go of the owner; the connection is lost."""
        self._has_unread = bool
        self.write = _drop


def _drop(_part: bytes) -> None:
    """Nobody reads it."""
