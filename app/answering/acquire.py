"""Which feature to learn next, for cases of which a part is known."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Field, RootModel

from app.access.caller import Caller
from app.answering.acquisition_model import AcquisitionModel, acquisition_model
from app.answering.predict import LARGEST_ANSWER
from app.answering.record import RecordField, batch, distinct, ids_of
from app.outcomes.decision import Batch, Decided, Terms
from app.registry.loaded import Loaded
from app.requests.costs import FeatureCosts
from app.requests.fields import (
    COLUMNS,
    CaseColumns,
    IdsField,
    KnownCase,
    ModelVersion,
    Names,
    Text,
)
from app.requests.matrices import NamedMatrixFields, columns_beside
from app.stores import Stores
from app.tables.features import Schema
from payoff.acquisition.prices import Prices, rounded
from payoff.acquisition.states import States
from payoff.acquisition.stopping import at_stake
from payoff.decisions.benefit import LARGEST, Decision, Prepared
from payoff.decisions.case_benefits import by_case
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject, unknown_at

_SECONDS_PER_CASE = 4e-5
_SECONDS_PER_MATRIX = 0.02  # of a case, where each has a matrix of its own
# cases times features: the answer may name every feature for every case
MAX_CELLS = 500_000
# Values in memory for each feature of a case, which trees may wait for and the answer then names.
_VALUES_PER_FEATURE = 4
_TREE_WARNING = (
    "a tree of classifiers asks to the end of its path; "
    "benefits decide, but do not stop"
)
_NO_EXPERIENCE_WARNING = (
    "this model could not learn when asking on is not worth its price;"
    " benefits decide, but do not stop"
)
_UNUSABLE = "the cases cannot be used"
_NO_CASE = "a case is an object of known values by feature name"
UNAVAILABLE = -1
_RECORDED_FIELDS = ("budget", "feature_costs", "unavailable")

Budget = Annotated[float, Field(strict=True, ge=0, le=LARGEST)] | None


class AcquireRequest(NamedMatrixFields, IdsField, RecordField):
    """All that is known so far, and what the rest may cost, in the currency of the benefits."""

    model: Text = Field(
        description="name, name:version or name@alias of a forest or tree",
        examples=["triage"],
    )
    budget: Budget = Field(
        default=None,
        description="what each case may spend, with what it has spent already",
    )
    unavailable: Names = Field(default=[], description="features that cannot be had")
    feature_costs: FeatureCosts = Field(
        default=None,
        description="prices that differ from those of training; 0 for features that are free",
    )
    known: KnownCase | None = Field(
        default=None,
        description="values by feature name, in the order of their acquisition (of a group, the"
        " first has paid its full cost); null is a value that cannot be had",
    )
    instances: list[KnownCase] | None = Field(
        default=None, description="the same for many cases, in place of `known`"
    )
    columns: CaseColumns = Field(default=None, description=COLUMNS, examples=[None])


class Offer(BaseModel):
    """A feature, and what it costs now."""

    feature: str
    cost: float


class Wanted(Offer):
    """A feature that trees wait for, or the node of a tree."""

    waiting: int = Field(description="how many trees")


Reason = Literal["resolved", "vote_settled", "budget", "not_worth_it", "unavailable"]


class CaseState(BaseModel):
    """Where a case stands."""

    status: Literal["acquire", "decided"]
    reason: Reason | None = Field(description="why nothing more is asked for")
    next: Offer | None = Field(description="what to learn next")
    frontier: list[Wanted] = Field(
        description="all that trees wait for, best first, affordable or not"
    )
    spent: float
    remaining: float | None = Field(description="of the budget")
    prediction: int | str | float = Field(
        description="from what is known: the class that most trees of a forest vote for"
        " (`/predict` decides by the calibrated probabilities, and may name another), or what the"
        " deepest node of a tree says, a class or a number"
    )
    probabilities: dict[str, float] | None = Field(
        description="of the classes; null where numbers are predicted"
    )
    trees: int
    trees_resolved: int
    decision: int | str | None = Field(
        default=None, description="the best action now, or the likeliest class"
    )
    expected_benefits: dict[str, float] | None = Field(
        default=None, description="with benefits: of each action"
    )
    expected_gain: float | None = Field(
        default=None,
        description="with benefits: of asking on, before the price of `next`",
    )


class CaseAnswer(CaseState):
    """The answer to `known`."""

    model: ModelVersion
    ids: list[str | None] | None = Field(
        default=None, description="with `record`: null while more is asked for"
    )
    warnings: list[str]


class BatchAnswer(BaseModel):
    """The answer to `instances`, in their order."""

    model: ModelVersion
    ids: list[int | str | None] | None = Field(
        default=None,
        description="with `ids` or `record`, in the order of the instances;"
        " null where more is asked for",
    )
    results: list[CaseState]
    warnings: list[str]


class AcquireAnswer(RootModel[CaseAnswer | BatchAnswer]):
    """One case's state for `known`, `results` for `instances`."""


