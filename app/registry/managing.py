"""Listing models, moving aliases, deleting, and comparing the index with the folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from app.errors import Unavailable
from app.registry.base import Also, write_nothing
from app.registry.card import Card, read_card
from app.registry.consistency import unusable
from app.registry.listing import ModelLine, ModelPage, card_text, describe_model, list_models
from app.registry.loading import Loading
from app.registry.snapshot import check_name, folder_of

_log = logging.getLogger(__name__)


class Managing(Loading):
    """Changes are visible here at once and in other processes within a second. No store is called in a transaction."""

    def models(self, after: str, limit: int, patterns: Sequence[str] = ()) -> list[ModelLine]:
        """At most `limit` models after the name `after` (`""`: from the first), that match a pattern, if any."""
        with self._database.reading() as connection:
            return list_models(connection, after, limit, patterns)

    def model(self, name: str) -> ModelPage:
        with self._database.reading() as connection:
            return describe_model(connection, name)

    def card(self, name: str, version: int) -> Card:
        with self._database.reading() as connection:
            return read_card(card_text(connection, (name, version)).encode())

    def set_alias(self, name: str, alias: str, version: int, who: str, also: Also = write_nothing) -> None:
        """Point an alias at a published version; the history remembers `who`, and `also` writes in the transaction."""
        check_name(alias, "alias")
        with self._database.writing() as connection:
            if self._index.set_alias(connection, name, alias, version, who):
                also(connection)
        self._changed(name)

    def delete_alias(self, name: str, alias: str, who: str, also: Also = write_nothing) -> None:
        with self._database.writing() as connection:
            self._index.delete_alias(connection, name, alias, who)
            also(connection)
        self._changed(name)

    def delete_version(self, name: str, version: int, also: Also = write_nothing) -> None:
        """Conflict while an alias points at it. Requests that hold the model finish undisturbed."""
        with self._database.writing() as connection:
            self._index.delete_version(connection, (name, version))
            also(connection)
        self._changed(name)
        self._remove(name, version)

    def delete_model(self, name: str, who: str, also: Also = write_nothing) -> None:
        """All versions and aliases; later versions still get new numbers."""
        with self._database.writing() as connection:
            deleted = self._index.delete_model(connection, name, who)
            also(connection)
        self._changed(name)
        for version in deleted:
            self._remove(name, version)

    def unusable(self, *, deep: bool = False) -> tuple[int, list[str]]:
        """How many versions were looked at, and which cannot be loaded and why, see `consistency.unusable`."""
        with self._database.reading(without_timeout=True) as connection:
            digests = self._index.snapshot(connection).digests
        return unusable(digests, self._files, deep=deep)

    def datasets(self) -> set[str]:
        """The data sets that published versions were trained on, by their cards."""
        with self._database.reading(without_timeout=True) as connection:
            return self._index.datasets(connection)

    def _changed(self, name: str) -> None:
        """After the commit of a change to a model."""
        self._mirroring.try_to_update(name)
        self._look()

    def _remove(self, name: str, version: int) -> None:
        """Remove what is deleted already; what cannot be removed now is only space."""
        try:
            self._files.storage.remove(folder_of((name, version)))
        except Unavailable as error:
            _log.warning("%s/%s is left in the storage: %s", name, version, error.detail)
