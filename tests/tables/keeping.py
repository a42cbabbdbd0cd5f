"""Keeping a table that a test has made, without a process to read it in."""

from __future__ import annotations

import io

from app.tables.reading import read_upload
from app.tables.store import Draft
from app.tables.upload_request import UploadRequest


def kept(store, content, labels, name=None, **options):
    """Keep a file (CSV or Parquet), read in this process."""
    request = UploadRequest(label=tuple(labels), name=name, **options)
    request.check()
    sink = io.BytesIO()
    return store.keep(
        Draft(read_upload(content, request, sink, store.limits), sink.getvalue())
    )
