"""Decide what to do for each instance of a model, or predict its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, StrictBool, WithJsonSchema

from app.errors import Flaw, Invalid, TooLarge, pointer, reject
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases.explain import contributions
from app.usecases.fields import INSTANCES, PROBABILITIES, CarriedFields, CarriedIds, ClassNames, Text
from app.usecases.prepared import Usual
from app.usecases.probabilities import Probabilities
from app.usecases.record import RecordField, texts_of_json, texts_of_rows
from app.usecases.rules import Answer, RuleFields, check_fields, decide_by

_FEW_NUMBERS = 100
LARGEST_ANSWER = 5_000_000  # numbers; some 90 MB of JSON, or 40 MB as an array
_EXPLAINED = 25  # numbers for each cell of an explanation, by the most time that it takes
_FOR_CLASSES = ("rule", "benefits", "cost_matrix", "actions", "threshold", "costs", "priors", "explain", "explore")


class PredictFields(RuleFields, CarriedFields, RecordField):
    """All of a request but its instances or probabilities."""

    model: Text | None = Field(
        default=None, description="name, name:version or name@alias; or send `probabilities`", examples=["triage"]
    )
    classes: ClassNames | None = Field(default=None, description="with `probabilities`: the names of their columns")
    normalize: StrictBool = Field(
        default=False, description="with `probabilities`: divide each row by its sum, which need not be 1"
    )


class PredictRequest(PredictFields, CarriedIds):
    """Instances of a model, or probabilities of classes, and what is at stake."""

    instances: Annotated[list[Any] | None, WithJsonSchema(INSTANCES)] = Field(
        default=None, description="rows in the model's feature order, or objects by feature name; null where missing"
    )
    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        default=None, description="in place of model and instances: a row per instance, a column for each of `classes`"
    )

    @cached_property
    def is_simple(self) -> bool:
        """Whether the matrix alone decides, and nothing else is asked for than to decide; the model may record."""
        return self.is_plain and not (self.carries or self.record or self.probabilities is not None)


class Rows(NamedTuple):
    """Instances as the model's schema encodes them, X (n, m), what is to be said of them, and where they came as JSON,
    as `sent`. The numbers of a `usual` row are not missing, and not far from those in training.
    """

    X: np.ndarray
    warnings: list[str]
    sent: Sequence[Any] | None = None
    usual: bool = False

    def texts(self, schema: Schema) -> list[str]:
        """Each instance as JSON, by feature name."""
        return texts_of_rows(self.X, schema) if self.sent is None else texts_of_json(self.sent, schema)


def predict(model: Loaded, asked: RuleFields, rows: Rows, key: bytes | None = None) -> Answer:
    """Decide for rows, with all that is asked for; the same `key` stands for the same fields.

    Raises Invalid with the place in the request where what is asked does not fit the model or its rule. O(n K A)
    beyond the model's own work.
    """
    usual = model.once(Usual)
    known = usual.known(key)
    if known is None:
        check_classes(model)
        check_fields(asked)
    _check_size(model.classes, asked, len(rows.X))
    scores = usual.posterior(rows.X) if rows.usual else model.estimator.posterior(rows.X)
    check_finite(scores)
    answer = decide_by(asked, model, model.classes, scores, [*model.card.warnings, *rows.warnings], known)
    if known is None and key is not None and answer.matrix is not None:
        usual.keep(key, answer.matrix)
    return answer if answer.explanations is None else _with_contributions(model, rows.X, answer)


def decide_given(given: Probabilities, asked: RuleFields) -> Answer:
    """Decide with probabilities that came with the request; Invalid also for what only a model can answer."""
    check_fields(asked)
    _check_size(given.classes, asked, len(given.P))
    if asked.priors is not None:
        raise Invalid.at("/priors", "priors correct the probabilities of a model, which knows the priors in training")
    if asked.threshold == "holdout":
        raise Invalid.at("/threshold", "the threshold 'holdout' needs a model; use 'posterior' or a number")
    return decide_by(asked, None, given.classes, given.P, ())


def predict_values(model: Loaded, asked: PredictFields, X: np.ndarray) -> np.ndarray:
    """The numbers (n,) that a model of numbers predicts for rows X (n, m) as its schema encodes them.

    Raises Invalid with the place of whatever is asked that needs classes.
    """
    if asked.record:
        raise Invalid.at("/record", f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes")
    sent = (name for name in _FOR_CLASSES if name in asked.model_fields_set)
    named = [name for name in sent if getattr(asked, name) not in (None, False)]
    reject(
        Flaw(pointer(name), f"{model.name!r} predicts numbers: {name} is for classes; leave it out")
        for name in (*named, *asked.limited)
    )
    values: np.ndarray = model.estimator.values(X)
    reject(
        Flaw(pointer("instances", i), "the model gives no number for this instance")
        for i in np.flatnonzero(~np.isfinite(values))
    )
    return values


def check_classes(model: Loaded) -> None:
    """Invalid at /model where it predicts numbers, or has several labels: actions are for exclusive classes."""
    if model.regression:
        raise Invalid.at("/model", f"{model.name!r} predicts numbers; this needs a model of classes")
    if model.multilabel:
        raise Invalid.at(
            "/model", f"{model.name!r} has several labels; `POST /retrieve` says which of them to retrieve"
        )


def extent(classes: Sequence[object], asked: RuleFields, n_instances: int) -> int:
    """How many numbers the answer will hold: few bytes can ask for one for every class and action of every instance.

    An explanation counts as the work it takes.
    """
    n_classes = len(classes) or 1
    n_actions = asked.width(n_classes)
    return n_instances * (n_classes + n_actions + _EXPLAINED * n_classes * n_actions * asked.explain)


def _check_size(classes: Sequence[object], asked: RuleFields, n_instances: int) -> None:
    cells = extent(classes, asked, n_instances)
    if cells > LARGEST_ANSWER:
        raise TooLarge(f"the answer would hold {cells:,} numbers, more than {LARGEST_ANSWER:,}; send fewer instances")


def check_finite(P: np.ndarray) -> None:
    """Reject non-finite probabilities."""
    total = sum(P.ravel().tolist()) if P.size <= _FEW_NUMBERS else P.sum()  # of few a tenth of the time
    if not math.isfinite(total):
        rows = np.flatnonzero(~np.isfinite(P).all(axis=1))
        reject(Flaw(pointer("instances", i), "the model gives no probabilities for this instance") for i in rows)


def _with_contributions(model: Loaded, X: np.ndarray, answer: Answer) -> Answer:
    """The answer, whose explanations say what each feature contributed, where the model can tell."""
    if not answer.explanations:
        return answer
    fields, why = contributions(model, X, answer.probabilities)
    explained = [one | more for one, more in zip(answer.explanations, fields or [{}] * len(X), strict=True)]
    return answer._replace(explanations=explained, warnings=[*answer.warnings, *why])
