"""Orders to import a model, without a service."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from app.errors import TooLarge
from app.usecases import import_model


def test_a_file_without_memory_for_it_is_refused_before_it_is_read(monkeypatch):
    """Its size is reserved first."""
    dataset = SimpleNamespace(id="ds_0", classes=("a", "b"), multilabel=False, labels=["label"], features=())
    monkeypatch.setattr(import_model, "find_named", lambda *_: dataset)
    monkeypatch.setattr(import_model, "read_matrix", lambda *_: None)

    class Unread(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise AssertionError("the file was read")

    def reserve(count: int) -> None:
        raise TooLarge(f"{count} bytes")

    order = {"format": "skops", "dataset": "ds_0", "matrix": SimpleNamespace(actions=None)}
    with pytest.raises(TooLarge, match="1000 bytes"):
        import_model.submit(SimpleNamespace(), order, Unread(b"x" * 1000), reserve, key=None, caller=SimpleNamespace())
