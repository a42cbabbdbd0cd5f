"""A learner's parameters, declared once: annotations of its estimator, such as
`n_estimators: Annotated[int, Field(ge=1, le=10_000), "Number of trees."] = 100`.

What requests may contain, the OpenAPI document and the card follow from them. Parameters without
such an annotation are not for requests. A parameter whose types are learners is a learner of one of
these kinds, by default of the first.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from itertools import islice
from operator import or_
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import WithJsonSchema

from payoff.acquisition.prices import Prices
from payoff.errors import (
    MAX_ERRORS,
    MAX_NAME,
    Invalid,
    below,
    flaws_of,
    pointer,
    unknown,
    unknown_at,
)
from payoff.learners.monotonic import signs_of

Calibration = Annotated[
    Literal["auto", "isotonic", "sigmoid", "none"],
    "Calibration of cross-fitted probabilities: step curves (isotonic), a logistic curve"
    " (sigmoid), none, or by the log loss of rows that it did not see (auto).",
]
Strength = Annotated[
    float,
    Field(ge=1e-10, le=1e10),
    "Inverse strength of the L2 penalty: smaller values keep coefficients smaller.",
]
Majority = Annotated[
    int | Annotated[str, Field(max_length=MAX_NAME)] | None,
    "The majority class, to which the other classes are compared; null is the most common class.",
]
Task = Annotated[
    Literal["classification", "regression"] | None,
    "Whether labels are classes or numbers; null: numbers where the data set's are.",
]
Count = Annotated[int, Field(ge=1)]
Amount = Count | Annotated[float, Field(gt=0, le=1)] | Literal["sqrt", "log2"] | None
"""An amount of features: a number, a fraction, or the root or logarithm of all; None is all."""


class LearnerRequest(BaseModel):
    """A learner as requests contain it: its kind and all parameters, defaults filled in.

    A parameter that is a learner is a LearnerRequest, too. An integer is written without a decimal
    point, and a boolean is no number.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    kind: str
    estimator: ClassVar[Any]
    """The class of the learner."""

    @classmethod
    def checked(
        cls, document: Mapping[str, Any], extra: Literal["forbid", "ignore"] = "forbid"
    ) -> Self:
        """From names and values; Invalid with every flaw, at the name."""
        try:
            return cls.model_validate(document, extra=extra)
        except ValidationError as error:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            unknown_names = islice(
                (name for name in document if name not in names), MAX_ERRORS
            )
            errors = error.errors(include_url=False, include_input=False)
            known = [details for details in errors if details["loc"][0] in names]
            flaws = [
                unknown_at(pointer(name), "parameter", name, names)
                for name in unknown_names
            ]
            raise Invalid.of([*flaws, *flaws_of(known, document)]) from error

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters, without the kind, by the names of requests."""
        return self.model_dump(by_alias=True, exclude={"kind"})

    @property
    def regresses(self) -> bool:
        """Whether the learner predicts a number, and not a class."""
        return getattr(self, "task", "") == "regression"

    @property
    def needs_square(self) -> bool:
        """Whether training uses a benefit matrix, which needs a column for each class.

        A learner made of learners uses it where one of these does.
        """
        if not self.takes("benefits") or self.estimator.any_actions:
            return False
        inside = [
            value.takes("benefits")
            for _, value in self
            if isinstance(value, LearnerRequest)
        ]
        return not inside or any(inside)

    @classmethod
    def takes(cls, name: str) -> bool:
        """Whether the learner trains with `benefits`, or with `feature_costs`."""
        return any(parameter.name == name for parameter in fields(cls.estimator))

    def naming(
        self, classes: Sequence[int | str], *, by_position: bool = False
    ) -> Self:
        """A copy that names classes as `classes` do, or by position; 1 and "1" are the same class.

        Raises Invalid at the parameter that names no class.
        """
        changed: dict[str, Any] = {}
        for name, value in self:
            if isinstance(value, LearnerRequest):
                with below(pointer(name)):
                    changed[name] = value.naming(classes, by_position=by_position)
            elif name == "majority" and value is not None:
                names = [str(known) for known in classes]
                if str(value) not in names:
                    raise Invalid.at(pointer(name), unknown("class", value, names))
                position = names.index(str(value))
                changed[name] = position if by_position else classes[position]
        return self.model_copy(update=changed)

    def build(
        self,
        *,
        categorical_features: Sequence[int] | None = None,
        benefits: np.ndarray | None = None,
        feature_costs: Prices | None = None,
        classes: Sequence[int | str] | None = None,
        random_state: int | None = None,
        features: Sequence[str] = (),
    ) -> Any:
        """The estimator, not fitted; inner learners are built, too.

        `benefits` (K, A) and `feature_costs` reach estimators that train with them. With `classes`
        the estimator will be fitted on positions in them, so a class that is named becomes its
        position, and so does a feature of `monotonic` in the `features`. Raises Invalid where a
        matrix is needed and absent, at the parameter that names no class, and as `signs_of`.
        """
        if self.estimator.needs_benefits and benefits is None:
            message = f"{self.kind} trains with a benefit matrix; send one as benefits"
            raise Invalid.at("/benefits", message)
        shared: dict[str, Any] = {
            "categorical_features": categorical_features,
            "random_state": random_state,
            "benefits": benefits,
        }
        data = {**shared, "feature_costs": feature_costs}
        arguments = {name: value for name, value in data.items() if self.takes(name)}
        request = self if classes is None else self.naming(classes, by_position=True)
        for name, value in request:
            if isinstance(value, LearnerRequest):
                if getattr(value, "monotonic", None):
                    message = (
                        "a learner inside another one cannot keep this; leave it out"
                    )
                    raise Invalid.at(pointer(name, "monotonic"), message)
                arguments[name] = value.build(**shared)
            elif name == "monotonic" and value:
                signs_of(
                    value, features, categorical_features or (), len(classes or ())
                )
                arguments[name] = {features.index(at): way for at, way in value.items()}
            elif name != "kind":
                arguments[name] = value
        return self.estimator(**arguments)


@cache
def request_of(estimator: Any) -> type[LearnerRequest]:
    """The model of requests for this class of estimators.

    The first paragraph of the class's docstring describes it.
    """
    hints = get_type_hints(estimator, include_extras=True)
    declared: dict[str, Any] = {
        parameter.name: _field(hints[parameter.name], parameter.default)
        for parameter in fields(estimator)
        if parameter.init and get_origin(hints[parameter.name]) is Annotated
    }
    model = create_model(
        estimator.name,
        __base__=LearnerRequest,
        __doc__=(inspect.getdoc(estimator) or "")
        .partition("\n\n")[0]
        .replace("\n", " "),
        **{"kind": (Literal[estimator.name], ...), **declared},
    )
    model.estimator = estimator
    return model


def _field(hint: Any, default: Any) -> tuple[Any, Any]:
    """The annotation and the default of a parameter's field in requests."""
    description = next(text for text in hint.__metadata__ if isinstance(text, str))
    kinds: list[Any] = [
        kind for kind in get_args(get_args(hint)[0]) if is_dataclass(kind)
    ]
    inner: list[Any] = [request_of(kind) for kind in kinds]
    if not inner:
        return Annotated[hint, Field(description=description)], default
    # The schema is cut: generators of clients fail at an object within alternatives.
    schema = WithJsonSchema({"description": description})
    first = inner[0](kind=kinds[0].name)
    return Annotated[reduce(or_, inner), Field(discriminator="kind"), schema], first
