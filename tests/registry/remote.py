"""A folder in a bucket, used in tests as pathlib uses one on a disk."""

from __future__ import annotations

from dataclasses import dataclass

import obstore
from obstore.store import ObjectStore, from_url


@dataclass(frozen=True)
class Remote:
    """As much of `pathlib.Path` as harming models needs; `str` of it is its URL."""

    url: str

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def read_bytes(self) -> bytes:
        place, name = self._place()
        return bytes(obstore.get(place, name).bytes())

    def write_bytes(self, content: bytes) -> None:
        place, name = self._place()
        obstore.put(place, name, content)

    def unlink(self) -> None:
        place, name = self._place()
        obstore.delete(place, name)

    def _place(self) -> tuple[ObjectStore, str]:
        folder, _, name = self.url.rpartition("/")
        return from_url(folder, client_options={"allow_http": True}), name
