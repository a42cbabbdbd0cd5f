"""Models copied from one place to another, each file checked against its card."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.errors import Conflict, PayoffError, Unavailable
from app.registry.files import CARD, Files
from app.registry.mirror import Mirror
from app.registry.snapshot import Key, folder_of


class Taken(Conflict):
    """Another model or version is in the place of a copy"""


@dataclass(frozen=True)
class Published:
    """What an index contains at one moment: a mirror of each model, and the digests of its cards where it has them."""

    mirrors: Sequence[Mirror]
    digests: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Copied:
    """How many versions are in the new place now, and the reason for each that is not."""

    versions: int
    reasons: Mapping[Key, str]

    @property
    def left_out(self) -> tuple[str, ...]:
        """For a report."""
        return tuple(f"{folder_of(key)}: {reason}" for key, reason in self.reasons.items())


def copy_models(published: Published, source: Files, target: Files) -> Copied:
    """Copy what is `published`; only what is missing in `target` is read.

    A version counts as copied where `target` has its card: cards are written last, and contain the digests of the other
    files. A version that is damaged or missing is left out, with the aliases that point at it; its number stays given.
    Taken where another version has its place.
    """
    count = 0
    reasons: dict[Key, str] = {}
    for mirror in published.mirrors:
        copied = []
        there = target.storage.read_each([folder_of((mirror.name, version)) for version in mirror.versions], CARD)
        for version in mirror.versions:
            key = (mirror.name, version)
            try:
                _copy(key, published.digests.get(key), there.get(folder_of(key)), source, target)
            except (Taken, Unavailable):
                raise
            except PayoffError as error:
                reasons[key] = error.detail
            else:
                copied.append(version)
        aliases = {alias: version for alias, version in mirror.aliases.items() if version in copied}
        target.write_mirror(mirror.model_copy(update={"versions": copied, "aliases": aliases}))
        count += len(copied)
    return Copied(count, reasons)


def check_free(mirrors: Iterable[Mirror], indexed: Iterable[Mirror], target: Files) -> None:
    """Taken where index or `target` hold more than a copy of `mirrors` that was broken off may have left there."""
    wanted = {mirror.name: mirror for mirror in mirrors}
    for mirror in indexed:
        _check_part(mirror, wanted)
    for name, versions in target.folders():
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
    return Taken(f"the model {name!r} exists and differs from the backup: restore into a new place")


def _copy(key: Key, digest: str | None, there: bytes | None, source: Files, target: Files) -> None:
    folder = folder_of(key)
    if there is None:
        target.storage.publish(folder, source.read_all(key, digest))
    elif hashlib.sha256(there).hexdigest() != (digest or hashlib.sha256(source.read_card(key)[1]).hexdigest()):
        raise Taken(f"{folder} exists and differs from the backup")
