"""The index made anew from the registry's folder alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import Connection

from app.errors import PayoffError
from app.registry.card import NAME, Card
from app.registry.files import Files
from app.registry.index import Index
from app.registry.mirror import Mirror

_NAME = re.compile(NAME)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Rebuilt:
    """How many versions are in the index now, and the folders that are not, each with the reason."""

    versions: int
    left_out: tuple[str, ...]


def rebuild(connection: Connection, index: Index, files: Files) -> Rebuilt:
    """Replace the index by what the folder says.

    A model's mirror tells which of its folders are published: what a killed job left is not brought to light. Where
    there is no mirror every sealed folder counts, so that models can be copied in. Signatures are not asked for here:
    they are checked before each load. Mirrors are left as they are, so that a folder mended later is found next time.
    Damaged where a mirror is unreadable: guessing would lose aliases, or use a number twice.
    """
    index.clear(connection)
    count = 0
    left_out: list[str] = []
    for name in filter(_NAME.fullmatch, files.storage.folders()):
        mirror, cards = _read_model(files, name, left_out)
        if mirror.next_version > 1:
            index.restore(connection, mirror, cards)
            count += len(cards)
    return Rebuilt(count, tuple(left_out))


def _read_model(files: Files, name: str, left_out: list[str]) -> tuple[Mirror, list[tuple[Card, bytes]]]:
    numbers = sorted(int(folder) for folder in files.storage.folders(name) if _NUMBER.fullmatch(folder))
    mirror = files.read_mirror(name) or Mirror(name=name, next_version=1, listed=bool(numbers), versions=numbers)
    read = files.read_cards(name, mirror.versions)
    cards = []
    for version in sorted({*numbers, *mirror.versions}):
        if version not in mirror.versions:
            left_out.append(f"{name}/{version}: was never published, or was deleted")
            continue
        card = read[version]
        if isinstance(card, PayoffError):
            left_out.append(f"{name}/{version}: {card.detail}")
        else:
            cards.append(card)
    highest = max(numbers, default=0)
    return mirror.model_copy(update={"next_version": max(mirror.next_version, highest + 1)}), cards
