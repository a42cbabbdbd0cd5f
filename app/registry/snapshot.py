"""References to models, and the version that each of them means at this moment, in memory."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from app.errors import NotFound
from app.registry.card import NAME
from payoff.errors import Invalid

NUMBER = "[1-9][0-9]{0,8}"  # of a version

Key = tuple[str, int]

_REFERENCE = re.compile(
    rf"(?P<name>{NAME})(?::(?P<version>{NUMBER})|@(?P<alias>{NAME}))?"
)
_NAME = re.compile(NAME)


def folder_of(key: Key) -> str:
    """The folder of a version, relative to the registry's."""
    return f"{key[0]}/{key[1]}"


@dataclass(frozen=True)
class Reference:
    """`name` (its latest version), `name:3` or `name@alias`, taken apart."""

    name: str
    version: int | None = None
    alias: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Invalid, at /model, where `text` is not a reference."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise Invalid.at(
                "/model",
                f"{text[:80]!r} is not a model reference: write name, name:3 (a version) or"
                " name@alias, with names of at most 64 characters a-z, 0-9, _ and - that begin with"
                " a letter or digit",
            )
        version = match["version"]
        return cls(match["name"], int(version) if version else None, match["alias"])


def check_name(text: str, noun: str = "model") -> str:
    """`text` itself; Invalid, with the empty place, where it cannot name a model or alias."""
    if not _NAME.fullmatch(text):
        raise Invalid.at(
            "",
            f"{text[:80]!r} cannot name a {noun}: use at most 64 characters a-z, 0-9, _ and -,"
            " beginning with a letter or digit",
        )
    return text


@dataclass(frozen=True)
class Snapshot:
    """The published versions and aliases as of a `revision` of the index (-1: not read yet)."""

    revision: int = -1
    digests: Mapping[Key, str] = field(default_factory=dict)
    sizes: Mapping[Key, int] = field(default_factory=dict)
    references: Mapping[str, Key] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        revision: int,
        digests: Mapping[Key, str],
        sizes: Mapping[Key, int],
        aliases: Iterable[tuple[str, str, int]],
    ) -> Self:
        """From the digest of every version's card, its bytes, and the rows (name, alias, version);
        O(n log n).
        """
        references: dict[str, Key] = {}
        # The highest version comes last and stays under the bare name.
        for name, version in sorted(digests):
            references[f"{name}:{version}"] = references[name] = (name, version)
        references |= {
            f"{name}@{alias}": (name, version)
            for name, alias, version in aliases
            if (name, version) in digests
        }
        return cls(revision, digests, sizes, references)

    def current(self) -> list[Key]:
        """The versions that aliases and bare names mean, each once, in the order of names; those of
        aliases first.
        """
        aliased = [
            key
            for reference, key in sorted(self.references.items())
            if "@" in reference
        ]
        latest = [
            key
            for reference, key in sorted(self.references.items())
            if reference == key[0]
        ]
        return list(dict.fromkeys((*aliased, *latest)))

    def resolve(self, text: str) -> Key:
        """The version that a reference means; Invalid where it is none, NotFound otherwise."""
        key = self.references.get(text)
        if key is None:
            Reference.parse(text)
            # In every request the field of a reference is `model`.
            raise NotFound.at("/model", absent(text).detail)
        return key


def absent(reference: str) -> NotFound:
    """The error for a model, a version or an alias that does not exist."""
    return NotFound(f"there is no model {reference!r}")
