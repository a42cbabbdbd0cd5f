"""Which feature to learn next, for cases of which a part is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Field, RootModel

from app.access.caller import Caller
from app.answering.acquisition_model import AcquisitionModel, asker
from app.answering.predict import LARGEST_ANSWER
from app.answering.record import RecordField, batch, distinct, ids_of
from app.outcomes.decision import Batch, Decided, Terms
from app.registry.loaded import Loaded
from app.requests.costs import FeatureCosts
from app.requests.fields import COLUMNS, CaseColumns, KnownCase, ModelVersion, Names, OwnIds, Text
from app.requests.matrices import NamedMatrixFields, columns_beside
from app.stores import Stores
from app.tables.features import Schema
from payoff.acquisition.prices import Prices, rounded
from payoff.acquisition.states import States
from payoff.acquisition.stopping import at_stake
from payoff.decisions.benefit import LARGEST, Decision, Prepared
from payoff.decisions.case_benefits import by_case
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject, unknown_at

_CASE_SECONDS = 4e-5
_MATRIX_SECONDS = 0.02  # for each case that has a matrix of its own
MAX_CELLS = 500_000  # cases times features: the answer may name every feature for every case
_PER_FEATURE = 4  # values: each case may wait for each feature, which the answer then names
_TREE = "a tree of classifiers asks to the end of its path; benefits decide, but do not stop"
_NO_EXPERIENCE = "this model could not learn when asking on is not worth its price; benefits decide, but do not stop"
_UNUSABLE = "the cases cannot be used"
_NO_CASE = "a case is an object of known values by feature name"
UNAVAILABLE = -1
_FIGURES = ("budget", "feature_costs", "unavailable")  # of the request, that are recorded

Budget = Annotated[float, Field(strict=True, ge=0, le=LARGEST)] | None


class AcquireRequest(NamedMatrixFields, OwnIds, RecordField):
    """All that is known so far, and what the rest may cost, in the currency of the benefits."""

    model: Text = Field(
        description="name, name:version or name@alias of a forest or tree", examples=["triage"]
    )
    budget: Budget = Field(
        default=None, description="what each case may spend, with what it has spent already"
    )
    unavailable: Names = Field(default=[], description="features that cannot be had")
    feature_costs: FeatureCosts = Field(
        default=None,
        description="prices that differ from those of training; 0 for what is there for nothing",
    )
    known: KnownCase | None = Field(
        default=None,
        description="values by feature name, in the order of their acquisition (of a group, the first has paid its"
        " full cost); null is a value that cannot be had",
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
        description="from what is known: the class that most trees of a forest vote for (`/predict` decides by the"
        " calibrated probabilities, and may name another), or what the deepest node of a tree says, a class or a number"
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
        default=None, description="with benefits: of asking on, before the price of `next`"
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
        description="with `ids` or `record`, in the order of the instances; null where more is asked for",
    )
    results: list[CaseState]
    warnings: list[str]


class AcquireAnswer(RootModel[CaseAnswer | BatchAnswer]):
    """One case's state for `known`, `results` for `instances`."""


