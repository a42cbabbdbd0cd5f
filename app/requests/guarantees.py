"""Guarantees: a limit of the risk of an action in a request, and as it is certified and saved."""

from typing import Annotated, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from pydantic import Field, StrictInt

from app.registry.loaded import Loaded
from app.registry.saved_documents import unsaved
from app.requests.fields import Text, WireModel
from app.requests.matrices import MatrixFields
from app.stores import Stores
from payoff.decisions.benefit import LARGEST
from payoff.errors import Invalid, unknown
from payoff.evidence.guarantees import Limit

# Of a risk in parts of the largest: scores of a case that was computed among others may differ in
# the last bits.
_DECIMALS = 12
PRIORS = "a guarantee is about cases as they were evaluated; leave out priors"

Label = StrictInt | Text


class GuaranteeFields(WireModel):
    """An action, and how often it may be wrong, or what it may lose in the mean of its cases."""

    action: Label = Field(examples=["treat"])
    otherwise: Label = Field(
        description="the action in its place, below the cut", examples=["wait"]
    )
    wrong: Annotated[list[Label], Field(min_length=1)] | None = Field(
        default=None,
        description="the classes for which the action is wrong, with `at_most`",
        examples=[["healthy"]],
    )
    at_most: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = Field(
        default=None, description="share of wrong cases among those with the action"
    )
    loss_at_most: Annotated[float, Field(gt=0, le=LARGEST, strict=True)] | None = Field(
        default=None,
        description="in place of these two: mean loss of a case with the action. A loss is what its"
        " benefit is below 0; gains of other cases are not set off",
        examples=[None],
    )
    confidence: float = Field(default=0.95, ge=0.5, le=0.9999, strict=True)


class Guarantee(NamedTuple):
    """A guarantee for a version of a model: `action` is taken where its score is at least `cut`.

    `risks` has the risk of the action in each class: 1 where it is wrong, or its loss in money.
    """

    name: str
    action: str
    otherwise: str
    at_most: float
    confidence: float
    of_money: bool
    risks: list[float]
    cut: float = np.inf

    @classmethod
    def read(
        cls,
        fields: GuaranteeFields,
        classes: list[str],
        actions: list[str],
        B: np.ndarray,
    ) -> Self:
        """The guarantee that is to be certified, under benefits (K, A) or (n, K, A).

        Invalid below /guarantee.
        """
        for field in ("action", "otherwise"):
            name = str(getattr(fields, field))
            if name not in actions:
                raise Invalid.at(
                    f"/guarantee/{field}", unknown("action", name, actions)
                )
        if fields.action == fields.otherwise:
            raise Invalid.at("/guarantee/otherwise", "this is another action")
        of_money = fields.loss_at_most is not None
        if (fields.wrong is None) != of_money or (fields.at_most is None) != of_money:
            raise Invalid.at(
                "/guarantee", "send 'wrong' and 'at_most', or 'loss_at_most' alone"
            )
        if fields.loss_at_most is None:
            wrong = [str(name) for name in fields.wrong or ()]
            for i, name in enumerate(wrong):
                if name not in classes:
                    raise Invalid.at(
                        f"/guarantee/wrong/{i}", unknown("class", name, classes)
                    )
            risks = [float(name in wrong) for name in classes]
        else:
            risks = _losses(B, actions.index(str(fields.action)), fields.loss_at_most)
        return cls(
            name="",
            action=str(fields.action),
            otherwise=str(fields.otherwise),
            at_most=fields.at_most or fields.loss_at_most or 0.0,
            confidence=fields.confidence,
            of_money=of_money,
            risks=risks,
        )

    @property
    def limit(self) -> Limit:
        """The limit that is certified."""
        return Limit(self.at_most, self.confidence, max(self.risks), self.of_money)

    def scores(self, P: np.ndarray) -> np.ndarray:
        """One minus the probability of the wrong classes, or minus the expected loss, (n,), by
        posteriors (n, K).
        """
        largest = max(self.risks)
        parts = P.dot(np.array(self.risks) / largest).round(_DECIMALS)
        return np.asarray(-parts * largest if self.of_money else 1.0 - parts)

    def restricted(
        self, choice: np.ndarray, P: np.ndarray, actions: list[str]
    ) -> np.ndarray:
        """The choice (n,) among the actions, without the guaranteed one below the cut."""
        is_refused = choice == actions.index(self.action)
        is_refused &= self.scores(P) < self.cut
        return np.where(is_refused, actions.index(self.otherwise), choice)


def _losses(B: np.ndarray, action: int, at_most: float) -> list[float]:
    """The loss of an action in each class. Invalid where it has no bound, or is never so large."""
    place = "/guarantee/loss_at_most"
    if B.ndim > 2:
        raise Invalid.at(
            place,
            "a mean loss needs a largest loss, which a benefit that depends on the case does not"
            " have; send 'wrong' and 'at_most'",
        )
    losses: list[float] = np.maximum(-B[:, action], 0.0).tolist()
    if max(losses) <= at_most:
        raise Invalid.at(
            place, f"no case with this action loses more than {max(losses):g}"
        )
    return losses


class GuaranteedFields(MatrixFields):
    """Fields of a request that may name a saved guarantee."""

    guarantee: Text | None = Field(
        default=None,
        description="for the rule `guaranteed`: the name of a guarantee that is saved for this"
        " version of the model, in place of a matrix",
    )
    certified: ClassVar[Guarantee | None] = None
    """The guarantee, once `with_guarantee` has put its matrix in place of its name."""


_Fields = TypeVar("_Fields", bound=GuaranteedFields)


def with_guarantee(stores: Stores, fields: _Fields, model: Loaded) -> _Fields:
    """The fields with the guarantee that they name and its matrix; itself where they name none.

    The name means the newest guarantee for this version of the model. It reads memory alone.
    Invalid with the place where there is none, and where the request has a matrix of its own.
    """
    name = fields.guarantee
    if name is None:
        return fields
    if fields.stated or fields.actions is not None:
        place = fields.place if fields.stated else "/actions"
        raise Invalid.at(place, "a guarantee has its own matrix; leave this out")
    known = stores.documents.of(model.name, "guarantee")
    if name not in known:
        raise Invalid.at("/guarantee", unsaved(model.name, "guarantee", name, known))
    for saved in reversed([*known.values()]):
        document = saved.document
        if name in (saved.name, saved.reference) and document["of"] == model.version:
            certified = Guarantee(**document["certified"])._replace(
                name=saved.reference
            )
            stated = {
                "benefits": document["benefits"],
                "actions": document["actions"],
                "certified": certified,
            }
            return fields.model_copy(update=stated)
    raise Invalid.at(
        "/guarantee",
        f"{name!r} is not about version {model.version} of {model.name!r}: certify it for this"
        f" version with PUT /models/{model.name}:{model.version}/guarantees/<name>",
    )
