"""The kinds of learner that can be trained: name, parameters, and how each is built. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from app.acquisition.prices import Prices
from app.decisions.benefit import LARGEST
from app.errors import Flaw, Invalid
from app.learners.benefit_logistic import BenefitLogistic
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.gradient_boosting import GradientBoosting
from app.learners.hierarchical_logistic import HierarchicalLogistic
from app.learners.kernel_logistic import KERNELS, KernelLogistic
from app.learners.logistic import Logistic
from app.learners.multilabel_logistic import MultilabelLogistic
from app.learners.parameters import Parameter

CALIBRATION = Parameter(
    "calibration",
    "choice",
    "auto",
    "How probabilities are made to mean what they say, on cross-fitted predictions: curves of steps (isotonic),"
    " a logistic curve (sigmoid), or as the model gives them (none). auto chooses by the size of the smallest class.",
    choices=("auto", "isotonic", "sigmoid", "none"),
)
STRENGTH = Parameter(
    "C",
    "number",
    1.0,
    "Inverse strength of the L2 penalty on the coefficients: smaller values keep them smaller.",
    low=1e-10,
    high=1e10,
)
MAJORITY = Parameter(
    "majority",
    "label",
    None,
    "The majority class, the one that the others are compared with; null is the most common one.",
    optional=True,
)


@dataclass(frozen=True)
class Kind:
    """A kind of learner: its name in requests, its estimator, and what may be said about it.

    `benefits`: whether a benefit matrix takes part in training: `ignored`, `optional` or `required`. `labels`: whether
    it predicts `one` label, which is a class, or `several`, each of which applies or not. `feature_costs`: whether the
    prices of features take part in training. `stepwise`: whether it answers `/acquire`. An estimator given as
    `"module:Class"` is imported when it is needed: its compiler takes 60 MB that a service without it can spare.
    """

    name: str
    estimator: type[BaseEstimator] | str
    parameters: tuple[Parameter, ...]
    doc: str
    benefits: Literal["ignored", "optional", "required"] = "ignored"
    labels: Literal["one", "several"] = "one"
    feature_costs: Literal["ignored", "optional"] = "ignored"
    stepwise: bool = False

    @property
    def needs_benefits(self) -> bool:
        """Whether training is refused without a benefit matrix."""
        return self.benefits == "required"

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
        arguments: dict[str, Any] = {"categorical_features": categorical_features, "random_state": random_state}
        if self.benefits != "ignored":
            arguments["benefits"] = benefits
        if self.feature_costs != "ignored":
            arguments["feature_costs"] = feature_costs
        for parameter in self.parameters:
            value = parameters[parameter.name]
            if parameter.type == "learner" and value is not None:
                inner = KINDS[value["kind"]]
                try:
                    value = inner.build(
                        value,
                        categorical_features=categorical_features,
                        benefits=benefits,
                        classes=classes,
                        random_state=random_state,
                    )
                except Invalid as error:
                    inside = not error.flaws[0].loc.startswith("/benefits")
                    raise (error.under(f"/{parameter.name}") if inside else error) from error
            elif parameter.type == "label" and value is not None and classes is not None:
                value = _position(parameter.name, value, classes)
            arguments[parameter.argument or parameter.name] = value
        return self.estimator_class()(**arguments)

    def uses_benefits(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a benefit matrix changes what is trained: a model of models uses it where one inside does."""
        if self.benefits != "optional":
            return self.needs_benefits
        inside = [parameters[parameter.name] for parameter in self.parameters if parameter.type == "learner"]
        return not inside or any(one is not None and KINDS[one["kind"]].uses_benefits(one) for one in inside)

    def naming(self, parameters: Mapping[str, Any], classes: Sequence[int | str]) -> dict[str, Any]:
        """The parameters with every label as `classes` write it, 1 and "1" being one; inner learners' labels, too.

        Raises Invalid at the parameter that names no class.
        """
        named = dict(parameters)
        for parameter in self.parameters:
            value = parameters[parameter.name]
            if value is None or parameter.type not in ("label", "learner"):
                continue
            if parameter.type == "label":
                named[parameter.name] = classes[_position(parameter.name, value, classes)]
                continue
            try:
                named[parameter.name] = {"kind": value["kind"], **KINDS[value["kind"]].naming(value, classes)}
            except Invalid as error:
                raise error.under(f"/{parameter.name}") from error
        return named

    def estimator_class(self) -> Any:
        """The estimator's class, imported where it was not yet."""
        if not isinstance(self.estimator, str):
            return self.estimator
        module, _, name = self.estimator.partition(":")
        return getattr(import_module(module), name)

    def describe(self) -> dict[str, Any]:
        """The kind for the API's users, ready for JSON."""
        parameters = [parameter.describe() for parameter in self.parameters]
        return {
            "kind": self.name,
            "description": self.doc,
            "benefits": self.benefits,
            "labels": self.labels,
            "feature_costs": self.feature_costs,
            "parameters": parameters,
        }


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "logistic",
            Logistic,
            (STRENGTH, CALIBRATION),
            "Multinomial logistic regression, blind to costs: decisions come from its probabilities.",
        ),
        Kind(
            "benefit_logistic",
            BenefitLogistic,
            (
                STRENGTH,
                CALIBRATION,
                Parameter(
                    "one_vs_rest",
                    "choice",
                    "normalised",
                    "With three classes or more: how the rest's benefits are combined, as their mean by class shares"
                    " (normalised; reduces to the two-class weight), or as the printed sums (as_printed).",
                    choices=("normalised", "as_printed"),
                ),
            ),
            "Logistic regression whose errors weigh what the benefit matrix says; one class against the rest when"
            " there are three or more.",
            benefits="required",
        ),
        Kind(
            "cost_naive_bayes",
            CostNaiveBayes,
            (
                Parameter(
                    "alpha",
                    "number",
                    1.0,
                    "Rows added to every value of every feature in each class, so that nothing counts as impossible.",
                    low=1e-10,
                    high=1e6,
                ),
                Parameter(
                    "bins",
                    "integer",
                    10,
                    "Into how many categories of about equal counts a number is divided, at most.",
                    low=2,
                    high=256,
                ),
                CALIBRATION,
            ),
            "Naive Bayes on categories and binned numbers; a missing value is left out of the product.",
        ),
        Kind(
            "gradient_boosting",
            GradientBoosting,
            (
                Parameter(
                    "max_iter", "integer", 100, "Boosting rounds; each grows a tree per class.", low=1, high=10_000
                ),
                Parameter("learning_rate", "number", 0.1, "How far a round goes.", low=0.0, high=10.0, above_low=True),
                Parameter("max_leaf_nodes", "integer", 31, "Leaves of a tree, at most.", low=2, optional=True),
                Parameter("l2_regularization", "number", 0.0, "L2 penalty on what the leaves add.", low=0.0, high=1e10),
                CALIBRATION,
            ),
            "Gradient boosted trees on histograms, blind to costs; takes missing values and categories as they are.",
        ),
        Kind(
            "random_forest",
            "app.learners.random_forest:RandomForest",
            (
                Parameter("n_estimators", "integer", 100, "Trees.", low=1, high=10_000),
                Parameter(
                    "max_features",
                    "amount",
                    "sqrt",
                    "Features looked at for a split: so many, a fraction, or a root or logarithm of all; null is all."
                    " With all of them the trees agree more on what they ask for, so `/acquire` asks for less.",
                    choices=("sqrt", "log2"),
                    optional=True,
                ),
                Parameter("min_samples_leaf", "integer", 1, "Rows in a leaf, at least.", low=1),
                CALIBRATION,
            ),
            "scikit-learn's random forest, blind to costs; `/acquire` asks it feature by feature.",
            stepwise=True,
        ),
        Kind(
            "budget_forest",
            "app.learners.budget_forest:BudgetForest",
            (
                Parameter(
                    "budget",
                    "number",
                    None,
                    "Highest mean price per row of all features that the forest looks at; null is no limit.",
                    low=0.0,
                    high=LARGEST,
                    optional=True,
                ),
                Parameter(
                    "alpha",
                    "number",
                    None,
                    "Rows of a class that may be wrong at a leaf: more make shallower, cheaper trees; null chooses on"
                    " validation rows.",
                    low=0.0,
                    optional=True,
                ),
                Parameter(
                    "cost_exponent",
                    "number",
                    None,
                    "How far prices count in a split: 0 only between equals, 1 in proportion; null chooses, too.",
                    low=0.0,
                    high=1.0,
                    optional=True,
                ),
                Parameter(
                    "n_estimators",
                    "integer",
                    None,
                    "Trees, at most; null takes the number, up to 40, with the least validation error.",
                    low=1,
                    high=10_000,
                    optional=True,
                ),
                Parameter("max_depth", "integer", None, "Of a tree; null is no limit.", low=0, optional=True),
            ),
            "A forest whose trees ask for cheap features first, grown until its mean cost reaches a budget; trains with"
            " `feature_costs`, and `/acquire` asks it feature by feature.",
            feature_costs="optional",
            stepwise=True,
        ),
        Kind(
            "kernel_logistic",
            KernelLogistic,
            (
                Parameter("kernel", "choice", "rbf", "How alike two rows are.", choices=KERNELS),
                Parameter(
                    "gamma",
                    "number",
                    None,
                    "Scale of rbf, exp(-gamma distance^2), and polynomial, (gamma a.b + 1)^degree; null is one over the"
                    " features' summed variance, after scaling.",
                    low=1e-10,
                    high=1e10,
                    optional=True,
                ),
                Parameter("degree", "integer", 3, "Degree of the polynomial kernel.", low=1, high=20),
                STRENGTH,
                MAJORITY,
                Parameter(
                    "n_components",
                    "integer",
                    None,
                    "Rows that span the functions (Nystroem landmarks); null is all of a small table, 1000 of a large"
                    " one.",
                    low=1,
                    high=5000,
                    optional=True,
                ),
            ),
            "Multinomial logistic regression with a kernel, blind to costs: smooth curved boundaries.",
        ),
        Kind(
            "hierarchical_logistic",
            HierarchicalLogistic,
            (
                MAJORITY,
                Parameter(
                    "first",
                    "learner",
                    {"kind": "kernel_logistic"},
                    "What separates the majority class from all others; benefit_logistic trains with the benefits,"
                    " those of the minority classes combined by their shares.",
                    choices=("kernel_logistic", "benefit_logistic"),
                ),
                Parameter(
                    "second",
                    "learner",
                    {"kind": "kernel_logistic"},
                    "What tells the minority classes apart.",
                    choices=("kernel_logistic", "logistic"),
                ),
            ),
            "First majority or minority, then which minority class; probabilities are the product.",
            benefits="optional",
        ),
        Kind(
            "multilabel_logistic",
            MultilabelLogistic,
            (
                STRENGTH,
                CALIBRATION,
                Parameter(
                    "chain",
                    "boolean",
                    default=False,
                    doc="Whether each label's model also sees the probabilities of the labels before it.",
                ),
            ),
            "A logistic regression for each of several labels: the probability that it applies, for `/retrieve`.",
            labels="several",
        ),
    )
}


