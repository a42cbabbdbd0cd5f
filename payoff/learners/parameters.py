"""A learner's parameters, declared once: annotations of its estimator, such as
`n_estimators: Annotated[int, Field(ge=1, le=10_000), "Number of trees."] = 100`.

What requests may say, the OpenAPI document and the card follow from them. Parameters without such
an annotation are not for requests. A parameter whose types are learners is a learner of one of
these kinds, by default of the first.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from itertools import islice
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

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

Calibration = Annotated[
    Literal["auto", "isotonic", "sigmoid", "none"],
    "Calibration of cross-fitted probabilities: step curves (isotonic), a logistic curve (sigmoid), none, or by the log"
    " loss of rows that it did not see (auto).",
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
"""Of features: a number, a fraction, or the root or logarithm of all; None is all."""


class LearnerRequest(BaseModel):
    """What a request says of a learner: its kind and all parameters, defaults filled in; a learner
    inside is another.

    An integer is written without a decimal point, and a boolean is no number.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    kind: str
    estimator: ClassVar[Any]
    """The class that it is about."""

    @classmethod
    def checked(
        cls, said: Mapping[str, Any], extra: Literal["forbid", "ignore"] = "forbid"
    ) -> Self:
        """From names and values; Invalid with every flaw, at the name."""
        try:
            return cls.model_validate(said, extra=extra)
        except ValidationError as error:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            strange = islice((name for name in said if name not in names), MAX_ERRORS)
            others = [
                one
                for one in error.errors(include_url=False, include_input=False)
                if one["loc"][0] in names
            ]
            flaws = [unknown_at(pointer(name), "parameter", name, names) for name in strange]
            raise Invalid.of([*flaws, *flaws_of(others, said)]) from error

    @property
    def parameters(self) -> dict[str, Any]:
        """All that it says but the kind, by the names of requests."""
        return self.model_dump(by_alias=True, exclude={"kind"})

    @property
    def regresses(self) -> bool:
        """Whether the learner predicts a number, and not a class."""
        return getattr(self, "task", "") == "regression"

    @property
    def needs_square(self) -> bool:
        """Whether a benefit matrix changes what is trained, of a model of models what one inside
        is, and needs a column for each class.
        """
        inside = [one.takes("benefits") for _, one in self if isinstance(one, LearnerRequest)]
        return (
            self.takes("benefits")
            and (not inside or any(inside))
            and not self.estimator.any_actions
        )

    @classmethod
    def takes(cls, name: str) -> bool:
        """Whether the learner trains with `benefits`, or with `feature_costs`."""
        return any(one.name == name for one in fields(cls.estimator))

    def naming(self, classes: Sequence[int | str], *, by_position: bool = False) -> Self:
        """With every class that it names as `classes` write it, 1 and "1" being one, or as its
        position in them.

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
                changed[name] = (
                    names.index(str(value)) if by_position else classes[names.index(str(value))]
                )
        return self.model_copy(update=changed)

    def build(
        self,
        *,
        categorical_features: Sequence[int] | None = None,
        benefits: np.ndarray | None = None,
        feature_costs: Prices | None = None,
        classes: Sequence[int | str] | None = None,
        random_state: int | None = None,
    ) -> Any:
        """The estimator, not fitted; inner learners are built, too.

        `benefits` (K, A) and `feature_costs` reach estimators that train with them. With `classes`
        the estimator will be fitted on positions in them, so a class that is named becomes its
        position. Raises Invalid where a matrix is needed and absent, and at the parameter that
        names no class.
        """
        if self.estimator.needs_benefits and benefits is None:
            raise Invalid.at(
                "/benefits", f"{self.kind} trains with a benefit matrix; send one as benefits"
            )
        shared: dict[str, Any] = {
            "categorical_features": categorical_features,
            "random_state": random_state,
            "benefits": benefits,
        }
        arguments = {
            k: value
            for k, value in {**shared, "feature_costs": feature_costs}.items()
            if self.takes(k)
        }
        for name, value in self if classes is None else self.naming(classes, by_position=True):
            if name != "kind":
                arguments[name] = (
                    value.build(**shared) if isinstance(value, LearnerRequest) else value
                )
        return self.estimator(**arguments)


@cache
def request_of(estimator: Any) -> type[LearnerRequest]:
    """The model of requests about this class of estimators, described by the first paragraph of its
    docstring.
    """
    hints = get_type_hints(estimator, include_extras=True)
    own = [
        one for one in fields(estimator) if one.init and get_origin(hints[one.name]) is Annotated
    ]
    declared: dict[str, Any] = {one.name: _field(hints[one.name], one.default) for one in own}
    model = create_model(
        estimator.name,
        __base__=LearnerRequest,
        __doc__=(inspect.getdoc(estimator) or "").partition("\n\n")[0].replace("\n", " "),
        **{"kind": (Literal[estimator.name], ...), **declared},
    )
    model.estimator = estimator
    return model


def _field(hint: Any, default: Any) -> tuple[Any, Any]:
    doc = next(one for one in hint.__metadata__ if isinstance(one, str))
    kinds: list[Any] = [one for one in get_args(get_args(hint)[0]) if is_dataclass(one)]
    inner: list[Any] = [request_of(one) for one in kinds]
    if not inner:
        return Annotated[hint, Field(description=doc)], default
    schema = WithJsonSchema(
        {"description": doc}
    )  # generators of clients fail at an object within alternatives
    return Annotated[reduce(or_, inner), Field(discriminator="kind"), schema], inner[0](
        kind=kinds[0].name
    )
