"""Which data set each owner's names refer to: the last one that was uploaded under the name."""

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

    def point(self, owner: str, name: str, dataset_id: str) -> None:
        """Have the owner's `name` refer to this data set from now on."""
        content = json.dumps({"name": name, "dataset": dataset_id}).encode()
        self._storage.write(f"{_folder(owner, name)}/{_FILE}", content)

    def find(self, owner: str, name: str) -> str | None:
        """The data set that the owner's `name` refers to, if it still exists."""
        with suppress(NotFound, ValueError, KeyError, TypeError):
            found = str(json.loads(self._storage.read(_folder(owner, name), _FILE))["dataset"])
            return found if self._storage.exists(found) else None
        return None

    def forget(self, dataset_id: str) -> None:
        """Remove all names that refer to a data set. O(names)."""
        for folder in self._storage.folders(_FOLDER):
            path = f"{_FOLDER}/{folder}"
            with suppress(NotFound, ValueError, KeyError, TypeError):
                if json.loads(self._storage.read(path, _FILE))["dataset"] == dataset_id:
                    self._storage.remove(path)


def _folder(owner: str, name: str) -> str:
    return f"{_FOLDER}/{hashlib.sha256(json.dumps([owner, name]).encode()).hexdigest()}"
