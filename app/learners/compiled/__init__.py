"""What loads the compiler, at 60 MB and half a second: how forests are grown, and boosted trees explained."""

from app.learners.compiled import boosted, budget, chain, forests

__all__ = ["boosted", "budget", "chain", "forests"]
