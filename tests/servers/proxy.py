"""A place in the network that fails on demand: it passes on, refuses, swallows, or answers 503."""

import asyncio
import contextlib
import sys

from tests.servers.program import Program, free_port, listening

_CHUNK = 65536
_BUSY = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: 36\r\n\r\n"
    b"<Error><Code>SlowDown</Code></Error>"
)


class Proxy(Program):
    """Stands before a server on loopback. Killed, it resets its connections and refuses new ones; `start` makes it pass
    on again, whatever it did before, and what was held back while it hung goes on.
    """

    name = "proxy"
    module = "tests.servers.proxy"

    def __init__(self, target: int) -> None:
        super().__init__()
        self.port = free_port()
        self._target = target
        self._busy = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return [str(self.port), str(self._target), *["busy"] * self._busy]

    def ready(self) -> bool:
        return listening(self.port)

    def start(self, *, wait: bool = True) -> None:
        if self._busy:
            self._as(busy=False)
        elif self.running:
            self.resume()
        else:
            super().start(wait=wait)

    def hang(self) -> None:
        """Accept whatever comes and answer nothing, on old connections and new ones."""
        self.start()
        self.pause()

    def unavailable(self) -> None:
        """Answer every HTTP request 503."""
        self._as(busy=True)

    def _as(self, *, busy: bool) -> None:
        self.kill()
        self._busy = busy
        super().start()


async def _serve(port: int, target: int, *, busy: bool) -> None:
    async def accept(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with (
            contextlib.suppress(OSError, asyncio.IncompleteReadError),
            contextlib.closing(writer),
        ):
            if busy:
                await _refuse(reader, writer)
                return
            there, back = await asyncio.open_connection("127.0.0.1", target)
            with contextlib.closing(back):
                ways = [
                    asyncio.ensure_future(way)
                    for way in (_pump(reader, back), _pump(there, writer))
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)

    async with await asyncio.start_server(accept, "127.0.0.1", port) as server:
        await server.serve_forever()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(_CHUNK):
            sink.write(part)
            await sink.drain()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"content-length:" in head and b"100-continue" not in head:
        await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
    writer.write(_BUSY)
    await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), busy=len(sys.argv) > 3))
