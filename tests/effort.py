"""How much tests do, by PAYOFF_TESTS: `slow` adds those marked slow, `thorough` all the others, too."""

import os

THOROUGH = os.environ.get("PAYOFF_TESTS") == "thorough"
SLOW = THOROUGH or os.environ.get("PAYOFF_TESTS") == "slow"


def repeated(often: int) -> int:
    """`often` in a thorough run, else a third."""
    return often if THOROUGH else -(-often // 3)
