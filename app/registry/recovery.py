"""Starting with an empty index or an unavailable store."""

from __future__ import annotations

import logging

from app.disks import Obstacle
from app.errors import Conflict, Unavailable, Unusable
from app.registry.loading import Loading
from app.registry.rebuild import read_folders, restore
from app.registry.reservations import is_dead

_ROUNDS = 5  # of reading the folder while the index changes

_log = logging.getLogger(__name__)


class Recovery(Loading):
    """Rebuilds the index from the folder, and removes what killed processes left in it."""

    @property
    def awaits_storage(self) -> bool:
        """Whether the storage has been unavailable since the start."""
        return self._awaits_storage

    def obstacle(self) -> Obstacle | None:
        """What keeps the folder of models from being written; see `Storage.obstacle`."""
        return self._files.storage.obstacle()

    def prepare(self) -> None:
        """Reach for the storage, and rebuild the index where it is empty.

        An unavailable storage is waited for: the registry is not `ready` until it has answered, and then goes on
        through later failures with what it has in memory. Unusable where waiting would be in vain.
        """
        try:
            self._files.storage.check()
            with self._database.reading() as connection:
                empty = self._index.is_empty(connection)  # the usual case is False, without waiting for writers
            if empty:
                self.rebuild(only_if_empty=True)
        except Unusable:
            raise
        except Unavailable as error:
            self._awaits_storage = True
            _log.warning("%s: waiting for it", error.detail)
        else:
            self._awaits_storage = False

    def rebuild(self, *, only_if_empty: bool = False) -> int:
        """Replace the index by what the folder contains, see `rebuild.py`; returns the number of versions.

        Conflict where other processes, perhaps replicas, change the index again and again meanwhile.
        """
        for _ in range(_ROUNDS):
            self._mirroring.catch_up()
            with self._database.reading() as connection:
                before = self._index.position(connection)
            found = read_folders(self._files)
            with self._database.writing(without_timeout=True) as connection:
                self._index.lock(connection)
                if only_if_empty and not self._index.is_empty(connection):
                    return 0
                if self._index.position(connection) != before or not before.up_to_date:
                    continue
                for folder in found.left_out:
                    _log.warning("omitted from the registry's index: %s", folder)
                count = restore(connection, self._index, found)
            self._look()
            return count
        raise Conflict("the index changed during each attempt: rebuild it while no job publishes and no alias is moved")

    def clean_up(self) -> int:
        """Remove what killed processes left half-written and can never be published; how many there were.

        May take seconds.
        """

        def spare(folder: str) -> bool:
            with self._database.reading() as connection:
                return not is_dead(connection, (folder.partition("/")[0], int(folder.partition("/")[2])))

        return self._files.clean_up(spare)
