"""Models copied from one place to another, each file checked against its card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.errors import Conflict, NotFound, PayoffError, Unavailable
from app.registry.card import NAME
from app.registry.files import CARD, Files
from app.registry.mirror import Mirror
from app.registry.snapshot import Key

_NAME = re.compile(NAME)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


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


def check_free(mirrors: Iterable[Mirror], indexed: Iterable[Mirror], target: Files) -> None:
    """Taken where index or `target` hold more than a copy of `mirrors` that was broken off may have left there."""
    wanted = {mirror.name: mirror for mirror in mirrors}
    for mirror in indexed:
        _check_part(mirror, wanted)
    for name in filter(_NAME.fullmatch, target.storage.folders()):
        versions = [int(folder) for folder in target.storage.folders(name) if _NUMBER.fullmatch(folder)]
        there = target.read_mirror(name)
        if there is not None:
            _check_part(there, wanted)
        if versions and not (name in wanted and {*versions} <= {*wanted[name].versions}):
            raise _taken(name)


def _check_part(part: Mirror, wanted: Mapping[str, Mirror]) -> None:
    whole = wanted.get(part.name)
    if whole is None or part.model_copy(update={"versions": whole.versions, "aliases": whole.aliases}) != whole:
        raise _taken(part.name)
    if not ({*part.versions} <= {*whole.versions} and part.aliases.items() <= whole.aliases.items()):
        raise _taken(part.name)


def _taken(name: str) -> Taken:
    return Taken(f"the model {name!r} is there already, and not as in the backup: restore into a new place")


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
