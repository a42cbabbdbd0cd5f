"""What asking feature by feature would have cost and earned on complete rows, beside what else could be done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import (
    BaseModel,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from app.access.caller import Caller, Scope
from app.answering.acquisition_model import AcquisitionModel, asker
from app.answering.record import distinct
from app.registry.loaded import Loaded
from app.requests.costs import FeatureCosts
from app.requests.datasets import find_named
from app.requests.fields import COLUMNS, CaseColumns, Instances, ModelVersion, Text
from app.requests.labelled_rows import class_codes
from app.requests.matrices import NamedMatrixFields, columns_beside
from app.stores import Stores
from app.tables.dataset import Table
from app.tables.features import is_float
from payoff.acquisition.prices import Prices
from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Worth, stopping_states
from payoff.decisions.benefit import LARGEST, Prepared, row_benefits
from payoff.decisions.case_benefits import NO_COLUMNS, Columns, by_case
from payoff.errors import Flaw, Invalid, TooLarge, below, pointer, reject

MAX_ROWS = 10_000
_CHUNK = 1000  # rows whose states are in memory together, and
_CELLS = 5_000_000  # their numbers for classes and actions
_SHARES = (0.1, 0.25, 0.5, 0.75)  # of the dearest row's cost: the budgets where none are named

_Budget = Annotated[float, Field(strict=True, ge=0, le=LARGEST)]


class SimulateRequest(NamedMatrixFields):
    """Complete rows with their labels, and the budgets to try."""

    model: Text = Field(
        description="name, name:version or name@alias of a forest or tree", examples=["triage"]
    )
    dataset: Text | None = Field(
        default=None, description="a data set with the model's features and classes"
    )
    rows: Instances | None = Field(default=None, description="or rows")
    labels: Annotated[list[StrictInt | StrictFloat | StrictStr], Field(fail_fast=True)] | None = (
        Field(default=None, description="with a class, or a number, for each")
    )
    budgets: Annotated[list[_Budget], Field(max_length=20)] | None = Field(
        default=None, description="of each row; null: some shares of what the dearest row costs"
    )
    feature_costs: FeatureCosts = Field(
        default=None, description="prices that differ from those of training"
    )
    columns: CaseColumns = Field(default=None, description=COLUMNS, examples=[None])

    @model_validator(mode="after")
    def _one_source(self) -> SimulateRequest:
        if (self.dataset is None) == (self.rows is None) or (self.rows is None) != (
            self.labels is None
        ):
            raise ValueError("send either dataset, or rows with labels")
        return self


class SimulatedOutcome(BaseModel):
    """Means per row; of benefits only where some were sent."""

    cost: float
    questions: float
    error: float = Field(
        description="share of rows whose prediction is not their class, or mean squared error"
    )
    benefit: float | None = Field(
        default=None, description="of the decisions, which the matrix makes"
    )
    net_benefit: float | None = Field(default=None, description="less the cost")


class BudgetOutcomes(BaseModel):
    """The ways to ask within one budget."""

    budget: float | None = Field(description="null: none")
    plain: SimulatedOutcome = Field(description="until every tree has its answer")
    vote_stopping: SimulatedOutcome | None = Field(
        default=None, description="until a forest's vote can no longer change"
    )
    worth_stopping: SimulatedOutcome | None = Field(
        default=None, description="while more is worth its price; of forests, with benefits"
    )


class Simulation(BaseModel):
    """What was simulated."""

    model: ModelVersion
    rows: int
    measure: Literal["error_rate", "mean_squared_error"] = Field(description="what `error` is")
    nothing: SimulatedOutcome = Field(description="buying no feature")
    everything: SimulatedOutcome = Field(description="buying every feature of the model")
    budgets: list[BudgetOutcomes]
    warnings: list[str]


class _Rows(NamedTuple):
    """Rows X (n, m), class codes or numbers y (n,), and `missing` (n, m): what cannot be had."""

    X: np.ndarray
    y: np.ndarray
    missing: np.ndarray


def simulate(
    stores: Stores, model: Loaded, asked: SimulateRequest, caller: Caller
) -> dict[str, Any]:
    """Means per row of every way and budget, ready for JSON.

    Raises Invalid with the place, NotFound for an unknown data set. Of more than `MAX_ROWS` rows an even selection is
    taken, and warned about. Some 0.1 ms a row and budget.
    """
    ready = model.once(asker)
    prices, stakes = ready.priced(asked.feature_costs), ready.stakes(asked)
    by_its_own = stakes is not None and stakes.cases is not None
    if by_its_own and asked.dataset is not None:
        caller.need(
            frozenset({Scope.TRAIN})
        )  # by cells of its columns the means tell what is in them
    rows, values, warnings = _labelled(stores, model, asked, caller)
    names = {*model.schema.names, *values}
    columns = {
        **values,
        **columns_beside(asked.columns or {}, len(rows.X), asked.case_columns, names),
    }
    warnings += ready.stale(prices)
    chosen = evenly(len(rows.X))
    if len(chosen) < len(rows.X):
        warnings.append(f"{MAX_ROWS} rows of {len(rows.X)} were simulated")
        rows = _Rows(*(part[chosen] for part in rows))
    if stakes is not None:
        if by_its_own and len(chosen) * stakes.benefits.size > _CELLS:
            raise TooLarge(
                f"{len(chosen):,} matrices of {stakes.benefits.size:,} cells; at most {_CELLS:,} in all"
            )
        columns = {name: column[chosen] for name, column in columns.items()}
        place = (
            None
            if asked.rows is None
            else partial(_place, chosen, columns, asked.rows, model.schema.names)
        )
        stakes = by_case(stakes, model.schema, rows.X, columns, place)
        warnings += stakes.warnings
    found = report(ready, rows.X, rows.y, prices, stakes, asked.budgets, rows.missing)
    if not math.isfinite(found["nothing"]["error"] + found["everything"]["error"]):
        raise Invalid.at(
            "",
            "the squared errors of these rows are too large for a 64-bit float; use smaller units",
        )
    if (
        stakes is not None
        and ready.experience is not None
        and "worth_stopping" not in found["budgets"][0]
    ):
        warnings.append(
            "`worth_stopping` is left out: it takes a few hundred different matrices times budgets"
        )
    return {**found, "warnings": warnings}


def _place(
    chosen: np.ndarray,
    columns: Columns,
    rows: Sequence[Any],
    names: Sequence[str],
    i: int,
    name: str,
) -> str:
    row = int(chosen[i])
    if name in columns:
        return pointer("columns", name, row)
    return pointer("rows", row, name if isinstance(rows[row], dict) else names.index(name))


def _labelled(
    stores: Stores, model: Loaded, asked: SimulateRequest, caller: Caller
) -> tuple[_Rows, Columns, list[str]]:
    """Complete rows of the model, the values of a data set that are no features, and warnings."""
    if asked.dataset is not None:
        found = find_named(stores, asked.dataset, "/dataset", caller).id
        return _from_dataset(stores.datasets.table(found), model)
    assert asked.rows is not None
    assert asked.labels is not None
    if len(asked.rows) != len(asked.labels) or not asked.rows:
        raise Invalid.at(
            "/labels", f"{len(asked.labels)} labels for {len(asked.rows)} rows; each row has one"
        )
    with below("/rows"):
        X, warnings = model.schema.encode(asked.rows)
    labels, n = asked.labels, len(asked.rows)
    y = _labels_of_numbers(labels) if model.regression else class_codes(labels, model.classes, n)
    missing = np.isnan(X)
    for i, j in zip(
        *np.nonzero(missing), strict=True
    ):  # a word that training never saw has been bought
        row = asked.rows[i]
        missing[i, j] = (
            row.get(model.schema.names[j]) if isinstance(row, dict) else row[j]
        ) is None
    return _Rows(X, y, missing), NO_COLUMNS, list(warnings)


def _from_dataset(table: Table, model: Loaded) -> tuple[_Rows, Columns, list[str]]:
    there = {feature.name: (j, feature) for j, feature in enumerate(table.schema.features)}
    X = np.empty((len(table.X), len(model.schema.names)))
    missing = np.ones(X.shape, dtype=bool)
    flaws = []
    for j, feature in enumerate(model.schema.features):
        if feature.name not in there or there[feature.name][1].type != feature.type:
            flaws.append(
                Flaw("/dataset", f"the model needs a {feature.type} feature {feature.name!r}")
            )
            continue
        place, other = there[feature.name]
        X[:, j] = table.X[:, place]
        missing[:, j] = np.isnan(X[:, j])
        if feature.type == "categorical" and other.categories != feature.categories:
            code = {word: float(i) for i, word in enumerate(feature.categories)}
            codes = np.array([*(code.get(word, np.nan) for word in other.categories), np.nan])
            X[:, j] = codes[
                np.where(np.isnan(table.X[:, place]), -1, table.X[:, place]).astype(np.intp)
            ]
    y, flaw = _target(table, model)
    flaws += [] if flaw is None else [flaw]
    reject(flaws)
    seen = model.card.data.digest == table.digest  # whoever uploaded it, or sent it with the order
    warnings = ["most of these rows were fitted: on new ones it will do worse"] if seen else []
    return _Rows(X, y, missing), table.values, warnings


def _target(table: Table, model: Loaded) -> tuple[np.ndarray, Flaw | None]:
    """The labels as the model predicts them; or why they are not."""
    classes = table.classes
    if model.regression:
        if table.y.ndim == 1 and not isinstance((classes or (0,))[0], str):
            return table.as_numbers().y, None
        return table.y, Flaw("/dataset", "its labels are not numbers, which this model predicts")
    position = {name: i for i, name in enumerate(model.classes)}
    if classes is None or table.y.ndim != 1 or not set(classes) <= set(position):
        named = ", ".join(map(str, model.classes))
        return table.y, Flaw("/dataset", f"its labels are not the model's classes: {named}")
    return np.array([position[name] for name in classes])[table.y], None


def _labels_of_numbers(labels: Sequence[Any]) -> np.ndarray:
    reject(
        Flaw(pointer("labels", i), "a label is a number here, as this model predicts numbers")
        for i, label in enumerate(labels)
        if isinstance(label, bool) or not isinstance(label, int | float) or not is_float(label)
    )
    return np.array(labels, dtype=np.float64)


def evenly(n: int) -> np.ndarray:
    """Which of n rows are simulated: all, or `MAX_ROWS` spread over the table, which may be sorted."""
    return np.arange(n) if n <= MAX_ROWS else np.linspace(0, n - 1, MAX_ROWS).astype(np.intp)


def report(
    ready: AcquisitionModel, X: np.ndarray, y: np.ndarray, prices: Prices, stakes: Prepared | None = None,
    budgets: Sequence[float] | None = None, missing: np.ndarray | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Mean cost, questions, error and, with stakes, benefit and net benefit on rows X (n, m) with labels y (n,).

    Labels are class codes, and the error is the share of wrong classes; or numbers, and it is the mean squared error.
    `everything` buys all features of the model, and pays for a tree's nodes on the way, `nothing` none; `budgets` lists
    for each budget, the last one none, the model asked to the end (`plain`), a forest until the vote is settled
    (`vote_stopping`), and with stakes while it is worth the price (`worth_stopping`; of few different matrices, where
    the stakes have one for each row). `missing` (n, m): what cannot be had and costs nothing; by default every NaN.
    n is at least 1.
    """
    rows = _Rows(X, y, np.isnan(X) if missing is None else missing)
    own = None if stakes is None else distinct(stakes.benefits, len(X))
    if stakes is not None and own is not None and stakes.benefits.ndim > 2:
        work = len(own[0]) * (1 + len(_SHARES if budgets is None else budgets))
        own = own if work <= ready.most_matrices(len(stakes.actions)) else None
    unlimited, dearest = _run(ready, rows, prices, stakes, None, own)
    if budgets is None:
        budgets = sorted(
            {min(float(f"{share * dearest:.2g}"), LARGEST) for share in _SHARES} - {0.0}
        )
    runs = [{"budget": b, **_run(ready, rows, prices, stakes, b, own)[0]} for b in budgets]
    return {
        "rows": len(X),
        "measure": "error_rate" if ready.classes else "mean_squared_error",
        "nothing": _fixed(ready, rows, prices, stakes, everything=False),
        "everything": _fixed(ready, rows, prices, stakes, everything=True),
        "budgets": [*runs, {"budget": None, **unlimited}],
    }


