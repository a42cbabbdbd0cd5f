"""What `<name>/index.json` holds: all that the index knows of a model and its version folders do not."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.errors import Conflict, Damaged
from app.registry.card import Name

FORMAT: Final = 1


class Move(BaseModel):
    """One line of the alias history: `alias` went from one version to another; null is nowhere."""

    model_config = ConfigDict(frozen=True)

    seq: int
    at: float
    who: str
    alias: str
    from_version: int | None
    to_version: int | None


class Mirror(BaseModel):
    """The next version number, the published versions, the aliases and their history."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = FORMAT
    name: str
    next_version: int = Field(ge=1)
    listed: bool = Field(description="whether the model exists, with or without versions")
    versions: list[int] = []
    aliases: dict[Name, int] = {}
    history: list[Move] = []

    def to_bytes(self) -> bytes:
        return self.model_dump_json(indent=1).encode() + b"\n"


def read_mirror(content: bytes, path: str) -> Mirror:
    """Damaged, naming `path`, where it is not a mirror; Conflict where a newer service wrote it."""
    try:
        number = json.loads(content)["format"]
        if isinstance(number, int) and number > FORMAT:
            raise Conflict(f"{path} has format {number}, and this service reads format {FORMAT}: upgrade it")
        return Mirror.model_validate_json(content)
    except (ValueError, LookupError, TypeError) as error:  # pydantic's ValidationError is a ValueError
        raise Damaged(
            f"{path} is not an index of format {FORMAT}: fix it, or remove it and lose its aliases"
        ) from error