@dataclass(frozen=True)
class CaseStates:
    """Where n cases stand. `reason` (n,): why each stops, or None; `P` (n, K) calibrated; with benefits the
    `decision`, and the expected `gain` (n,) of asking on (NaN where nothing can be asked).
    """

    asker: AcquisitionModel
    states: States
    reason: list[str | None]
    P: np.ndarray
    stakes: Prepared | None
    decision: Decision | None
    gain: np.ndarray | None
    warnings: list[str]

    def documents(self) -> Iterator[dict[str, Any]]:
        """One for each case, ready for JSON."""
        names, states = self.asker.names, self.states
        frontiers = _frontiers(states, names)
        following = states.following.tolist()
        remaining: Iterator[float | None] = repeat(None)
        if np.isfinite(states.budget):
            left = np.maximum(states.budget - states.spent, 0.0)
            remaining = iter(rounded(left, states.budget))
        columns = zip(
            self.reason, following, frontiers, rounded(states.spent), remaining, self._predicted(),
            states.resolved.tolist(), self._actions(), strict=False,
        )  # fmt: skip
        for reason, feature, frontier, spent, rest, predicted, resolved, decided in columns:
            yield {
                "status": "decided" if reason else "acquire",
                "reason": reason,
                "next": None if reason else _next(frontier, names[feature]),
                "frontier": frontier,
                "spent": spent,
                "remaining": rest,
                **predicted,
                "trees": states.trees,
                "trees_resolved": resolved,
                **decided,
            }

    def _predicted(self) -> Iterator[dict[str, Any]]:
        if not self.asker.classes:
            yield from (
                {"prediction": value, "probabilities": None} for value in self.states.value.tolist()
            )
            return
        names = [str(name) for name in self.asker.classes]
        for code, P in zip(self.states.prediction.tolist(), self.P.tolist(), strict=True):
            yield {
                "prediction": self.asker.classes[code],
                "probabilities": dict(zip(names, P, strict=True)),
            }

    def _actions(self) -> Iterator[dict[str, Any]]:
        if self.decision is None or self.stakes is None:
            yield from repeat({}, len(self.states))
            return
        names = [str(action) for action in self.stakes.actions]
        gains: Iterator[float] = repeat(np.nan) if self.gain is None else iter(self.gain.tolist())
        columns = zip(
            self.decision.choice.tolist(),
            self.decision.expected_benefits.tolist(),
            gains,
            strict=False,
        )
        for choice, expected, gain in columns:
            yield {
                "decision": self.stakes.actions[choice],
                "expected_benefits": dict(zip(names, expected, strict=True)),
                "expected_gain": None if gain != gain else gain,  # noqa: PLR0124 - NaN
            }


def acquire(
    model: Loaded, cases: Sequence[Any], asked: AcquireRequest, place: Callable[[int], str]
) -> CaseStates:
    """Where the cases stand, and what each should ask for next. Keeps nothing; the same request gets the same answer.

    With benefits the decision is theirs, so a settled vote does not stop a case; that a feature is not worth its price
    does. Raises Invalid with the place, a case's at `place(i)`, and TooLarge beyond `MAX_CELLS` or `LARGEST_ANSWER`.
    About 15 microseconds a case, and with benefits that were not asked about before some milliseconds.
    """
    ready = model.once(asker)
    stakes, prices = ready.stakes(asked), ready.priced(asked.feature_costs)
    _check_size(len(cases), ready, stakes)
    known = encode_known(model.schema, cases, place, asked.unavailable)
    beside = columns_beside(asked.columns or {}, len(cases), asked.case_columns, model.schema.names)
    if stakes is not None:
        stakes = by_case(
            stakes, model.schema, known.X, beside,
            lambda i, name: pointer("columns", name, i) if name in beside else place(i) + pointer(name),
        )  # fmt: skip
    states = ready.model.step(known.X, known.status, prices, asked.budget)
    _check_finite(states, place)
    finished = states.resolved == states.trees
    answered = (known.status[:, ready.columns] != 0).sum(axis=1)
    P = ready.probabilities(states.probabilities, answered, finished)
    reason = _reasons(states, settles=stakes is None)
    warnings = [*known.warnings, *ready.stale(prices)]
    if stakes is None:
        return CaseStates(ready, states, reason, P, None, None, None, warnings)
    decision, warnings = stakes.decide(P), [*warnings, *stakes.warnings]
    gain = _gain(ready, states, reason, P, stakes, prices, asked.budget)
    if gain is None:
        warnings = [*warnings, _NO_EXPERIENCE if ready.learns else _TREE]
    return CaseStates(ready, states, reason, P, stakes, decision, gain, warnings)


def extent(model: Loaded, cases: int, asked: AcquireRequest) -> int:
    """About how many values so many cases take in memory."""
    classes, actions = len(model.classes), asked.width()
    each = classes * actions * bool(asked.case_columns)
    return min(cases, MAX_CELLS) * (
        _PER_FEATURE * len(model.schema.names) + classes + actions + each
    )


def seconds(cases: int, asked: AcquireRequest) -> float:
    """About how long `acquire` and the writing of its answer take for so many cases."""
    return cases * (_CASE_SECONDS + _MATRIX_SECONDS * bool(asked.case_columns))


def _check_finite(states: States, place: Callable[[int], str]) -> None:
    """Sums of huge values can overflow."""
    outputs = states.probabilities if states.probabilities.size else states.value[:, None]
    rows = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
    if rows.size:
        raise Invalid(
            _UNUSABLE,
            [Flaw(place(i), "the model gives no answer for this case") for i in rows.tolist()],
        )


