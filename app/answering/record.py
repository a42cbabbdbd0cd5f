"""Recording of decisions: what of a request and its answer is stored, and some actions drawn at
random.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from time import time
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, WithJsonSchema

from app.access.caller import ANYBODY, Caller, Scope
from app.answering.decide import Answer
from app.errors import Forbidden
from app.outcomes.decision import (
    A_REWARD,
    DAY,
    UNIT_COSTS,
    Batch,
    Decided,
    Terms,
    new_ids,
    place_of,
)
from app.outcomes.tables import MAX_ID
from app.registry.loaded import Loaded
from app.requests.fields import TIME_FORM, Moment, Text, WireModel
from app.requests.quantities import Quantities
from app.requests.rules import RuleFields
from app.stores import Stores
from app.tables.text import refused_character
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject
from payoff.errors import described as shown
from payoff.evidence.intervals import LARGEST_EARNED

_IDS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 128}}
_SKEW_SECONDS = 60.0  # by which the clock of a client may be ahead
MAX_SHARED = (
    16 << 20
)  # bytes of the terms that a request records, one for each of its matrices
# The figures of an answer that do not depend on its other instances.
_FIGURES = ("threshold", "beta", "delta")
# The fields beside the matrix that the rule read.
_STATED = {"costs", "explore", "bands", "limits", "resources"}


class Recording(WireModel):
    """The ids of the decisions, and whether the instances are recorded with them."""

    ids: Annotated[list[Any], WithJsonSchema(_IDS)] | None = Field(
        default=None,
        description="one for each instance; without them the service makes its own",
    )
    instances: StrictBool = Field(
        default=False, description="record what was sent of each instance, too"
    )
    segments: Annotated[list[Text], Field(max_length=3)] = Field(
        default=[],
        description="columns by whose values the report can be divided, each with few values:"
        " features, or other members of the instances",
        examples=[["region"]],
    )
    at: Moment = Field(
        default=None,
        description=f"when the decisions were made, where that is not now; {TIME_FORM}",
        examples=[None],
    )


def _in_full(value: Any) -> Any:
    """`true` stands for a recording with its defaults, and `false` for none."""
    if not isinstance(value, bool):
        return value
    return {} if value else None


class RecordField(WireModel):
    """The field `record`."""

    record: Annotated[
        Recording | None,
        BeforeValidator(_in_full, json_schema_input_type=StrictBool | Recording | None),
    ] = Field(
        default=None,
        description="store the decisions before they are answered; `ids` of the answer name them"
        " for `POST /outcomes`",
    )

    @cached_property
    def segments(self) -> Sequence[str]:
        """The columns whose values are recorded."""
        return () if self.record is None else self.record.segments


class Ids(NamedTuple):
    """The checked ids of the decisions, in the order of the instances, and their moment."""

    ids: Sequence[str]
    given: bool
    place: str
    at: float


def ids_of(
    stores: Stores,
    caller: Caller,
    order: Recording,
    n: int,
    request_ids: tuple[str, list[Any]] | None = None,
) -> Ids:
    """One id for each of n decisions; `request_ids` are a field of the request and the ids in it.

    Invalid where values that were sent are no ids, or both places have some; see `check_moment`.
    """
    check_moment(stores, caller, order)
    at = time() if order.at is None else order.at
    ids = order.ids
    place = "/record/ids"
    if request_ids is not None:
        if ids is not None:
            raise Invalid.at(
                place, "the request has ids already; leave out one of the two"
            )
        field, values = request_ids
        reject(
            Flaw(
                pointer(field, i) if field == "ids" else pointer(field),
                f"a decision's id is text or an integer, not {shown(id_)}",
            )
            for i, id_ in enumerate(values)
            if type(id_) not in (str, int)
        )
        ids = list(map(str, values))
        place = pointer(field)
    if ids is None:
        return Ids(new_ids(n, at), given=False, place=place, at=at)
    if len(ids) != n:
        raise Invalid.at(place, f"there are {len(ids):,} ids for {n:,} instances")
    flaws = ((i, _flaw(id_)) for i, id_ in enumerate(ids))
    reject(Flaw(place_of(place, i), flaw) for i, flaw in flaws if flaw)
    if len(set(ids)) < n:
        repeated = Counter(ids).most_common(1)[0][0]
        raise Invalid.at(
            place, f"the id {repeated!r} occurs twice; each decision needs its own"
        )
    return Ids(ids, given=True, place=place, at=at)


def check_moment(stores: Stores, caller: Caller, order: Recording) -> None:
    """Forbidden where a key without the scope `train` dates decisions back: each day costs every
    report.

    Invalid at a moment that is to be deleted already, or is still to come.
    """
    clock = time()
    if not 0 <= (order.at or clock) <= clock + _SKEW_SECONDS:
        raise Invalid.at(
            "/record/at",
            "decisions are recorded as of now, or of a moment since 1970 that has passed",
        )
    if order.at is None or order.at > clock - _SKEW_SECONDS:
        return
    try:
        caller.need(frozenset({Scope.TRAIN}))
    except Forbidden as error:
        raise Forbidden(
            f"to date decisions back {error.detail}", [Flaw("/record/at", error.detail)]
        ) from None
    keep = stores.recorder.keep_seconds
    if keep is not None and order.at < clock - keep:
        raise Invalid.at(
            "/record/at",
            f"decisions are kept for {keep / DAY:g} days; this moment is before that",
        )


def _flaw(id_: Any) -> str | None:
    if not isinstance(id_, str):
        return f"a decision's id is text, not {shown(id_)}"
    if not 1 <= len(id_) <= MAX_ID:
        return f"a decision's id has 1 to {MAX_ID} characters"
    return refused_character(id_)


def batch(decided: Decided, ids: Ids, caller: Caller) -> Batch:
    """What is to be written; Invalid where no report could add the amounts."""
    _check_shared(decided.terms)
    if any(
        np.abs(terms.benefits or 0.0).max() > LARGEST_EARNED for terms in decided.terms
    ):
        raise Invalid.at(
            "/benefits",
            f"benefits of a magnitude above {LARGEST_EARNED:g} are not recorded",
        )
    rows = decided.rows(ids.ids, ids.at, client_of(caller), ids_of_client=ids.given)
    return Batch(rows, {terms.digest: terms for terms in decided.terms}, ids.place)


def client_of(caller: Caller) -> str | None:
    """The name of the key that asks; None without one."""
    return (
        None if caller.client is None and caller.name == ANYBODY.name else caller.name
    )


def explored(answer: Answer, model: str, ids: Sequence[str], share: float) -> Answer:
    """The answer with actions drawn uniformly for that share of its decisions, and the propensity
    of each action.

    What is drawn depends on the decision's id and the model alone: a request that is repeated gets
    the same. With A actions the best one has the propensity 1 - share + share / A, each other one
    share / A.
    """
    best = answer.choice
    n_actions = len(answer.actions)
    draws = np.array([_uniform(f"{model}:{id_}") for id_ in ids])
    drawn = np.minimum((draws / share * n_actions).astype(np.intp), n_actions - 1)
    choice = np.where(draws < share, drawn, best)
    propensities = np.where(
        choice == best, 1 - share + share / n_actions, share / n_actions
    )
    chances = answer.chances
    if chances is not None:
        chances = (1 - share) * chances + share / n_actions
    return answer._replace(choice=choice, propensities=propensities, chances=chances)


def _uniform(text: str) -> float:
    """A number in [0, 1) that looks random."""
    return (
        int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") / 2**64
    )


def predicted_batch(
    model: Loaded,
    fields: RuleFields,
    answer: Answer | Quantities,
    ids: Ids,
    caller: Caller,
    texts: Sequence[str] | None,
    segments: Sequence[str] | None,
) -> Batch:
    """The decisions of an answer to `/predict`, to be stored; `texts` are the instances
    as JSON, `segments` those of `segment_texts`.
    """
    if isinstance(answer, Quantities):
        decided = _decided_quantities(model, fields, answer)
        decided = replace(decided, instances=texts, segments=segments)
        return batch(decided, ids, caller)
    terms, term = _terms(model, fields, answer)
    rows = np.arange(len(ids.ids))
    P = answer.probabilities
    propensities = answer.propensities
    if answer.chances is not None and answer.expected_benefits is not None:
        expected = P[rows, answer.choice]  # the reward, before costs
        P = np.hstack((P, answer.chances, answer.expected_benefits))
        decided = Decided(terms, term, answer.choice, P, expected, propensities)
        decided = replace(decided, instances=texts, segments=segments)
        return batch(decided, ids, caller)
    expected = (
        None
        if answer.expected_benefits is None
        else answer.expected_benefits[rows, answer.choice]
    )
    decided = Decided(
        terms,
        term,
        answer.choice,
        P,
        expected,
        propensities,
        instances=texts,
        segments=segments,
    )
    return batch(decided, ids, caller)


def _decided_quantities(
    model: Loaded, fields: RuleFields, answer: Quantities
) -> Decided:
    """As `Terms` says; an interval that was not asked for is NaN."""
    if (
        answer.chosen is None
        or answer.expected_costs is None
        or fields.unit_costs is None
    ):
        raise Invalid.at(
            "/record",
            f"{model.name!r} predicts numbers: send 'unit_costs' or 'bands' for decisions",
        )
    figures = fields.unit_costs.model_dump() | {
        "coverage": fields.coverage,
        "limit": fields.sum_at_most,
        "bands": [],
    }
    terms = Terms(
        "predict",
        model.name,
        model.version,
        UNIT_COSTS,
        ("a number",),
        ("quantity",),
        figures=figures,
    )
    none = np.zeros(len(answer.chosen), dtype=np.intp)
    ends = (
        np.full((len(none), 2), np.nan)
        if answer.intervals is None
        else answer.intervals
    )
    numbers = np.column_stack((answer.chosen, ends))
    return Decided([terms], none, none, numbers, 0.0 - answer.expected_costs)


def _terms(
    model: Loaded, fields: RuleFields, answer: Answer
) -> tuple[list[Terms], np.ndarray]:
    """The terms of the decisions, one for each distinct matrix, and each decision's position."""
    figures = {
        name: answer.figures[name] for name in _FIGURES if name in answer.figures
    }
    figures |= {
        name: value
        for name, value in fields.model_dump(include=_STATED).items()
        if value
    }
    if fields.certified is not None:
        figures["guarantee"] = fields.certified._asdict()
    benefits = None if answer.matrix is None else answer.matrix.benefits
    matrices, positions = distinct(benefits, len(answer.choice))
    classes = (A_REWARD,) if model.rewarded else tuple(answer.classes)
    priors = None
    if answer.priors is not None:
        priors = dict(
            zip(map(str, answer.classes), answer.priors.tolist(), strict=True)
        )
    terms = [
        Terms(
            verb="predict",
            model=model.name,
            version=model.version,
            rule=answer.rule,
            classes=classes,
            actions=tuple(answer.actions),
            benefits=None if matrix is None else tuple(map(tuple, matrix.tolist())),
            priors=priors,
            figures=figures or None,
        )
        for matrix in matrices
    ]
    return terms, positions


def distinct(benefits: np.ndarray | None, n: int) -> tuple[list[Any], np.ndarray]:
    """The distinct benefit matrices, None for none, and the position (n,) of each decision's."""
    if benefits is None or benefits.ndim < 3:
        return [benefits], np.zeros(n, dtype=np.intp)
    flat = (
        np.ascontiguousarray(benefits).reshape(n, math.prod(benefits.shape[1:])) + 0.0
    )
    _, first, term = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return list(benefits[first]), np.ravel(term)


def _check_shared(terms: Sequence[Terms]) -> None:
    """TooLarge where the terms, one for each matrix, take many times what was sent."""
    size = len(terms[0].content) if len(terms) > 1 else 0
    if len(terms) * size > MAX_SHARED:
        raise TooLarge(
            f"{len(terms):,} benefit matrices to record, each with {size:,} bytes with its classes,"
            f" actions and limits; a request records at most {MAX_SHARED >> 20} MB of these: send"
            " fewer matrices at once, or leave out limits"
        )
