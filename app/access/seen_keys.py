"""A note that API keys were made, kept beside the models.

The database may be lost and come back empty: a SQLite file that is not mounted is made anew. Without the note a service
whose keys were only there would then be open to everybody.
"""

from __future__ import annotations

from app.errors import NotFound
from app.storage.storage import Storage

NOTE = "keys.txt"
_TEXT = b"""API keys were made for the service that keeps its models here.
While this file exists, the service is never open to callers without a key.
"""


class KeysMade:
    """The note in `storage`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def known(self) -> bool:
        """Whether keys were ever made; Unavailable where that cannot be found out."""
        try:
            self._storage.read_alone(NOTE)
        except NotFound:
            return False
        return True

    def note(self) -> None:
        """Write the note; Unavailable where that is not possible now."""
        self._storage.write(NOTE, _TEXT)
