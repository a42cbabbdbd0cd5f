"""Ids of decisions: UUIDv7, which have their time within, and the day that a time is of."""

from __future__ import annotations

import secrets
from datetime import UTC, date, datetime
from hashlib import blake2b
from time import time
from uuid import UUID

DAY = 86_400  # seconds; days are UTC
_RANDOM_BITS = 74


def new_ids(count: int, at: float | None = None) -> list[str]:
    """UUIDv7 of the moment `at`, seconds since 1970, by default now: 48 bits of milliseconds, 74 random bits."""
    milliseconds = int((time() if at is None else at) * 1000)
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | 0x2 << 62
    ids = []
    for _ in range(count):
        drawn = secrets.randbits(_RANDOM_BITS)
        text = f"{high | (drawn >> 62) << 64 | drawn & 0x3FFF_FFFF_FFFF_FFFF:032x}"  # a third of the time of UUID
        ids.append(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
    return ids


def day_of(at: float) -> int:
    """Days since 1970-01-01, UTC."""
    return int(at // DAY)


def date_of(day: int) -> date:
    """The date of a day of `day_of`."""
    return datetime.fromtimestamp(day * DAY, UTC).date()


def day_of_id(id_: str) -> int | None:
    """The day of an id of `new_ids`; None for all that is no UUIDv7."""
    try:
        parsed = UUID(id_)
    except ValueError:
        return None
    return (parsed.int >> 80) // 1000 // DAY if parsed.version == 7 else None


def id_digest(id_: str) -> str:
    """32 hexadecimal digits, for where the id itself must not be kept."""
    return blake2b(id_.encode(), digest_size=16).hexdigest()
