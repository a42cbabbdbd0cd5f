"""Which feature to learn next, for cases of which a part is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from app.answering.acquisition_model import AcquisitionModel, acquisition_model
from app.answering.decide import LARGEST_ANSWER
from app.answering.record import RecordField, distinct
from app.registry.loaded import Loaded
from app.requests.costs import FeatureCosts
from app.requests.fields import (
    COLUMNS,
    CaseColumns,
    IdsField,
    KnownCase,
    Names,
    Text,
)
from app.requests.matrices import MatrixFields, NamedMatrixFields, columns_beside
from app.tables.features import Schema
from payoff.acquisition.prices import Prices
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
# The fields that state a matrix; most requests have none of them.
_MATRIX_FIELDS = frozenset({*MatrixFields.model_fields, "columns"})
_UNUSABLE = "the cases cannot be used"
_NO_CASE = "a case is an object of known values by feature name"
UNAVAILABLE = -1

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
    matrix = None
    if not question.model_fields_set.isdisjoint(_MATRIX_FIELDS):
        matrix = acquirer.matrix_of(question)
    prices = acquirer.prices
    if question.feature_costs is not None:
        prices = acquirer.prices_of(question.feature_costs)
    _check_size(len(cases), acquirer, matrix)
    known = encode_known(model.schema, cases, place, question.unavailable)
    if matrix is not None or question.columns:
        matrix = _of_cases(matrix, model, question, known.X, place)
    states = acquirer.model.step(known.X, known.status, prices, question.budget)
    _check_finite(states, place)
    finished = states.resolved == states.trees
    n_known = (known.status[:, acquirer.columns] != 0).sum(axis=1)
    P = acquirer.probabilities(states.probabilities, n_known, finished)
    reasons = _reasons(states, settles=matrix is None)
    warnings = [*known.warnings]
    if prices is not acquirer.prices:
        warnings += acquirer.order_warnings(prices)
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


def _of_cases(
    matrix: Prepared | None,
    model: Loaded,
    question: AcquireRequest,
    X: np.ndarray,
    place: Callable[[int], str],
) -> Prepared | None:
    """The matrix, or a matrix for each case of X (n, m) where a cell depends on the case."""
    columns = columns_beside(
        question.columns or {}, len(X), question.case_columns, model.schema.names
    )

    def place_of(i: int, name: str) -> str:
        return (
            pointer("columns", name, i) if name in columns else place(i) + pointer(name)
        )

    return matrix and by_case(matrix, model.schema, X, columns, place_of)


def extent(model: Loaded, cases: int, question: AcquireRequest) -> int:
    """About how many values so many cases take in memory."""
    classes, actions = len(model.classes), question.width
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
    flaws = [
        Flaw(place(i), _NO_CASE)
        for i, case in enumerate(cases)
        if type(case) is not dict
    ]
    if flaws:
        raise Invalid(_UNUSABLE, flaws)
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
    if unavailable:
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
