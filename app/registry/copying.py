"""Models copied from one place to another, each file checked against its card."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.errors import Conflict, NotFound, PayoffError, Unavailable
from app.registry.files import CARD, Files
from app.registry.mirror import Mirror
from app.registry.snapshot import Key


class Taken(Conflict):
    """The request conflicts with the present state"""


@dataclass(frozen=True)
class Copied:
    """How many versions are in the new place now, and those that are not, each with the reason."""

    versions: int
    left_out: tuple[str, ...]


def copy_models(mirrors: Iterable[Mirror], source: Files, target: Files) -> Copied:
    """Copy what `mirrors` say is published; a copy that was broken off is gone on with.

    A version that is damaged or gone is left out, with the aliases that point at it; its number stays given. Taken
    where another version has its place.
    """
    count, left_out = 0, []
    for mirror in mirrors:
        copied = []
        for version in mirror.versions:
            try:
                _copy((mirror.name, version), source, target)
            except (Taken, Unavailable):
                raise
            except PayoffError as error:
                left_out.append(f"{mirror.name}/{version}: {error.detail}")
            else:
                copied.append(version)
        aliases = {alias: version for alias, version in mirror.aliases.items() if version in copied}
        target.write_mirror(mirror.model_copy(update={"versions": copied, "aliases": aliases}))
        count += len(copied)
    return Copied(count, tuple(left_out))


def _copy(key: Key, source: Files, target: Files) -> None:
    content = source.read_card(key)[1]
    folder = "/".join(map(str, key))
    try:
        there = target.storage.read(folder, CARD)
    except NotFound:
        target.storage.publish(folder, source.read_all(key))
        return
    if there != content:
        raise Taken(f"{folder} is there already, and is another one")
