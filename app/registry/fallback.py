"""What a reference meant before, to answer with while the version it means now cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.registry.snapshot import Key, Snapshot


class Fallback:
    """For each reference that was moved to a version not in memory, the last one before it that is."""

    def __init__(self) -> None:
        self._keys: Mapping[str, Key] = {}

    def of(self, reference: str) -> Key | None:
        return self._keys.get(reference)

    def move(self, before: Snapshot, after: Snapshot, in_memory: Callable[[Key], bool]) -> None:
        """The index has changed from `before` to `after`; O(number of references)."""
        kept: dict[str, Key] = {}
        for reference, key in after.references.items():
            was = before.references.get(reference, key)
            if was == key and reference not in self._keys:
                continue  # nearly all
            former = was if in_memory(was) else self._keys.get(reference)
            if former is not None and former != key and former in after.digests:
                kept[reference] = former
        self._keys = kept
