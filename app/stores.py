"""The stores of the use cases; opened once, in `app.opening`."""

from dataclasses import dataclass

from app.access.audit import AuditLog
from app.access.keys import Keys
from app.database.engine import Database
from app.jobs.queue import Queue
from app.outcomes.archive import Archive
from app.outcomes.recorder import Recorder
from app.outcomes.shadows import Shadows
from app.registry.registry import Registry
from app.registry.saved_documents import SavedDocuments
from app.tables.model_files import ModelFiles
from app.tables.store import DatasetStore


@dataclass(frozen=True)
class Stores:
    """The stores behind every use case."""

    database: Database
    datasets: DatasetStore
    queue: Queue
    registry: Registry
    audit: AuditLog
    keys: Keys
    imports: ModelFiles
    archive: Archive
    recorder: Recorder
    shadows: Shadows
    documents: SavedDocuments
