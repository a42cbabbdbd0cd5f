"""What the use cases work with; built once, in `app.stores`."""

from __future__ import annotations

from dataclasses import dataclass

from app.access.audit import AuditLog
from app.access.keys import Keys
from app.data.model_files import ModelFiles
from app.data.store import DatasetStore
from app.database import Database
from app.jobs.queue import Queue
from app.registry.registry import Registry


@dataclass(frozen=True)
class Ports:
    """The stores behind every use case."""

    database: Database
    datasets: DatasetStore
    queue: Queue
    registry: Registry
    audit: AuditLog
    keys: Keys
    imports: ModelFiles
