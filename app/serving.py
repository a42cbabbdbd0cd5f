"""`payoff serve`: the HTTP service in this process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager

import uvicorn

from app import allocator
from app.api.app import create_app
from app.api.hot_protocol import HotProtocol
from app.settings import Settings
from app.wiring import wire

_KEEP_ALIVE_SECONDS = 65  # longer than balancers and clients keep an idle connection, which otherwise send into its end
Starting = Callable[[], AbstractContextManager[None]]


class PortUnusable(Exception):
    """The port is in use, or not for this user; the text names it and the reason."""


def serve(settings: Settings, host: str, port: int, starting: Starting) -> None:
    """Answer until a signal; `starting` reports what is wrong with the settings. PortUnusable, before anything is
    loaded, where the port cannot be had.
    """
    allocator.keep_freed_memory()
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))  # uvicorn takes the port itself, but only after the start
    except OSError as error:
        raise PortUnusable(f"cannot listen at {host}:{port} ({error.strerror})") from error
    with starting():
        app = create_app(wire(settings))
    uvicorn.run(
        app,
        host=host,
        port=port,
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