def _run(
    ready: AcquisitionModel, data: _Rows, prices: Prices, stakes: Prepared | None, budget: float | None,
    own: tuple[list[Any], np.ndarray] | None,
) -> tuple[dict[str, Any], float]:  # fmt: skip
    """Every way to ask within a budget, and what the dearest row has cost; `own` are the matrices by whose worth rows
    stop, and which of them (n,) each has.
    """
    sums: dict[str, dict[str, float]] = {}
    dearest, stake = 0.0, stakes
    which = np.zeros(len(data.X), dtype=np.intp) if own is None else own[1]
    worths = (
        []
        if own is None or ready.experience is None
        else [(B, ready.worth(B, prices, budget)) for B in own[0]]
    )
    width = len(ready.classes) + (0 if stakes is None else len(stakes.actions))
    chunk = min(_CHUNK, max(1, _CELLS // ((len(ready.model.columns) + 1) * max(width, 1))))
    for start in range(0, len(data.X), chunk):
        rows = slice(start, start + chunk)
        if stakes is not None and stakes.benefits.ndim > 2:
            stake = replace(stakes, benefits=stakes.benefits[rows])
        trajectories = ready.model.travel(data.X[rows], prices, budget, data.missing[rows])
        dearest = max(dearest, float(trajectories.spent.max(initial=0.0)))
        for name, ends in _ends(ready, trajectories, worths, which[rows]).items():
            finished = trajectories.resolved & (ends == trajectories.length)
            everyone = np.arange(len(ends))
            P = ready.probabilities(trajectories.P[everyone, ends], ends, finished)
            spent, vote = trajectories.spent[everyone, ends], trajectories.vote[everyone, ends]
            way = sums.setdefault(name, {})
            for figure, column in _columns(data.y[rows], vote, P, spent, ends, stake).items():
                way[figure] = way.get(figure, 0.0) + float(column.sum())
    n = len(data.X)
    return {
        name: {figure: total / n for figure, total in way.items()} for name, way in sums.items()
    }, dearest


def _ends(
    ready: AcquisitionModel,
    trajectories: Trajectories,
    worths: Sequence[tuple[np.ndarray, Worth]],
    which: np.ndarray,
) -> dict[str, np.ndarray]:
    """The state in which each row stops, by each way."""
    ends = {"plain": trajectories.length}
    if ready.votes:
        ends["vote_stopping"] = np.where(
            trajectories.settled >= 0, trajectories.settled, trajectories.length
        )
    if not worths:
        return ends
    worth_ends = stopping_states(trajectories, worths, which, ready.probabilities)
    return {**ends, "worth_stopping": worth_ends}


def _fixed(
    ready: AcquisitionModel,
    data: _Rows,
    prices: Prices,
    stakes: Prepared | None,
    *,
    everything: bool,
) -> dict[str, Any]:
    """What buying all features, or none, costs and earns."""
    X, y = data.X, data.y
    n, m = X.shape
    if everything:
        cost = _all_together(data.missing, prices)
        P, vote = (
            ready.probabilities(ready.model.posterior(X), np.full(n, m), np.ones(n, dtype=bool)),
            ready.model.predict(X),
        )
        return _means(_columns(y, vote, P, cost, np.full(n, m), stakes))
    start = ready.model.travel(X[:1], prices, 0.0)
    P = ready.probabilities(start.P[:, 0], np.zeros(1), start.resolved & (start.length == 0))
    vote = np.full(n, start.vote[0, 0])
    return _means(_columns(y, vote, np.repeat(P, n, axis=0), np.zeros(n), np.zeros(n), stakes))


def _all_together(missing: np.ndarray, prices: Prices) -> np.ndarray:
    """What all that is not `missing` (n, m) costs (n,): of each group, that opens it whose discount is least."""
    cost: np.ndarray = np.where(missing, 0.0, prices.discounted).sum(axis=1)
    for group in range(len(prices.groups)):
        more = np.where(
            missing | (prices.group != group), np.inf, prices.cost - prices.discounted
        ).min(axis=1)
        cost += np.where(np.isinf(more), 0.0, more)
    return cost


def _means(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(column.mean()) for name, column in columns.items()}


def _columns(
    y: np.ndarray,
    vote: np.ndarray,
    P: np.ndarray,
    cost: np.ndarray,
    questions: np.ndarray,
    stakes: Prepared | None,
) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):  # `simulate` reports what overflows
        error = vote != y if y.dtype.kind == "i" else np.square(vote - y)
    columns = {"cost": cost, "questions": questions, "error": error}
    if stakes is not None:
        benefit = row_benefits(y, stakes.decide(P).choice, stakes.benefits)
        columns |= {"benefit": benefit, "net_benefit": benefit - cost}
    return columns
