"""The kinds of learner that requests name, each with its estimator."""

from collections.abc import Mapping
from typing import Any

from app.errors import Invalid
from app.learners.automatic import Automatic
from app.learners.benefit_logistic import BenefitLogistic
from app.learners.budget_forest import BudgetForest
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.cost_tree.estimator import CostTree
from app.learners.forest_chain import ForestChain
from app.learners.gradient_boosting import GradientBoosting
from app.learners.hierarchical_logistic import HierarchicalLogistic
from app.learners.kernel_logistic import KernelLogistic
from app.learners.logistic import Logistic
from app.learners.multilabel import MultilabelForest, MultilabelLogistic
from app.learners.parameters import LearnerRequest, request_of
from app.learners.random_forest import RandomForest
from app.learners.score_calibrator import ScoreCalibrator

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
    )
}
"""All kinds that requests may train, by name."""


def resolve(learner: Mapping[str, Any]) -> LearnerRequest:
    """What `{"kind": …, parameter: value, …}` asks for; Invalid with every flaw, at `/kind` or the parameter's name."""
    name = learner.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise Invalid.at("/kind", f"kind is one of {', '.join(KINDS)}")
    return request_of(KINDS[name]).checked(learner)


def stored(kind: str, parameters: Mapping[str, Any]) -> LearnerRequest:
    """The request of a specification, the calibration's included, which no request to train names."""
    estimator = ScoreCalibrator if kind == ScoreCalibrator.name else KINDS[kind]
    return request_of(estimator).checked({"kind": kind, **parameters}, "ignore")
