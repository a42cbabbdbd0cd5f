"""The index made anew from the registry's folder alone."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from app.errors import PayoffError
from app.registry.card import Card
from app.registry.files import Files
from app.registry.index import Index
from app.registry.mirror import Mirror
from app.registry.snapshot import folder_of


@dataclass(frozen=True)
class Found:
    """The models that the folder has, with the cards of their versions, and what is left out, with the reasons."""

    models: tuple[tuple[Mirror, list[tuple[Card, bytes]]], ...]
    left_out: tuple[str, ...]


def read_folders(files: Files) -> Found:
    """Read the folder.

    A model's mirror lists which of its folders are published, so that what a killed job left stays invisible. Where
    there is no mirror every sealed folder counts, so that models can be copied in. Signatures are not asked for here:
    they are checked before each load. Mirrors are left as they are, so that a folder repaired later is found next time.
    Damaged where a mirror is unreadable: guessing would lose aliases, or use a number twice.
    """
    left_out: list[str] = []
    models = [_read_model(files, name, numbers, left_out) for name, numbers in files.folders()]
    return Found(tuple(model for model in models if model[0].next_version > 1), tuple(left_out))


def restore(connection: Connection, index: Index, found: Found) -> int:
    """Replace the index by what was found; how many versions there are."""
    index.clear(connection)
    for mirror, cards in found.models:
        index.restore(connection, mirror, cards)
    return sum(len(cards) for _, cards in found.models)


def _read_model(
    files: Files, name: str, numbers: list[int], left_out: list[str]
) -> tuple[Mirror, list[tuple[Card, bytes]]]:
    mirror = files.read_mirror(name) or Mirror(name=name, next_version=1, listed=bool(numbers), versions=numbers)
    read = files.read_cards(name, mirror.versions)
    cards = []
    for version in sorted({*numbers, *mirror.versions}):
        if version not in mirror.versions:
            left_out.append(f"{folder_of((name, version))}: was never published, or was deleted")
            continue
        card = read[version]
        if isinstance(card, PayoffError):
            left_out.append(f"{folder_of((name, version))}: {card.detail}")
        else:
            cards.append(card)
    highest = max(numbers, default=0)
    return mirror.model_copy(update={"next_version": max(mirror.next_version, highest + 1)}), cards
