"""How much tests do: all where PAYOFF_TESTS is `thorough`; else less, as its markers say."""

import os

THOROUGH = os.environ.get("PAYOFF_TESTS") == "thorough"


def repeated(often: int) -> int:
    """`often` in a thorough run, else a third."""
    return often if THOROUGH else -(-often // 3)
