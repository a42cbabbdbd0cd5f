"""Compare the registry's folder with the index. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import PayoffError, Unavailable
from app.registry.card import Card
from app.registry.copying import Published
from app.registry.files import SKLEARN, Files
from app.registry.mirror import Mirror
from app.registry.snapshot import Key, folder_of

_MAX_CARDS = 500  # newest first; a store on the network takes some ten milliseconds for each


@dataclass
class Audit:
    """How many models and versions there are, and what is the matter, in words that name the place."""

    models: int = 0
    versions: int = 0
    looked_at: int = 0
    unusable: list[str] = field(default_factory=list)
    current: list[Key] = field(default_factory=list)  # what aliases and names mean, those of aliases first
    sizes: dict[Key, int] = field(default_factory=dict)  # bytes of the files of what was looked at
    skewed: dict[str, int] = field(default_factory=dict)  # versions by the other scikit-learn that made them
    left_over: list[str] = field(default_factory=list)
    mirrors: list[str] = field(default_factory=list)


def audit(published: Published, files: Files, *, deep: bool) -> Audit:
    """Compare what the index contains with the folder. `deep`: read every file, not the cards alone.

    Unavailable where the folder cannot be read. Of very many versions only the newest 500 are opened.
    """
    digests = published.digests
    found = Audit(models=len({name for name, _ in digests}), versions=len(digests))
    newest = sorted(digests, key=lambda key: (-key[1], key[0]))[:_MAX_CARDS]
    skewed: Counter[str] = Counter()
    for key in newest:
        card = _opened(files, key, digests[key], found, deep=deep)
        if card is not None:
            found.sizes[key] = sum(card.sizes.values())
        if card is not None and card.packages.get("scikit-learn") != SKLEARN:
            skewed[card.packages.get("scikit-learn", "?")] += 1
    found.looked_at, found.skewed = len(newest), dict(skewed)
    _compare_folders(files, digests, found)
    for mirror in published.mirrors:
        if mirror.versions:
            _compare_mirror(mirror, files, found)
    return found


def _opened(files: Files, key: Key, digest: str, found: Audit, *, deep: bool) -> Card | None:
    try:
        card = files.trusted_card(key, digest)
        for name in card.sha256 if deep else ():
            files.read(card, name)
    except Unavailable:
        raise
    except PayoffError as error:
        found.unusable.append(error.detail)
        return None
    return card


def _compare_folders(files: Files, digests: Mapping[Key, str], found: Audit) -> None:
    for name, numbers in files.folders():
        found.left_over += [folder_of((name, number)) for number in numbers if (name, number) not in digests]


def _compare_mirror(meant: Mirror, files: Files, found: Audit) -> None:
    name = meant.name
    try:
        there = files.read_mirror(name)
    except Unavailable:
        raise
    except PayoffError as error:
        found.mirrors.append(error.detail)
        return
    if there is None:
        found.mirrors.append(f"{name} has no index file: its aliases would be lost with the database")
    elif (there.versions, there.aliases) != (meant.versions, meant.aliases):
        found.mirrors.append(f"the index file of {name} differs from the index: a change failed half-way")
