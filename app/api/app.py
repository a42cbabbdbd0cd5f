"""The application: routes, layers and the life of the service, around the stores it is given."""

import gc
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType

import structlog
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from app import __version__
from app.api import errors, openapi, routes
from app.api.entrance import PATH
from app.api.exchange import ExchangeLayer
from app.api.gate import install
from app.api.routes import console
from app.api.routing import DirectRoute
from app.api.service import Service
from app.jobs import processes

_log = structlog.get_logger("payoff")
# The time after which a thread that computes gives the interpreter's lock to the event loop.
_SWITCH_SECONDS = 0.001
_DESCRIPTION = """
Most prediction services stop at a probability. Payoff answers the question that follows it.

Every operation below carries an example that works: tried from top to bottom, they take one small
table from upload to decision. (Only cancelling comes too late by then: 409.)
"""
_TAGS = [
    {
        "name": "train",
        "description": "Tables to learn from, and jobs that make models of them.",
    },
    {"name": "predict", "description": "Which action pays most."},
    {
        "name": "acquire",
        "description": "Which feature to learn next, and when enough is known.",
    },
    {"name": "retrieve", "description": "Which set of items costs least."},
    {"name": "jobs", "description": "How a job stands, whatever it does."},
    {
        "name": "compare",
        "description": "Which learner and which rule earn most on your own data.",
    },
    {
        "name": "models",
        "description": "Published models, their versions and aliases; and models made elsewhere.",
    },
    {"name": "outcomes", "description": "What became of recorded decisions."},
    {
        "name": "inference protocol",
        "description": "The Open Inference Protocol v2, for clients that speak it.",
    },
    {"name": "service", "description": "Health, metrics, and who changed what."},
    {"name": openapi.LAST_TAG, "description": "What removes things, or stops them."},
]


def create_app(service: Service) -> FastAPI:
    """Build the ASGI application around `service`; its lifespan starts and stops the stores."""
    app = FastAPI(
        title="Payoff",
        summary="Predictions that decide.",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        openapi_url=None,  # the document and the page are our own, below
        redirect_slashes=False,  # a path has one spelling
        # Prometheus has the metrics; logs would contain requests.
        telemetry={"metrics": False, "logs": False},
        lifespan=_lifespan,
    )
    app.state.service = service
    errors.install(app)
    _include_routes(app)
    if service.console:
        console.install(app)
    install(app, service.gate)
    app.add_middleware(
        ExchangeLayer,
        memory=service.memory,
        records=service.records,
        shortcuts={PATH: service.entrance.offer},
    )
    return app


def _include_routes(app: FastAPI) -> None:
    """Add the routes of the package `app.api.routes`, those that take the request itself first."""
    modules = list(routes.modules())
    direct: list[DirectRoute] = [
        module.route for module in modules if hasattr(module, "route")
    ]
    app.router.routes[:0] = direct
    app.include_router(openapi.router)
    for module in modules:
        if hasattr(module, "router"):
            app.include_router(module.router)
    openapi.install(
        app, [route.body_type for route in direct if route.body_type is not None]
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.keyring.start()
    service.stores.registry.start()
    await run_in_threadpool(service.stores.documents.start)
    service.shadow.start()
    if service.worker is not None:
        service.worker.start()
    processes.start()
    _announce_stopping(service.stopping)
    _quiet_collector()
    sys.setswitchinterval(_SWITCH_SECONDS)
    _log.info("started", version=__version__)
    try:
        yield
    finally:
        service.stopping.set()
        if service.worker is not None:
            service.worker.stop()
        service.shadow.stop()
        await run_in_threadpool(service.stores.recorder.stop)
        service.stores.registry.stop()
        service.stores.database.close()
        _log.info("stopped")


def _quiet_collector() -> None:
    """Exempt the objects that live as long as the service from garbage collection, which would only
    pause it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _announce_stopping(stopping: threading.Event) -> None:
    """Set `stopping` at the first signal to end, before the server closes its listener: readiness
    turns to 503 and event streams end, so that a balancer chooses another server and this one need
    not wait for streams.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        previous = signal.getsignal(number)
        if not callable(previous):
            continue

        def handle(
            signum: int, frame: FrameType | None, previous: object = previous
        ) -> None:
            stopping.set()
            assert callable(previous)
            previous(signum, frame)

        signal.signal(number, handle)
