"""How often tests repeat what they repeat: a third of it in every run, all of it where PAYOFF_TESTS is `thorough`."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("PAYOFF_TESTS") == "thorough"


def repeated(often: int) -> int:
    """`often` in a thorough run, else a third."""
    return often if THOROUGH else -(-often // 3)
