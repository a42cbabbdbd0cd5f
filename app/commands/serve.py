"""`payoff serve`: the HTTP service in this process."""

import argparse
import sys
from contextlib import suppress
from socket import socket

import uvicorn

from app.api.hot_protocol import HotProtocol
from app.opening import starting
from app.service import start
from app.settings import Settings

# Balancers and clients keep an idle connection for a shorter time. If the service closed it before
# them, they would send requests into a closed connection.
_KEEP_ALIVE_SECONDS = 65


class _Server(uvicorn.Server):
    """A server that prints its address, on standard error beside the log, once it listens."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            sys.stderr.write(f"Payoff is at http://{shown}:{port} (Ctrl+C stops it)\n")


def run(chosen: argparse.Namespace) -> int:
    """Answer until a signal; uvicorn exits with 3 where the port cannot be had."""
    with starting():
        settings = Settings()
        app = start(settings)
    config = uvicorn.Config(
        app,
        host=chosen.host,
        port=chosen.port,
        loop="uvloop",
        http=HotProtocol,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        access_log=False,  # the service writes its own, with request ids
        log_config=None,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=int(settings.shutdown_seconds),
    )
    with suppress(KeyboardInterrupt):  # which uvicorn raises again once it has stopped
        _Server(config).run()
    return 0
