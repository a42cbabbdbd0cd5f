"""Builds the HTTP service from settings; the only place that does."""

from fastapi import FastAPI

from app.access.caller import NOTE, Keyring, KeysMade
from app.access.rates import Rate
from app.api.app import create_app
from app.api.memory import BodyLimits, Memory, default_limit
from app.api.service import Service
from app.jobs.processes import keep_freed_memory, preload
from app.monitoring.logs import configure
from app.opening import prepare_stores
from app.settings import Settings, listed
from app.storage import Storage
from app.tables import isolated
from app.workers import make_worker

_MB = 2**20


def start(settings: Settings) -> FastAPI:
    """The application for this process, whose log and memory are set up for it."""
    configure(settings.log_level)
    keep_freed_memory()
    return create_app(wire(settings))


def wire(settings: Settings) -> Service:
    """The parts that the HTTP service runs on."""
    stores = prepare_stores(settings)
    worker = make_worker(settings, stores) if settings.workers else None
    if worker is None:  # a worker preloads these itself
        preload(isolated.MODULES)
    limits = BodyLimits(
        default=int(settings.max_body_mb * _MB),
        upload=int(settings.max_upload_mb * _MB),
    )
    admin_key = settings.admin_key.get_secret_value() if settings.admin_key else None
    rate = Rate.parse(settings.rate_limit) if settings.rate_limit else None
    keys_made = KeysMade(Storage(settings.models, NOTE, name="PAYOFF_MODELS"))
    keyring = Keyring(
        stores.keys,
        keys_made,
        admin_key,
        rate=rate,
        jobs=settings.jobs_per_key,
        hosts=listed(settings.hosts),
    )
    access_log = settings.access_log and settings.log_level in ("debug", "info")
    memory = (
        settings.request_memory_mb * _MB
        if settings.request_memory_mb
        else default_limit()
    )
    return Service(
        stores,
        worker,
        keyring,
        limits,
        access_log,
        memory=Memory(memory),
        console=settings.console,
    )
