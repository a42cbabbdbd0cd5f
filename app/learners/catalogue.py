"""The kinds of learner: their names and parameters in requests, and how an estimator is built from these."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from app.acquisition.session import Prices
from app.errors import Flaw, Invalid, below, pointer, reject, unknown
from app.learners.automatic import Automatic
from app.learners.base import Learner
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
from app.learners.parameters import Parameter, parameters_of
from app.learners.random_forest import RandomForest
from app.learners.score_calibrator import ScoreCalibrator

ACQUIRES = "possible"
"""`fitted.acquire` in cards of models that answer `/acquire`."""


@dataclass(frozen=True)
class Kind:
    """A kind of learner: its name in requests, and its estimator."""

    name: str
    estimator: type[Learner]

    @property
    def doc(self) -> str:
        """What it is, in a sentence or two: the first paragraph of the estimator's docstring."""
        return (inspect.getdoc(self.estimator) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What requests may set."""
        return parameters_of(self.estimator)

    @property
    def labels(self) -> str:
        """`one`, a class or number, or `several`, each of which applies or not."""
        return self.estimator.labels

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it can predict; of several, a parameter `task` chooses."""
        return self.estimator.tasks

    @property
    def stepwise(self) -> bool:
        """Whether it answers `/acquire`."""
        return self.estimator.asks

    @property
    def needs_benefits(self) -> bool:
        """Whether training is refused without a benefit matrix."""
        return self.estimator.needs_benefits

    def takes(self, name: str) -> bool:
        """Whether the estimator trains with `benefits`, or with `feature_costs`."""
        return any(field.name == name for field in fields(self.estimator))

    def build(
        self,
        parameters: Mapping[str, Any],
        *,
        categorical_features: Sequence[int] | None = None,
        benefits: np.ndarray | None = None,
        feature_costs: Prices | None = None,
        classes: Sequence[int | str] | None = None,
        random_state: int | None = None,
    ) -> Any:
        """The estimator, not fitted, for parameters as `resolve` returns them; inner learners are built, too.

        `benefits` (K, K) and `feature_costs` reach estimators that train with them. With `classes` the estimator will
        be fitted on positions in them, so a parameter that names a class becomes its position. Raises Invalid where a
        matrix is needed and absent, and at the parameter that names no class.
        """
        if self.needs_benefits and benefits is None:
            raise Invalid.at("/benefits", f"{self.name} trains with a benefit matrix; send one as benefits")
        if classes is not None:
            parameters = self.labelled(parameters, partial(_position, classes=classes))
        shared: dict[str, Any] = {
            "categorical_features": categorical_features,
            "random_state": random_state,
            "benefits": benefits,
        }
        arguments = {
            name: value for name, value in {**shared, "feature_costs": feature_costs}.items() if self.takes(name)
        }
        for parameter in self.parameters:
            value = parameters[parameter.name]
            inner = parameter.type == "learner" and value is not None
            arguments[parameter.attribute] = KINDS[value["kind"]].build(value, **shared) if inner else value
        return self.estimator(**arguments)

    def regresses(self, parameters: Mapping[str, Any]) -> bool:
        """Whether it predicts a number with these parameters, and not a class."""
        return len(self.tasks) > 1 and parameters["task"] == "regression"

    def uses_benefits(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a benefit matrix changes what is trained: a model of models uses it where one inside does."""
        inside = [parameters[parameter.name] for parameter in self.parameters if parameter.type == "learner"]
        used = not inside or any(one is not None and KINDS[one["kind"]].uses_benefits(one) for one in inside)
        return self.takes("benefits") and used

    def needs_square(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the benefit matrix needs a column for each class."""
        return self.uses_benefits(parameters) and not self.estimator.any_actions

    def naming(self, parameters: Mapping[str, Any], classes: Sequence[int | str]) -> dict[str, Any]:
        """The parameters with every label as `classes` write it, 1 and "1" being one; inner learners' labels, too.

        Raises Invalid at the parameter that names no class.
        """
        return self.labelled(parameters, lambda name, label: classes[_position(name, label, classes)])

    def labelled(self, parameters: Mapping[str, Any], write: Callable[[str, Any], Any]) -> dict[str, Any]:
        """The parameters with every label as `write` gives it for its name and value."""
        found = dict(parameters)
        for parameter in self.parameters:
            name, value = parameter.name, parameters[parameter.name]
            if value is not None and parameter.type == "label":
                found[name] = write(name, value)
            elif value is not None and parameter.type == "learner":
                with below(pointer(name)):
                    found[name] = {"kind": value["kind"], **KINDS[value["kind"]].labelled(value, write)}
        return found


SCORE_CALIBRATOR = Kind("score_calibrator", ScoreCalibrator)
"""No request to train names it; `POST /calibrate` builds it."""

KINDS = {
    kind.name: kind
    for kind in (
        Kind("auto", Automatic),
        Kind("benefit_logistic", BenefitLogistic),
        Kind("budget_forest", BudgetForest),
        Kind("cost_naive_bayes", CostNaiveBayes),
        Kind("cost_tree", CostTree),
        Kind("forest_chain", ForestChain),
        Kind("gradient_boosting", GradientBoosting),
        Kind("hierarchical_logistic", HierarchicalLogistic),
        Kind("kernel_logistic", KernelLogistic),
        Kind("logistic", Logistic),
        Kind("multilabel_forest", MultilabelForest),
        Kind("multilabel_logistic", MultilabelLogistic),
        Kind("random_forest", RandomForest),
    )
}
"""All kinds that requests may train, by name."""


def kind_of(name: str) -> Kind:
    """The kind of this name, the calibration included."""
    return SCORE_CALIBRATOR if name == SCORE_CALIBRATOR.name else KINDS[name]


def resolve(learner: Mapping[str, Any]) -> tuple[Kind, dict[str, Any]]:
    """The kind and all its parameters, defaults filled in, for `{"kind": …, parameter: value, …}`.

    Raises Invalid with every flaw, at `/kind` or at the parameter's name, unknown ones included.
    """
    kind = _kind(learner.get("kind"), KINDS)
    known = {parameter.name: parameter for parameter in kind.parameters}
    strange = (name for name in learner if name != "kind" and name not in known)
    unknown_names = (Flaw(pointer(name), unknown(f"{kind.name} parameter", name, known)) for name in strange)
    flaws: list[Flaw] = []
    parameters: dict[str, Any] = {}
    for name, parameter in known.items():
        try:
            parameters[name] = _value(parameter, learner.get(name, parameter.default))
        except Invalid as error:
            flaws.extend(error.under(pointer(name)).flaws)
    for one, other in kind.estimator.alternatives:
        if parameters.get(one) is not None and parameters.get(other) is not None:
            flaws.append(Flaw(pointer(other), f"{one} and {other} are mutually exclusive"))
    reject(chain(unknown_names, flaws), "invalid learner")
    return kind, parameters


def _kind(name: Any, allowed: Sequence[str] | Mapping[str, Kind]) -> Kind:
    if not isinstance(name, str) or name not in allowed:
        raise Invalid.at("/kind", f"kind is one of {', '.join(allowed)}")
    return KINDS[name]


def _value(parameter: Parameter, value: Any) -> Any:
    checked = parameter.check(value)
    if parameter.type != "learner":
        return checked
    _kind(checked.get("kind"), parameter.choices)
    kind, inner = resolve(checked)
    return {"kind": kind.name, **inner}


def _position(name: str, label: Any, classes: Sequence[int | str]) -> int:
    """Where the class is that a parameter names, as a request writes it."""
    names = [str(known) for known in classes]
    if str(label) not in names:
        raise Invalid.at(pointer(name), f"{name} is one of the classes: {', '.join(names[:20])}")
    return names.index(str(label))
