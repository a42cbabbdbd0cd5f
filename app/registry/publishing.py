"""Publishing a version: reserve a number, stage its files, announce it, and add it to the index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from app.errors import Conflict, NotFound
from app.registry.base import Also, RegistryBase, write_nothing
from app.registry.card import Card
from app.registry.files import pack
from app.registry.loaded import Holdout
from app.registry.reservations import NumberUnusable, Reservation, reserved
from app.registry.snapshot import check_name, folder_of


class Publishing(RegistryBase):
    """The steps of a publication, in their order. The last one is part of the transaction that ends the job."""

    def reserve(self, name: str, job: str, attempt: int, also: Also = write_nothing) -> int:
        """The next version number of a model, never given twice, for one attempt at a job.

        `also` runs in the same transaction and may raise, so that an attempt that is over gets no number.
        """
        check_name(name)
        with self._database.writing() as connection:
            number = self._index.reserve(connection, name, job, attempt)
            also(connection)
        self._mirroring.try_to_update(name)
        return number

    def stage(self, card: Card, estimator: Any, holdout: Holdout | None = None) -> Card:
        """Write a reserved version's files, which belong to the attempt alone; it stays invisible until `add`.

        Returns the card with sizes, digests and the time. NumberUnusable where that folder exists.
        """
        with self._database.reading() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
        try:
            return self._files.stage(card, pack(estimator, holdout), datetime.fromtimestamp(now, UTC))
        except Conflict as error:
            raise NumberUnusable(error.detail) from error

    def announce(self, card: Card) -> None:
        """List a staged version in the model's index file, so that it survives the database from its first moment on.

        NumberUnusable where its number was given up or its folder was removed; Conflict where another card lies there.
        """
        try:
            stored, content = self._files.read_card((card.name, card.version))
        except NotFound as error:
            raise NumberUnusable(error.detail) from error
        if stored != card:
            raise Conflict(f"{card.folder} was staged with another card")
        with self._database.writing() as connection:
            self._index.announce(connection, card, content)
        self._mirroring.update(card.name)

    def add(self, connection: Connection, card: Card) -> None:
        """Publish an announced version inside the caller's transaction: it is visible when that commits.

        NumberUnusable where its number was given up, or another card was announced.
        """
        self._index.add(connection, card)

    def give_up(self, name: str, version: int) -> None:
        """Give up a reserved number for good, and remove its folder, if there is one. Conflict where it is published.

        Only for those who know that the attempt it was given to is over. Nothing happens where it is not reserved: the
        folder may be anybody's.
        """
        with self._database.writing() as connection:
            if not self._index.give_up(connection, (name, version)):
                return
        self._mirroring.try_to_update(name)
        self.remove_given_up(name, version)

    def remove_given_up(self, name: str, version: int) -> None:
        """Remove the folder of a number that was given up, which a suspended process may have written afterwards."""
        self._files.storage.remove(folder_of((name, version)))

    def reserved(self, job: str | None = None) -> list[Reservation]:
        """The numbers that attempts got and did not publish, all of them or those of a job."""
        with self._database.reading() as connection:
            return reserved(connection, job)
