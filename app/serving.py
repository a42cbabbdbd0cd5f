"""`payoff serve`: the HTTP service in this process, or in several that share one port and the memory of models."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import structlog
import uvicorn
from fastapi import FastAPI

from app import allocator
from app.api.app import create_app
from app.api.middleware.connections import backlog, raise_descriptor_limit
from app.api.middleware.http_protocol import BoundedHeads
from app.pulse import Pulse
from app.settings import Settings
from app.siblings import Siblings, shared_folder
from app.stores import load_shared
from app.supervisor import PortUnusable, Supervisor, listener, reserved
from app.wiring import ServiceProcess, wire

__all__ = ["PortUnusable", "serve"]

_log = structlog.get_logger("payoff")
Starting = Callable[[], AbstractContextManager[None]]
_GRACE_SECONDS = 8.0  # after those for running requests: a worker that stops, its job, and the last spans


def serve(settings: Settings, host: str, port: int, starting: Starting) -> None:
    """Answer until a signal; `starting` reports what is wrong with the settings. PortUnusable, before anything is
    loaded, where the port cannot be had.
    """
    raise_descriptor_limit()
    allocator.keep_freed_memory()
    if settings.processes > 1:
        _serve_in_processes(settings, host, port, starting)
        return
    with reserved(host, port):
        pass  # the server takes it itself, but only after the start
    with starting():
        app = create_app(wire(settings))
    _server(app, settings, host=host, port=port).run()


def _serve_in_processes(settings: Settings, host: str, port: int, starting: Starting) -> None:
    with reserved(host, port) as kept, shared_folder() as folder:
        with starting():
            models = load_shared(settings)
        _log.info("processes listen at one port", host=host, port=kept, processes=settings.processes)
        pulse = Pulse(settings.processes)
        gc.freeze()  # a search for garbage would write into all memory that the processes share

        def answer(number: int) -> None:
            process = ServiceProcess(number, settings.processes, Siblings(folder, number, pulse), models)
            with starting():
                app = create_app(wire(settings, process))

            server = _server(app, settings, host=host, port=kept, beat=partial(pulse.beat, number))
            server.run([listener(host, kept)])

        grace = settings.shutdown_seconds + _GRACE_SECONDS
        silence = max(settings.hang_seconds, grace)  # one that is stopping gives no sign of life
        Supervisor(answer, settings.processes, grace, pulse=pulse, silence=silence).run()


class _Server(uvicorn.Server):
    """The server with a sign of life ten times a second or, where a turn of the event loop takes longer, in each.

    Its own `callback_notify` comes once in ten such turns, so that an overloaded process would count as hung, and by
    a clock that may be set back.
    """

    def __init__(self, config: uvicorn.Config, beat: Callable[[], None]) -> None:
        super().__init__(config)
        self._beat = beat

    async def on_tick(self, counter: int) -> bool:
        self._beat()
        return await super().on_tick(counter)


def _server(
    app: FastAPI, settings: Settings, *, host: str, port: int, beat: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=BoundedHeads,
        backlog=backlog(),
        ws="none",
        access_log=False,  # the service writes its own, with request ids
        log_config=None,
        proxy_headers=False,  # PAYOFF_TRUSTED_PROXIES lists the trusted proxies
        timeout_graceful_shutdown=int(settings.shutdown_seconds),
    )
    return _Server(config, beat)