def _position(name: str, label: Any, classes: Sequence[int | str]) -> int:
    """Where the class is that a parameter names, as a request writes it."""
    names = [str(known) for known in classes]
    if str(label) not in names:
        raise Invalid.at(f"/{name}", f"{name} is one of the classes: {', '.join(names[:20])}")
    return names.index(str(label))


def resolve(learner: Mapping[str, Any]) -> tuple[Kind, dict[str, Any]]:
    """The kind and all its parameters, defaults filled in, for `{"kind": …, parameter: value, …}`.

    Raises Invalid with every flaw, at `/kind` or at the parameter's name, unknown ones included.
    """
    kind = _kind(learner.get("kind"))
    known = {parameter.name: parameter for parameter in kind.parameters}
    names = ", ".join(known) or "none"
    flaws = [
        Flaw(
            "/" + name.replace("~", "~0").replace("/", "~1"),
            f"{kind.name} has no parameter {name[:40]!r}; it has {names}",
        )
        for name in learner
        if name != "kind" and name not in known
    ]
    parameters: dict[str, Any] = {}
    for name, parameter in known.items():
        try:
            parameters[name] = _value(parameter, learner.get(name, parameter.default))
        except Invalid as error:
            flaws.extend(error.under(f"/{name}").flaws)
    if flaws:
        raise Invalid("the learner cannot be used as described", flaws)
    return kind, parameters


def _kind(name: Any) -> Kind:
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Invalid.at("/kind", f"kind is one of {', '.join(KINDS)}")
    return kind


def _value(parameter: Parameter, value: Any) -> Any:
    checked = parameter.check(value)
    if parameter.type != "learner" or checked is None:
        return checked
    if checked.get("kind") not in parameter.choices:
        raise Invalid.at("/kind", f"kind is one of {', '.join(parameter.choices)} here")
    kind, inner = resolve(checked)
    return {"kind": kind.name, **inner}
