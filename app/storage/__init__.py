"""Folders of files that exist whole or not at all, under any fsspec URL."""

from app.storage.storage import Storage

__all__ = ["Storage"]
