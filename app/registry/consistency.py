"""Which published versions cannot be loaded. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import PayoffError, Unavailable
from app.registry.files import Files
from app.registry.snapshot import Key

_MAX_CARDS = 500  # newest first; a store on the network takes some ten milliseconds for each


def unusable(digests: Mapping[Key, str], files: Files, *, deep: bool) -> tuple[int, list[str]]:
    """How many versions were looked at, the newest 500 at most, and what is wrong with some, in words that name it.

    `digests` are those of the cards; `deep` reads every file, not the cards alone. Raises Unavailable.
    """
    newest = sorted(digests, key=lambda key: (-key[1], key[0]))[:_MAX_CARDS]
    found = []
    for key in newest:
        try:
            card = files.loadable_card(key, digests[key])
            for name in card.sha256 if deep else ():
                files.read(card, name)
        except Unavailable:
            raise
        except PayoffError as error:
            found.append(error.detail)
    return len(newest), found
