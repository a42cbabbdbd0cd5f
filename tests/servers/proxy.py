"""A place in the network that fails on demand: it passes on, refuses, swallows, or answers 503."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Coroutine
from typing import Any

from tests.servers.program import free_port

_CHUNK = 65536
_BODY = b"<Error><Code>SlowDown</Code><Message>come again</Message></Error>"
_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"


class Proxy:
    """Stands before a server on loopback; runs in a thread of its own."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.kills = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._busy = False
        self._flowing = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._server is not None

    def start(self) -> None:
        """Pass on, whatever it did before; what was held back while it hung goes on."""
        self._do(self._pass_on())

    def kill(self) -> None:
        """Reset every connection and refuse new ones, as when the server's machine has lost it."""
        self.kills += 1
        self._do(self._end())

    def hang(self) -> None:
        """Accept whatever comes and answer nothing, on old connections and new ones."""
        self._do(self._swallow())

    def unavailable(self) -> None:
        """Answer every HTTP request 503."""
        self._do(self._answer_busy())

    def close(self) -> None:
        self._do(self._end())
        self._do(self._end())  # who was just being accepted is a connection by now
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _pass_on(self) -> None:
        if self._busy:
            await self._end()
        self._busy = False
        self._flowing.set()
        await self._listen()

    async def _swallow(self) -> None:
        self._flowing.clear()
        await self._listen()

    async def _answer_busy(self) -> None:
        await self._end()
        self._busy = True
        self._flowing.set()
        await self._listen()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _end(self) -> None:
        if self._server is not None:
            for listener in self._server.sockets:
                self._loop.remove_reader(listener)
            await asyncio.sleep(0.01)  # who was just being accepted when a server closes would never be closed
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0.01)  # what was aborted is closed in the turns of the loop that follow

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await (_refuse(reader, writer) if self._busy else self._join(reader, writer))
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            ways = [asyncio.ensure_future(way) for way in (self._pump(reader, back), self._pump(there, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                await _drained(writer)
            finally:
                back.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while part := await source.read(_CHUNK):
            await self._flowing.wait()
            sink.write(part)
            await sink.drain()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    if length is not None and b"100-continue" not in head.lower():
        await reader.readexactly(int(length[1]))
    writer.write(_BUSY % (len(_BODY), _BODY))
    await _drained(writer)


async def _drained(writer: asyncio.StreamWriter) -> None:
    """Say all and close in good order, as far as the other side lets us."""
    with contextlib.suppress(OSError):
        writer.close()
        await asyncio.wait_for(writer.wait_closed(), 1)
