"""Folders of files that exist complete or not at all, on a disk or in an object store."""

from app.storage.file_cache import FileCache
from app.storage.storage import Storage

__all__ = ["FileCache", "Storage"]
