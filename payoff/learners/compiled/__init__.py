"""The modules that load the compiler, at 60 MB and half a second.

They grow forests and cost trees, and explain boosting. Learners reach them through
`loading.compiled`.
"""

from payoff.learners import members, quantile_forest
from payoff.learners.compiled import boosted, budget, chain, chain_order, forests
from payoff.learners.cost_tree import path
from payoff.learners.rewards import stack as rewards

__all__ = [
    "boosted",
    "budget",
    "chain",
    "chain_order",
    "forests",
    "members",
    "path",
    "quantile_forest",
    "rewards",
]