@dataclass(frozen=True)
class CaseStates:
    """The states of n cases. `reasons` (n,): why each stops, or None; `P` (n, K): calibrated
    probabilities; with a benefit `matrix` the `decision`, and the expected `gain` (n,) of asking on
    (NaN where nothing can be asked).
    """

    model: AcquisitionModel
    states: States
    reasons: list[str | None]
    P: np.ndarray
    matrix: Prepared | None
    decision: Decision | None
    gain: np.ndarray | None
    warnings: list[str]

    def documents(self) -> Iterator[dict[str, Any]]:
        """A document for each case, ready for JSON."""
        names, states = self.model.names, self.states
        remaining: Iterator[float | None] = repeat(None)
        if np.isfinite(states.budget):
            unspent = np.maximum(states.budget - states.spent, 0.0)
            remaining = iter(rounded(unspent, states.budget))
        columns = zip(
            self.reasons,
            states.following.tolist(),
            _frontiers(states, names),
            rounded(states.spent),
            remaining,
            self._predictions(),
            states.resolved.tolist(),
            self._decisions(),
            strict=False,
        )
        for (
            reason,
            feature,
            frontier,
            spent,
            remainder,
            prediction,
            resolved,
            decision,
        ) in columns:
            yield {
                "status": "decided" if reason else "acquire",
                "reason": reason,
                "next": None if reason else _next(frontier, names[feature]),
                "frontier": frontier,
                "spent": spent,
                "remaining": remainder,
                **prediction,
                "trees": states.trees,
                "trees_resolved": resolved,
                **decision,
            }

    def _predictions(self) -> Iterator[dict[str, Any]]:
        if not self.model.classes:
            for value in self.states.value.tolist():
                yield {"prediction": value, "probabilities": None}
            return
        names = [str(name) for name in self.model.classes]
        for code, P in zip(
            self.states.prediction.tolist(), self.P.tolist(), strict=True
        ):
            yield {
                "prediction": self.model.classes[code],
                "probabilities": dict(zip(names, P, strict=True)),
            }

    def _decisions(self) -> Iterator[dict[str, Any]]:
        if self.decision is None or self.matrix is None:
            yield from repeat({}, len(self.states))
            return
        names = [str(action) for action in self.matrix.actions]
        gains: Iterator[float] = (
            repeat(np.nan) if self.gain is None else iter(self.gain.tolist())
        )
        choices = self.decision.choice.tolist()
        expected_benefits = self.decision.expected_benefits.tolist()
        for choice, expected, gain in zip(
            choices, expected_benefits, gains, strict=False
        ):
            yield {
                "decision": self.matrix.actions[choice],
                "expected_benefits": dict(zip(names, expected, strict=True)),
                "expected_gain": None if math.isnan(gain) else gain,
            }