def _check_size(n: int, ready: AcquisitionModel, stakes: Prepared | None) -> None:
    """Few bytes can ask for many: each case is answered with numbers for features, classes and actions."""
    m, actions = len(ready.names), 0 if stakes is None else len(stakes.actions)
    each = stakes.benefits.size if stakes is not None and stakes.cases is not None else 0
    most = min(MAX_CELLS // m, LARGEST_ANSWER // (m + len(ready.classes) + actions + each))
    if n > most:
        raise TooLarge(
            f"{n:,} cases; with this model and these actions one call takes up to {most:,}"
        )


def _reasons(states: States, *, settles: bool) -> list[str | None]:
    """Why each case stops, None where it goes on. Later lines win: budget, vote_settled, resolved, unavailable."""
    finished = states.resolved == states.trees
    reason = np.full(len(states), None, dtype=object)
    reason[states.following < 0] = "budget"
    if settles:
        reason[states.leader >= 0] = "vote_settled"
    reason[finished] = "resolved"
    reason[finished & (states.missed > 0)] = "unavailable"
    reasons: list[str | None] = reason.tolist()
    return reasons


def _gain(
    ready: AcquisitionModel, states: States, reason: list[str | None], P: np.ndarray, stakes: Prepared,
    prices: Prices, budget: float | None,
) -> np.ndarray | None:  # fmt: skip
    """The expected gain of asking on (n,); marks in `reason` what is not worth its price. None without experience."""
    if ready.experience is None:
        return None
    gain = np.full(len(states), np.nan)
    open_ = np.flatnonzero([why is None for why in reason])
    matrices, which = distinct(
        stakes.benefits[open_] if stakes.benefits.ndim > 2 else stakes.benefits, len(open_)
    )
    most = max(ready.most_matrices(len(stakes.actions)), 1)
    if len(matrices) > most:
        raise TooLarge(
            f"{len(matrices):,} matrices of cases; one call takes up to {most:,}: send fewer cases"
        )
    for number, B in enumerate(matrices):
        worth, rows = ready.worth(B, prices, budget), open_[which == number]
        feature, stake = states.following[rows], at_stake(P[rows], B)
        gain[rows] = worth.gain(feature, stake)
        stopped = worth.stops(feature, states.price[rows, feature], stake)
        for i in rows[stopped].tolist():
            reason[i] = "not_worth_it"
    return gain


def _frontiers(states: States, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Features waited for, best first, for every case."""
    n, m = states.order.shape
    rows, places = np.nonzero(np.arange(m) < states.wanted[:, None])
    columns = states.order[rows, places]
    wanted = [
        {"feature": names[j], "cost": cost, "waiting": waiting}
        for j, cost, waiting in zip(
            columns.tolist(),
            states.price[rows, columns].tolist(),
            states.waiting[rows, columns].tolist(),
            strict=True,
        )
    ]
    ends = np.cumsum(states.wanted).tolist()
    return (
        [wanted[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if n else []
    )


def _next(frontier: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The feature to ask for; mostly the first of the frontier, but that may be beyond the budget."""
    found = next(wanted for wanted in frontier if wanted["feature"] == name)
    return {"feature": found["feature"], "cost": found["cost"]}


class Known(NamedTuple):
    """n cases: `X` (n, m), NaN where nothing is known or had; `status` (n, m) int32: 0 not known, -1 cannot be had,
    r >= 1 acquired as the r-th, in the order of the names in the case. `warnings` are about unseen categories, which
    are NaN but acquired.
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
    """Objects of known values by feature name; null is a value that cannot be had, like those of `unavailable`.

    Raises Invalid with the place, below `place(i)` of a case or `/unavailable/i`, of unknown names, values of a wrong
    type, and features that are said to be known and unavailable, or unavailable twice. O(values + n m).
    """
    flaws = (Flaw(place(i), _NO_CASE) for i, case in enumerate(cases) if type(case) is not dict)
    reject(flaws, _UNUSABLE)
    cases = schema.without_ignored(cases)
    absent = {
        name: None if j in schema.categorical else np.nan for j, name in enumerate(schema.names)
    }
    try:
        X, warnings = schema.encode([absent | case for case in cases])
    except Invalid:
        each = (schema.flaws_of(place(i), case, complete=False) for i, case in enumerate(cases))
        raise Invalid(_UNUSABLE, chain.from_iterable(each)) from None
    position = {name: j for j, name in enumerate(schema.names)}
    columns = [position[name] for name in chain.from_iterable(cases)]
    lengths = np.fromiter(map(len, cases), dtype=np.intp, count=len(cases))
    rows = np.repeat(np.arange(len(cases)), lengths)
    rank = np.arange(len(columns)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    had = [value is not None for value in chain.from_iterable(case.values() for case in cases)]
    status = np.zeros(X.shape, dtype=np.int32)
    status[rows, columns] = np.where(had, rank, UNAVAILABLE)
    reject(_mark_unavailable(status, unavailable, position))
    return Known(X, status, warnings)


def _mark_unavailable(
    status: np.ndarray, unavailable: Sequence[str], position: Mapping[str, int]
) -> Iterator[Flaw]:
    """Mark the features that cannot be had, and yield what is wrong with their names; each column is read once."""
    seen: set[str] = set()
    for place, name in enumerate(unavailable):
        if name not in position:
            yield unknown_at(pointer("unavailable", place), "feature", name, position)
        elif name in seen:
            yield Flaw(pointer("unavailable", place), f"{name!r} is named twice; name it once")
        elif (status[:, position[name]] > 0).any():
            yield Flaw(pointer("unavailable", place), f"{name!r} is known; leave it out here")
        else:
            status[:, position[name]] = UNAVAILABLE
        seen.add(name)


# What is recorded: what was asked, what it cost, and what was decided


def recorded(
    stores: Stores, model: Loaded, asked: AcquireRequest, cases: Sequence[Any], states: CaseStates, caller: Caller,
    own_ids: tuple[str, list[Any]] | None = None,
) -> tuple[Batch | None, list[str | None] | None]:  # fmt: skip
    """The cases to record, and the id of each case, None where more is asked for; nothing where none are to be.

    One case is asked about several times, and recorded once, when nothing more is asked. `own_ids` as `ids_of` has
    them. Raises Invalid and Forbidden at the field that does not fit.
    """
    order = asked.record
    if order is None:
        return None, None
    ids = ids_of(stores, caller, order, len(cases), own_ids)
    if not states.asker.classes:
        raise Invalid.at(
            "/record",
            f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes",
        )
    done = [reason is not None for reason in states.reason]
    at: np.ndarray = np.flatnonzero(done)
    choice = states.states.prediction if states.decision is None else states.decision.choice
    expected = (
        None if states.decision is None else states.decision.expected_benefits[at, choice[at]]
    )
    cases = model.schema.without_ignored(cases)
    details = _details(cases, states)
    beside = (asked.columns or {}).items()
    whole = ({**cases[i], **{name: values[i] for name, values in beside}} for i in at)
    texts = [orjson.dumps(case).decode() for case in whole] if order.instances else None
    matrices, term = distinct(None if states.stakes is None else states.stakes.benefits, len(cases))
    terms = [_terms(model, asked, states, matrix) for matrix in matrices]
    decided = Decided(
        terms, term[at], choice[at], states.P[at], expected,
        details=[details[i] for i in at], instances=texts,
    )  # fmt: skip
    own = ids._replace(ids=[ids.ids[i] for i in at])
    found = replace(batch(decided, own, caller), positions=at.tolist())
    return found, [id_ if ended else None for id_, ended in zip(ids.ids, done, strict=True)]


def _details(cases: Sequence[Any], states: CaseStates) -> list[str]:
    """Of each case as JSON: the features that were asked for, in order, what they cost, and why it stopped."""
    spent = rounded(states.states.spent)
    return [
        orjson.dumps({"asked": list(case), "spent": cost, "reason": reason}).decode()
        for case, cost, reason in zip(cases, spent, states.reason, strict=True)
    ]


def _terms(model: Loaded, asked: AcquireRequest, states: CaseStates, B: np.ndarray | None) -> Terms:
    classes, stakes = tuple(states.asker.classes), states.stakes
    sent = {name: getattr(asked, name) for name in _FIGURES}
    figures = {
        name: list(value) if name == "unavailable" else value
        for name, value in sent.items()
        if value
    }
    if asked.budget is not None:
        figures["budget"] = asked.budget
    return Terms(
        verb="acquire",
        model=model.name,
        version=model.version,
        rule="most_probable" if stakes is None else "expected_benefit",
        classes=classes,
        actions=classes if stakes is None else tuple(stakes.actions),
        benefits=None if B is None else tuple(map(tuple, B.tolist())),
        figures=figures or None,
    )
