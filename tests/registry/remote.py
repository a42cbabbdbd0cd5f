"""A folder in memory or in a bucket, used in tests as pathlib uses one on a disk."""

from __future__ import annotations

from dataclasses import dataclass

import fsspec


@dataclass(frozen=True)
class Remote:
    """As much of `pathlib.Path` as harming models needs; `str` of it is its URL."""

    url: str

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def read_bytes(self) -> bytes:
        files, path = self._place()
        return files.cat_file(path)

    def write_bytes(self, content: bytes) -> None:
        files, path = self._place()
        files.pipe_file(path, content)

    def unlink(self) -> None:
        files, path = self._place()
        files.rm_file(path)

    def _place(self) -> tuple[fsspec.AbstractFileSystem, str]:
        return fsspec.core.url_to_fs(self.url, use_listings_cache=False)
