"""What the use cases work with; built once, in `app.stores`."""

from dataclasses import dataclass

from app.access.audit import AuditLog
from app.access.keys import Keys
from app.data.model_files import ModelFiles
from app.data.store import DatasetStore
from app.database import Database
from app.jobs.queue import Queue
from app.outcomes.archive import Archive
from app.outcomes.recorder import Recorder
from app.outcomes.shadows import Shadows
from app.registry.registry import Registry
from app.registry.saved_matrices import SavedMatrices


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
    archive: Archive
    recorder: Recorder
    shadows: Shadows
    matrices: SavedMatrices
