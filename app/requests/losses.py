"""What `/retrieve` is asked and answers, and sets as columns. It loads no compiler, unlike
`retrieve`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from app.requests.fields import Instances, ModelVersion, Text, WireModel
from payoff.errors import Invalid, TooLarge, pointer
from payoff.probabilities import clipped
from payoff.retrieval.losses import (
    DEFAULT_BETA,
    LARGEST_BETA,
    LARGEST_COEFFICIENT,
    LOSSES,
    Loss,
    SetTerms,
)

Setting = Literal["binary", "multilabel", "multiclass"]
Method = Literal["expected_loss", "sampled"]

RANGE = "must be a number from 0 to 1"
FIGURES = ("expected_loss", "expected_precision", "expected_recall", "error_bound")
SAMPLED = (*FIGURES, "gap", "vectors")
MAX_SETS = 1_000_000  # of one call
MAX_ITEMS = 20_000_000  # of one call


@dataclass(frozen=True)
class Sets:
    """Probabilities of items: `offsets` (sets + 1,) divide `p` (total,) into sets; None: they are
    one set.
    """

    p: np.ndarray
    offsets: np.ndarray | None = None

    @classmethod
    def of_rows(cls, P: np.ndarray) -> Sets:
        """A set of each row of P (n, K)."""
        return cls(P.ravel(), np.arange(len(P) + 1) * P.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        return (
            np.array([len(self.p)]) if self.offsets is None else np.diff(self.offsets)
        )

    @property
    def spread(self) -> np.ndarray:
        """The variances of the numbers of relevant items (sets,)."""
        sums = np.concatenate(([0.0], np.cumsum(self.p * (1.0 - self.p))))
        return np.diff(sums[[0, -1]] if self.offsets is None else sums[self.offsets])

    def checked(self) -> Sets:
        """The same, of values within the `TOLERANCE`; Invalid at the first one that is no
        probability.
        """
        p = clipped(self.p)
        good = (p >= 0.0) & (p <= 1.0)
        if not good.all():
            at = int(np.argmin(good))
            raise Invalid.at(
                self.place(at), f"a probability is {self.p[at]}; it {RANGE}"
            )
        return replace(self, p=p)

    def place(self, item: int) -> str:
        """Where an item stands in the request."""
        if self.offsets is None:
            return pointer("probabilities", item)
        row = int(np.searchsorted(self.offsets, item, side="right")) - 1
        return pointer("probabilities", row, item - self.offsets[row])


def check_extent(sets: int, items: int) -> None:
    """TooLarge where a call would ask about more sets, or items in all of them, than it may; before
    they are made.
    """
    if sets > MAX_SETS:
        raise TooLarge(
            f"the request has {sets:,} sets; at most {MAX_SETS:,} are allowed"
        )
    if items > MAX_ITEMS:
        raise TooLarge(
            f"the request has {items:,} items; at most {MAX_ITEMS:,} are allowed"
        )


def _in_range(value: float) -> float:
    if value != 0 and not 1 / LARGEST_COEFFICIENT <= abs(value) <= LARGEST_COEFFICIENT:
        least = 1 / LARGEST_COEFFICIENT
        raise ValueError(
            f"a coefficient is 0, or a number of magnitude from {least:g} to"
            f" {LARGEST_COEFFICIENT:g}"
        )
    return value


_MAGNITUDE = {"minimum": 1 / LARGEST_COEFFICIENT, "maximum": LARGEST_COEFFICIENT}
_NEGATIVE = {"minimum": -LARGEST_COEFFICIENT, "maximum": -1 / LARGEST_COEFFICIENT}
_COEFFICIENT = {"type": "number", "oneOf": [{"const": 0}, _MAGNITUDE, _NEGATIVE]}
Coefficient = Annotated[
    float, Field(strict=True), AfterValidator(_in_range), WithJsonSchema(_COEFFICIENT)
]
Four = Annotated[list[Coefficient], Field(min_length=4, max_length=4)]
Count = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]


_PLAIN = tuple(name for name in LOSSES if name not in ("f_beta", "fractional_linear"))


class FBeta(WireModel):
    """1 less the F-measure."""

    name: Literal["f_beta"]
    beta: Annotated[float, Field(strict=True, ge=1 / LARGEST_BETA, le=LARGEST_BETA)] = (
        DEFAULT_BETA
    )


class PlainLoss(WireModel):
    """A loss without parameters."""

    name: Literal[_PLAIN]  # type: ignore[valid-type]


class FractionalLinear(WireModel):
    """(c0 + c1 u + c2 v + c3 p) / (d0 + d1 u + d2 v + d3 p) with u = TP/n, v = k/n, p = P/n."""

    name: Literal["fractional_linear"]
    c: Four
    d: Four


class RetrieveFields(WireModel):
    """All of a request but its probabilities or instances."""

    setting: Setting = Field(
        description="binary: independent items; multilabel: the independent labels of an instance;"
        " multiclass: the classes of an instance, of which exactly one is true"
    )
    loss: Annotated[
        FBeta | PlainLoss | FractionalLinear, Field(discriminator="name")
    ] = Field(description="what a set costs", examples=[{"name": "f_beta"}])
    empty: Annotated[int, Field(strict=True, ge=0, le=1)] = Field(
        default=0,
        description="the loss where nothing is relevant and nothing is retrieved",
    )
    k_min: Count = Field(default=0, description="minimum number of items to retrieve")
    k_max: Count | None = Field(
        default=None, description="maximum number of items to retrieve; null: no limit"
    )
    curve: Flag = Field(
        default=False,
        description="add the expected loss of retrieving the best 0, 1, … n",
    )
    marginals: Flag = Field(
        default=False, description="add the probabilities that were used"
    )
    method: Method = Field(
        default="expected_loss",
        examples=["sampled"],
        description="expected_loss is the best set of independent labels; sampled"
        " (multilabel_forest; f_beta, jaccard, am or g_tp_pr) is the best on the label vectors of"
        " the training rows nearest to the instance, for labels that exclude or imply one another",
    )
    model: Text | None = Field(
        default=None,
        description="name, name:version or name@alias; goes with instances",
    )
    positive: (
        Annotated[int, Field(strict=True)] | Annotated[Text, Field(strict=True)] | None
    ) = Field(
        default=None,
        description="binary with a model: the class or label that counts as relevant; of two"
        " classes by default the second",
    )
    average: Literal["macro"] | None = Field(
        default=None,
        description="macro (multilabel and multiclass): one set of instances for each label or"
        " class, in place of one set of labels for each instance",
    )

    @cached_property
    def terms(self) -> SetTerms:
        """What is asked of every set; Invalid at /k_min where it is above `k_max`."""
        loss: Any = self.loss
        beta, c, d = (getattr(loss, name, None) for name in ("beta", "c", "d"))
        return SetTerms(
            Loss(loss.name, beta, c and tuple(c), d and tuple(d)),
            empty=self.empty,
            k_min=self.k_min,
            k_max=self.k_max,
            curve=self.curve,
        )


_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_ONE_SET = {"type": "array", "items": _PROBABILITY}
_PROBABILITIES = {"type": "array", "items": {"oneOf": [_PROBABILITY, _ONE_SET]}}


class RetrieveRequest(RetrieveFields):
    """Probabilities, or a model and instances."""

    probabilities: Annotated[list[Any], WithJsonSchema(_PROBABILITIES)] | None = Field(
        default=None,
        description="of being relevant: a list is one set, a list of lists a set each, of any"
        " sizes",
    )
    instances: Instances | None = Field(
        default=None,
        description="as in /predict; in binary they are the items of one set, else each has a set",
    )


class RetrievedSet(BaseModel):
    """One set, and what to expect of it."""

    selected: list[int | str] = Field(
        description="positions, or a model's labels or classes; best first"
    )
    k: int = Field(description="how many")
    expected_loss: float
    expected_precision: float = Field(description="of an empty set 1")
    expected_recall: float = Field(description="1 where nothing is relevant")
    error_bound: float = Field(description="maximum error of expected_loss and curve")
    gap: float | None = Field(
        default=None,
        description="method sampled: by how much at most the best set has a smaller expected loss;"
        " 0: this is the best;"
        " null where more than 10 % of the weight of the label vectors is left out",
    )
    vectors: float | None = Field(
        default=None,
        description="method sampled: effective number of label vectors,"
        " 1 / (sum of squared weights)",
    )
    curve: list[float] | None = Field(default=None, description="L_0 … L_n")
    marginals: list[float] | None = Field(
        default=None,
        description="the probability of each item, in the order of the items, labels or classes",
    )


class RetrieveAnswer(BaseModel):
    """One set for each set of items, in the same order."""

    sets: list[RetrievedSet]
    setting: Setting
    method: Method
    loss: dict[str, Any]
    average: Literal["macro"] | None = None
    positive: int | str | None = None
    labels: list[int | str] | None = Field(
        default=None,
        description="the model's labels or classes; with `average` each has a set, in this order",
    )
    correction: float | None = Field(
        default=None,
        description="multilabel, method expected_loss, with a model that has 200 rows held out:"
        " what to add to the mean"
        " of the expected losses of many sets, from what such sets cost there",
    )
    model: ModelVersion | None = None
    warnings: list[str]
