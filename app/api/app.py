"""The application: routes, layers and the life of the service, around the stores it is given."""

import gc
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import FrameType

import structlog
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from app import __version__
from app.access.caller import Keyring
from app.answering.shadow import ShadowDecider
from app.api import errors, openapi, routes
from app.api.entrance import Door, Entrance
from app.api.gate import Gate, install
from app.api.limiters import Limiters
from app.api.memory import BodyLimits, Memory
from app.api.routes import console
from app.api.routing import DirectRoute
from app.jobs import processes
from app.jobs.worker import Worker
from app.monitoring.metrics import Metrics
from app.stores import Stores

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


@dataclass(frozen=True)
class Service:
    """The parts that the application runs on: stores, a worker (or none), keys and limits."""

    stores: Stores
    worker: Worker | None
    keyring: Keyring
    limits: BodyLimits
    access_log: bool
    memory: Memory = field(default_factory=lambda: Memory(512 * 2**20))
    hosts: tuple[str, ...] = ()
    console: bool = True


def create_app(service: Service) -> FastAPI:
    """Build the ASGI application around `service`; its lifespan starts and stops the stores."""
    metrics = Metrics(service.stores, service.worker)
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
    app.state.stores = service.stores
    app.state.metrics = metrics
    app.state.shadow = ShadowDecider(service.stores.registry, service.stores.shadows)
    app.state.limiters = Limiters()
    app.state.stopping = threading.Event()
    errors.install(app)
    _include_routes(app)
    if service.console:
        console.install(app)
    gate = Gate(
        service.keyring,
        service.limits,
        service.memory,
        metrics.requests,
        hosts=service.hosts,
        access_log=service.access_log,
    )
    install(app, gate)
    app.state.entrance = Entrance(gate, service.stores, metrics.requests)
    app.add_middleware(Door, entrance=app.state.entrance)
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
    await run_in_threadpool(service.stores.matrices.start)
    app.state.shadow.start()
    if service.worker is not None:
        service.worker.start()
    processes.start()
    _announce_stopping(app.state.stopping)
    _quiet_collector()
    sys.setswitchinterval(_SWITCH_SECONDS)
    _log.info("started", version=__version__)
    try:
        yield
    finally:
        app.state.stopping.set()
        if service.worker is not None:
            service.worker.stop()
        app.state.shadow.stop()
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
