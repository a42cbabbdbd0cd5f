"""What a storage needs of the place where it keeps its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import BinaryIO, Protocol

from app.disks import Obstacle


class Backend(Protocol):
    """Files under paths whose steps are joined by `/`, below a root.

    What is absent raises FileNotFoundError; a place that cannot be read or written raises Unavailable.
    """

    def check(self) -> None:
        """Unavailable where the place cannot be reached, Unusable where that will not pass by itself."""

    def obstacle(self) -> Obstacle | None:
        """What keeps it from being written, as far as can be seen at once and without writing."""

    def publish(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write all `files` as `folder`, or nothing; Conflict where that folder exists."""

    def read(self, path: str) -> bytes:
        """The bytes of one file."""

    def read_many(self, paths: list[str]) -> dict[str, bytes]:
        """The bytes of those files that are there, by their paths."""

    def open(self, path: str) -> BinaryIO:
        """One file, seekable, to be read piece by piece and closed."""

    def write(self, path: str, content: bytes) -> None:
        """Put one file in place of whatever was there, atomically."""

    def folders(self, under: str) -> list[str]:
        """Names of the folders directly below `under`."""

    def remove(self, folder: str) -> None:
        """Remove a folder with all in it, its seal first."""

    def clean_up(self, folders: re.Pattern[str], age: float, spare: Callable[[str], bool]) -> int:
        """Remove what writers left half-done that died `age` seconds ago or earlier; how many there were."""
