"""Which data set each name refers to: the last one that was uploaded under it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from app.errors import NotFound
from app.storage import Storage

_FOLDER, _FILE = "names", "latest.json"


class Names:
    """A small file for each name beside the data sets, replaced atomically."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def point(self, name: str, dataset_id: str) -> None:
        """Have `name` refer to this data set from now on."""
        folder = hashlib.sha256(name.encode()).hexdigest()
        content = json.dumps({"name": name, "dataset": dataset_id}).encode()
        self._storage.write(f"{_FOLDER}/{folder}/{_FILE}", content)

    def find(self, name: str) -> str | None:
        """The data set that `name` refers to, if it still exists; None for what older versions have written."""
        folder = hashlib.sha256(name.encode()).hexdigest()
        with suppress(NotFound, ValueError, KeyError, TypeError):
            found = str(json.loads(self._storage.read(f"{_FOLDER}/{folder}", _FILE))["dataset"])
            return found if self._storage.exists(found) else None
        return None

    def forget(self, dataset_id: str) -> None:
        """Remove all names that refer to a data set. O(names)."""
        for folder in self._storage.folders(_FOLDER):
            path = f"{_FOLDER}/{folder}"
            with suppress(NotFound, ValueError, KeyError, TypeError):
                if json.loads(self._storage.read(path, _FILE))["dataset"] == dataset_id:
                    self._storage.remove(path)

    def copy_to(self, other: Names) -> None:
        """Have all names refer to the same data sets there."""
        for folder in self._storage.folders(_FOLDER):
            with suppress(NotFound):
                path = f"{_FOLDER}/{folder}"
                other._storage.write(f"{path}/{_FILE}", self._storage.read(path, _FILE))
