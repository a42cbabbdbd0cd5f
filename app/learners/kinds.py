"""What a kind of learner is: its name, its parameters, and how it is built from a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Literal

import numpy as np

from app.acquisition.prices import Prices
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.learners.parameters import Parameter

ACQUIRES = "possible"
"""`fitted.acquire` in cards of models that answer `/acquire`."""


@dataclass(frozen=True)
class Kind:
    """A kind of learner: its name in requests, its estimator, and what may be said about it.

    `benefits`: whether a benefit matrix takes part in training: `ignored`, `optional` or `required`; `any_actions`:
    whether its columns may then be any actions, and not only the classes. `labels`: whether it predicts `one` label,
    which is a class, or `several`, each of which applies or not. `feature_costs`: whether the prices of features take
    part in training. `stepwise`: whether it answers `/acquire`. `tasks`: what it can predict; of several, a parameter
    `task` chooses. `alternatives`: pairs of parameters of which one at most is given. An `estimator` given as
    `"module:Class"` is imported when it is needed: a service that only predicts can spare scikit-learn's 60 MB, and
    those of the compiler, which a `compiled` kind needs.
    """

    name: str
    estimator: type[Any] | str
    parameters: tuple[Parameter, ...]
    doc: str
    benefits: Literal["ignored", "optional", "required"] = "ignored"
    labels: Literal["one", "several"] = "one"
    feature_costs: Literal["ignored", "optional"] = "ignored"
    stepwise: bool = False
    tasks: tuple[str, ...] = ("classification",)
    alternatives: tuple[tuple[str, str], ...] = ()
    any_actions: bool = False
    compiled: bool = False

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
                    raise (error.under(pointer(parameter.name)) if inside else error) from error
            elif parameter.type == "label" and value is not None and classes is not None:
                value = _position(parameter.name, value, classes)
            arguments[parameter.attribute] = value
        return self.estimator_class()(**arguments)

    def regresses(self, parameters: Mapping[str, Any]) -> bool:
        """Whether it predicts a number with these parameters, and not a class."""
        return len(self.tasks) > 1 and parameters["task"] == "regression"

    def uses_benefits(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a benefit matrix changes what is trained: a model of models uses it where one inside does."""
        if self.benefits != "optional":
            return self.needs_benefits
        inside = [parameters[parameter.name] for parameter in self.parameters if parameter.type == "learner"]
        return not inside or any(one is not None and KINDS[one["kind"]].uses_benefits(one) for one in inside)

    def needs_square(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the benefit matrix needs a column for each class."""
        return self.uses_benefits(parameters) and not self.any_actions

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
                raise error.under(pointer(parameter.name)) from error
        return named

    @property
    def module(self) -> str:
        """The module of the estimator."""
        return self.estimator.partition(":")[0] if isinstance(self.estimator, str) else self.estimator.__module__

    def estimator_class(self) -> Any:
        """The estimator's class, imported where it was not yet."""
        if not isinstance(self.estimator, str):
            return self.estimator
        return getattr(import_module(self.module), self.estimator.partition(":")[2])

    def describe(self) -> dict[str, Any]:
        """The kind for the API's users, ready for JSON."""
        parameters = [parameter.describe() for parameter in self.parameters]
        return {
            "kind": self.name,
            "description": self.doc,
            "benefits": self.benefits,
            "labels": self.labels,
            "feature_costs": self.feature_costs,
            "tasks": self.tasks,
            "parameters": parameters,
        }


KINDS: dict[str, Kind] = {}
"""All kinds by name, in alphabetical order; `app.learners.catalogue` fills it."""


def _position(name: str, label: Any, classes: Sequence[int | str]) -> int:
    """Where the class is that a parameter names, as a request writes it."""
    names = [str(known) for known in classes]
    if str(label) not in names:
        raise Invalid.at(pointer(name), f"{name} is one of the classes: {', '.join(names[:20])}")
    return names.index(str(label))


def resolve(learner: Mapping[str, Any]) -> tuple[Kind, dict[str, Any]]:
    """The kind and all its parameters, defaults filled in, for `{"kind": …, parameter: value, …}`.

    Raises Invalid with every flaw, at `/kind` or at the parameter's name, unknown ones included.
    """
    kind = _kind(learner.get("kind"))
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
    for one, other in kind.alternatives:
        if parameters.get(one) is not None and parameters.get(other) is not None:
            flaws.append(Flaw(pointer(other), f"{one} and {other} are mutually exclusive"))
    reject(chain(unknown_names, flaws), "invalid learner")
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
