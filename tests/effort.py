"""How much tests do: all where PAYOFF_TESTS is `thorough`; else none of those marked so, and a third of many cases."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

THOROUGH = os.environ.get("PAYOFF_TESTS") == "thorough"


def repeated(often: int) -> int:
    """`often` in a thorough run, else a third."""
    return often if THOROUGH else -(-often // 3)


def some(cases: Iterable[Case]) -> list[Case]:
    """All cases in a thorough run, else the first and each third one after it."""
    return list(cases)[:: 1 if THOROUGH else 3]