def acquire(
    model: Loaded,
    cases: Sequence[Any],
    question: AcquireRequest,
    place: Callable[[int], str],
) -> CaseStates:
    """The states of the cases, and the next feature of each. Stores nothing; equal requests get
    equal answers.

    With benefits the matrix decides, so a settled vote does not stop a case; that a feature is not
    worth its price does. Raises Invalid with the place, a case's at `place(i)`, and TooLarge for
    more than `MAX_CELLS` or `LARGEST_ANSWER`. About 15 microseconds a case, and some milliseconds
    with benefits that are new to the model.
    """
    acquirer = model.once(acquisition_model)
    matrix = acquirer.matrix_of(question)
    prices = acquirer.prices_of(question.feature_costs)
    _check_size(len(cases), acquirer, matrix)
    known = encode_known(model.schema, cases, place, question.unavailable)
    columns = columns_beside(
        question.columns or {}, len(cases), question.case_columns, model.schema.names
    )

    def place_of(i: int, name: str) -> str:
        return (
            pointer("columns", name, i) if name in columns else place(i) + pointer(name)
        )

    if matrix is not None:
        matrix = by_case(matrix, model.schema, known.X, columns, place_of)
    states = acquirer.model.step(known.X, known.status, prices, question.budget)
    _check_finite(states, place)
    finished = states.resolved == states.trees
    n_known = (known.status[:, acquirer.columns] != 0).sum(axis=1)
    P = acquirer.probabilities(states.probabilities, n_known, finished)
    reasons = _reasons(states, settles=matrix is None)
    warnings = [*known.warnings, *acquirer.order_warnings(prices)]
    if matrix is None:
        return CaseStates(acquirer, states, reasons, P, None, None, None, warnings)
    decision = matrix.decide(P)
    warnings += matrix.warnings
    gain = None
    if acquirer.experience is not None:
        gain, reasons = _gain_and_reasons(
            acquirer, states, reasons, P, matrix, prices, question.budget
        )
    else:
        warnings.append(_NO_EXPERIENCE_WARNING if acquirer.learns else _TREE_WARNING)
    return CaseStates(acquirer, states, reasons, P, matrix, decision, gain, warnings)


def extent(model: Loaded, cases: int, question: AcquireRequest) -> int:
    """About how many values so many cases take in memory."""
    classes, actions = len(model.classes), question.width()
    cells = classes * actions * bool(question.case_columns)
    features = _VALUES_PER_FEATURE * len(model.schema.names)
    return min(cases, MAX_CELLS) * (features + classes + actions + cells)


def seconds(cases: int, question: AcquireRequest) -> float:
    """About how long `acquire` and the writing of its answer take for so many cases."""
    return cases * (
        _SECONDS_PER_CASE + _SECONDS_PER_MATRIX * bool(question.case_columns)
    )


def _check_finite(states: States, place: Callable[[int], str]) -> None:
    """Invalid where a sum of huge values has overflowed."""
    outputs = (
        states.probabilities if states.probabilities.size else states.value[:, None]
    )
    rows = np.flatnonzero(~np.isfinite(outputs).all(axis=1)).tolist()
    if rows:
        flaws = [
            Flaw(place(i), "the model gives no answer for this case") for i in rows
        ]
        raise Invalid(_UNUSABLE, flaws)


