"""Payoff: predictions that decide.

`decide` takes probabilities and benefits, and returns the actions with the largest expected
benefits; `threshold` is the cut between two actions; `Limits` bound how often an action is taken.
`best_set` returns the set of items with the smallest expected loss. `next_feature` returns the
feature to acquire next. The estimators follow scikit-learn's conventions.

>>> import payoff
>>> payoff.decide([[0.95, 0.05], [0.6, 0.4]], [[0, -1], [-10, 5]]).actions
array([0, 1])
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from payoff.decisions.limits import Limits
    from payoff.functions import best_set, decide, next_feature, threshold
    from payoff.learners.automatic import Automatic
    from payoff.learners.benefit_logistic import BenefitLogistic
    from payoff.learners.budget_forest import BudgetForest
    from payoff.learners.cost_naive_bayes import CostNaiveBayes
    from payoff.learners.cost_tree.estimator import CostTree
    from payoff.learners.forest_chain import ForestChain
    from payoff.learners.gradient_boosting import GradientBoosting
    from payoff.learners.hierarchical_logistic import HierarchicalLogistic
    from payoff.learners.kernel_logistic import KernelLogistic
    from payoff.learners.logistic import Logistic
    from payoff.learners.multilabel import MultilabelForest, MultilabelLogistic
    from payoff.learners.random_forest import RandomForest
    from payoff.learners.rewards.estimator import Rewards
    from payoff.learners.ridge import Ridge

__version__ = "0.1.0"
__all__ = [
    "Automatic",
    "BenefitLogistic",
    "BudgetForest",
    "CostNaiveBayes",
    "CostTree",
    "ForestChain",
    "GradientBoosting",
    "HierarchicalLogistic",
    "KernelLogistic",
    "Limits",
    "Logistic",
    "MultilabelForest",
    "MultilabelLogistic",
    "RandomForest",
    "Rewards",
    "Ridge",
    "best_set",
    "decide",
    "next_feature",
    "threshold",
]

# Before numba is imported: what is compiled ahead then fits every processor of the architecture, in
# the image, too.
os.environ.setdefault("NUMBA_CPU_NAME", "generic")

_FUNCTIONS = {"best_set", "decide", "next_feature", "threshold"}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: the compiler and SciPy take a second to
    load.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Limits":
        module = "payoff.decisions.limits"
    elif name in _FUNCTIONS:
        module = "payoff.functions"
    else:
        module = "payoff.learners.catalogue"
    return getattr(import_module(module), name)
