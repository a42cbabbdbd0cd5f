"""The kinds of learner that requests name, each with its estimator."""

from collections.abc import Mapping
from typing import Any

from payoff.errors import Invalid
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
from payoff.learners.parameters import LearnerRequest, request_of
from payoff.learners.random_forest import RandomForest
from payoff.learners.rewards.estimator import Rewards
from payoff.learners.ridge import Ridge
from payoff.learners.score_calibrator import ScoreCalibrator

ACQUIRES = "possible"
"""`fitted.acquire` in cards of models that answer `/acquire`."""

KINDS: dict[str, Any] = {
    estimator.name: estimator
    for estimator in (
        Automatic,
        BenefitLogistic,
        BudgetForest,
        CostNaiveBayes,
        CostTree,
        ForestChain,
        GradientBoosting,
        HierarchicalLogistic,
        KernelLogistic,
        Logistic,
        MultilabelForest,
        MultilabelLogistic,
        RandomForest,
        Ridge,
        Rewards,
    )
}
"""All kinds that requests may train, by name."""


def resolve(learner: Mapping[str, Any]) -> LearnerRequest:
    """The request `{"kind": …, parameter: value, …}`.

    Raises Invalid with every flaw, at `/kind` or the parameter's name.
    """
    name = learner.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise Invalid.at("/kind", f"kind is one of {', '.join(KINDS)}")
    return request_of(KINDS[name]).checked(learner)


def stored(kind: str, parameters: Mapping[str, Any]) -> LearnerRequest:
    """The request of a stored specification, which may be that of a calibration, too."""
    estimator = ScoreCalibrator if kind == ScoreCalibrator.name else KINDS[kind]
    return request_of(estimator).checked({"kind": kind, **parameters}, "ignore")