def _check_size(n: int, acquirer: AcquisitionModel, matrix: Prepared | None) -> None:
    """TooLarge for too many cases: a few bytes of a request get numbers for all features, classes
    and actions.
    """
    m = len(acquirer.names)
    actions = 0 if matrix is None else len(matrix.actions)
    cells = (
        matrix.benefits.size if matrix is not None and matrix.cases is not None else 0
    )
    numbers = m + len(acquirer.classes) + actions + cells
    limit = min(MAX_CELLS // m, LARGEST_ANSWER // numbers)
    if n > limit:
        raise TooLarge(
            f"{n:,} cases; with this model and these actions one call takes up to {limit:,}"
        )


def _reasons(states: States, *, settles: bool) -> list[str | None]:
    """Why each case stops, None where it goes on.

    The later of two reasons wins: budget, vote_settled, resolved, unavailable.
    """
    finished = states.resolved == states.trees
    reason = np.full(len(states), None, dtype=object)
    reason[states.following < 0] = "budget"
    if settles:
        reason[states.leader >= 0] = "vote_settled"
    reason[finished] = "resolved"
    reason[finished & (states.missed > 0)] = "unavailable"
    reasons: list[str | None] = reason.tolist()
    return reasons


def _gain_and_reasons(
    acquirer: AcquisitionModel,
    states: States,
    reasons: list[str | None],
    P: np.ndarray,
    matrix: Prepared,
    prices: Prices,
    budget: float | None,
) -> tuple[np.ndarray, list[str | None]]:
    """The expected gain of asking on (n,) of a model with experience; and the reasons to stop, now
    also where the next feature is not worth its price. TooLarge for too many matrices.
    """
    gain = np.full(len(states), np.nan)
    reasons = [*reasons]
    unfinished = np.flatnonzero([reason is None for reason in reasons])
    benefits = (
        matrix.benefits[unfinished] if matrix.benefits.ndim > 2 else matrix.benefits
    )
    matrices, matrix_of = distinct(benefits, len(unfinished))
    limit = max(acquirer.max_matrices(len(matrix.actions)), 1)
    if len(matrices) > limit:
        raise TooLarge(
            f"{len(matrices):,} matrices of cases; one call takes up to {limit:,}: send fewer cases"
        )
    for number, B in enumerate(matrices):
        worth = acquirer.worth(B, prices, budget)
        rows = unfinished[matrix_of == number]
        feature = states.following[rows]
        stake = at_stake(P[rows], B)
        gain[rows] = worth.gain(feature, stake)
        stops = worth.stops(feature, states.price[rows, feature], stake)
        for i in rows[stops].tolist():
            reasons[i] = "not_worth_it"
    return gain, reasons


def _frontiers(states: States, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The features that trees wait for, best first, for every case."""
    n, m = states.order.shape
    if not n:
        return []
    rows, places = np.nonzero(np.arange(m) < states.wanted[:, None])
    columns = states.order[rows, places]
    costs = states.price[rows, columns].tolist()
    counts = states.waiting[rows, columns].tolist()
    features = [
        {"feature": names[j], "cost": cost, "waiting": count}
        for j, cost, count in zip(columns.tolist(), costs, counts, strict=True)
    ]
    ends = np.cumsum(states.wanted).tolist()
    return [
        features[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _next(frontier: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The feature to ask for: mostly the first of the frontier, but that may exceed the budget."""
    feature = next(feature for feature in frontier if feature["feature"] == name)
    return {"feature": feature["feature"], "cost": feature["cost"]}


class Known(NamedTuple):
    """n cases: `X` (n, m), NaN where a value is unknown or unavailable; `status` (n, m) int32: 0
    unknown, -1 unavailable, r >= 1 acquired as the r-th, in the order of the names in the case.
    `warnings` are about unseen categories, which are NaN but acquired.
    """

    X: np.ndarray
    status: np.ndarray
    warnings: list[str]


def encode_known(
    schema: Schema,
    cases: Sequence[Any],
    place: Callable[[int], str],
    unavailable: Sequence[str] = (),
) -> Known:
    """Encode objects of known values by feature name; null is an unavailable value, like those of
    the features in `unavailable`.

    Raises Invalid with the place, below `place(i)` of a case or `/unavailable/i`, of unknown names,
    values of a wrong type, and features that are both known and unavailable, or unavailable twice.
    O(values + n m).
    """
    flaws = (
        Flaw(place(i), _NO_CASE)
        for i, case in enumerate(cases)
        if type(case) is not dict
    )
    reject(flaws, _UNUSABLE)
    cases = schema.without_ignored(cases)
    absent = {
        name: None if j in schema.categorical else np.nan
        for j, name in enumerate(schema.names)
    }
    try:
        X, warnings = schema.encode([absent | case for case in cases])
    except Invalid:
        flaws_by_case = (
            schema.flaws_of(place(i), case, complete=False)
            for i, case in enumerate(cases)
        )
        raise Invalid(_UNUSABLE, chain.from_iterable(flaws_by_case)) from None
    position = {name: j for j, name in enumerate(schema.names)}
    status = _status_of(cases, position)
    reject(_mark_unavailable(status, unavailable, position))
    return Known(X, status, warnings)


def _status_of(cases: Sequence[Any], position: Mapping[str, int]) -> np.ndarray:
    """The status of the features of n cases, as in `Known`, by the values in the cases."""
    columns = [position[name] for name in chain.from_iterable(cases)]
    lengths = np.fromiter(map(len, cases), dtype=np.intp, count=len(cases))
    rows = np.repeat(np.arange(len(cases)), lengths)
    rank = (
        np.arange(len(columns)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    )
    values = chain.from_iterable(case.values() for case in cases)
    is_available = [value is not None for value in values]
    status = np.zeros((len(cases), len(position)), dtype=np.int32)
    status[rows, columns] = np.where(is_available, rank, UNAVAILABLE)
    return status


def _mark_unavailable(
    status: np.ndarray, unavailable: Sequence[str], position: Mapping[str, int]
) -> Iterator[Flaw]:
    """Mark the unavailable features, and yield the flaws of their names; reads each column once."""
    seen: set[str] = set()
    for place, name in enumerate(unavailable):
        if name not in position:
            yield unknown_at(pointer("unavailable", place), "feature", name, position)
        elif name in seen:
            yield Flaw(
                pointer("unavailable", place), f"{name!r} is named twice; name it once"
            )
        elif (status[:, position[name]] > 0).any():
            yield Flaw(
                pointer("unavailable", place), f"{name!r} is known; leave it out here"
            )
        else:
            status[:, position[name]] = UNAVAILABLE
        seen.add(name)


# The record of a case: what was asked for, what it cost, and what was decided


def recorded(
    stores: Stores,
    model: Loaded,
    question: AcquireRequest,
    cases: Sequence[Any],
    answer: CaseStates,
    caller: Caller,
    request_ids: tuple[str, list[Any]] | None = None,
) -> tuple[Batch | None, list[str | None] | None]:
    """The decided cases as a batch, and the id of each case, None where more is asked for; twice
    None where the request does not ask for a record.

    A case of several calls is recorded once, when nothing more is asked for. `request_ids` as
    `ids_of` has them. Raises Invalid and Forbidden at the field that does not fit.
    """
    if question.record is None:
        return None, None
    if question.segments:
        raise Invalid.at("/record/segments", "segments are of decisions by /predict")
    ids = ids_of(stores, caller, question.record, len(cases), request_ids)
    if not answer.model.classes:
        raise Invalid.at(
            "/record",
            f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes",
        )
    is_decided = [reason is not None for reason in answer.reasons]
    positions = np.flatnonzero(is_decided).tolist()
    decided = _decided(model, question, cases, answer, positions)
    decided_ids = ids._replace(ids=[ids.ids[i] for i in positions])
    records = replace(batch(decided, decided_ids, caller), positions=positions)
    ids_of_decided = [
        id_ if is_final else None
        for id_, is_final in zip(ids.ids, is_decided, strict=True)
    ]
    return records, ids_of_decided


def _decided(
    model: Loaded,
    question: AcquireRequest,
    cases: Sequence[Any],
    answer: CaseStates,
    positions: list[int],
) -> Decided:
    """The decisions about the cases at `positions`."""
    cases = model.schema.without_ignored(cases)
    choice = answer.states.prediction
    expected = None
    if answer.decision is not None:
        choice = answer.decision.choice
        expected = answer.decision.expected_benefits[positions, choice[positions]]
    details = _details(cases, answer)
    benefits = None if answer.matrix is None else answer.matrix.benefits
    matrices, matrix_of = distinct(benefits, len(cases))
    return Decided(
        [_terms(model, question, answer, B) for B in matrices],
        matrix_of[positions],
        choice[positions],
        answer.P[positions],
        expected,
        details=[details[i] for i in positions],
        instances=_instance_texts(cases, question, positions),
    )


def _instance_texts(
    cases: Sequence[Any], question: AcquireRequest, positions: list[int]
) -> list[str] | None:
    """The cases at `positions` with their columns, as JSON, where the request records instances."""
    if question.record is None or not question.record.instances:
        return None
    columns = (question.columns or {}).items()
    instances = (
        {**cases[i], **{name: values[i] for name, values in columns}} for i in positions
    )
    return [orjson.dumps(instance).decode() for instance in instances]


def _details(cases: Sequence[Any], answer: CaseStates) -> list[str]:
    """Of each case, as JSON: the features asked for, in order, their cost, the reason to stop."""
    spent = rounded(answer.states.spent)
    return [
        orjson.dumps({"asked": list(case), "spent": cost, "reason": reason}).decode()
        for case, cost, reason in zip(cases, spent, answer.reasons, strict=True)
    ]


def _terms(
    model: Loaded, question: AcquireRequest, answer: CaseStates, B: np.ndarray | None
) -> Terms:
    classes = tuple(answer.model.classes)
    fields = {name: getattr(question, name) for name in _RECORDED_FIELDS}
    figures = {name: value for name, value in fields.items() if value}
    if "unavailable" in figures:
        figures["unavailable"] = list(figures["unavailable"])
    if question.budget is not None:
        figures["budget"] = question.budget
    return Terms(
        verb="acquire",
        model=model.name,
        version=model.version,
        rule="most_probable" if answer.matrix is None else "expected_benefit",
        classes=classes,
        actions=classes if answer.matrix is None else tuple(answer.matrix.actions),
        benefits=None if B is None else tuple(map(tuple, B.tolist())),
        figures=figures or None,
    )
