"""Looking at who changed what."""

from __future__ import annotations

from app.access.audit import Entry
from app.usecases.ports import Ports


def page(ports: Ports, size: int, token: str | None) -> tuple[list[Entry], str | None]:
    """Changes, newest first, and the token of the next page."""
    return ports.audit.page(size, token)
