"""What all parts of the registry share: the index, the folder of models, and the index files beside them."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from app.database import Database
from app.registry.files import Files
from app.registry.index import Index
from app.registry.mirroring import Mirroring

Also = Callable[[Connection], None]


def write_nothing(_connection: Connection) -> None:
    """Write nothing else in a change's transaction."""


class RegistryBase:
    """What the registry's parts share: files below `url`, their index in `database`."""

    def __init__(
        self,
        url: str,
        database: Database,
        *,
        signing_key: bytes | None = None,
        allow_version_skew: bool = False,
        retry_seconds: float = 0.0,
    ) -> None:
        self._database = database
        self._files = Files(
            url, signing_key=signing_key, allow_version_skew=allow_version_skew, retry_seconds=retry_seconds
        )
        self._index = Index(database)
        self._mirroring = Mirroring(database, self._index.mirrored, self._files.write_mirror)
