"""The costs and benefits of asking feature by feature on complete rows, beside alternatives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

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
from app.answering.acquisition_model import AcquisitionModel, acquisition_model
from app.answering.record import distinct
from app.answering.simulated_rows import SimulatedRows, rows_of_dataset, rows_of_request
from app.registry.loaded import Loaded
from app.requests.costs import FeatureCosts
from app.requests.datasets import find_named
from app.requests.fields import COLUMNS, CaseColumns, Instances, ModelVersion, Text
from app.requests.matrices import NamedMatrixFields, columns_beside
from app.stores import Stores
from payoff.acquisition.prices import Prices
from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Worth, stopping_states
from payoff.decisions.benefit import LARGEST, Prepared, row_benefits
from payoff.decisions.case_benefits import NO_COLUMNS, Columns, by_case
from payoff.decisions.row_weights import evenly
from payoff.errors import Invalid, TooLarge, pointer

MAX_ROWS = 10_000
# Rows whose states are in memory together, and their numbers for classes and actions.
_ROWS_AT_ONCE = 1000
_MAX_CELLS = 5_000_000
# Budgets, as shares of the dearest row's cost, where the request has none.
_BUDGET_SHARES = (0.1, 0.25, 0.5, 0.75)

_Budget = Annotated[float, Field(strict=True, ge=0, le=LARGEST)]


class SimulateRequest(NamedMatrixFields):
    """Complete rows with their labels, and the budgets to try."""

    model: Text = Field(
        description="name, name:version or name@alias of a forest or tree",
        examples=["triage"],
    )
    dataset: Text | None = Field(
        default=None, description="a data set with the model's features and classes"
    )
    rows: Instances | None = Field(default=None, description="or rows")
    labels: (
        Annotated[list[StrictInt | StrictFloat | StrictStr], Field(fail_fast=True)]
        | None
    ) = Field(default=None, description="with a class, or a number, for each")
    budgets: Annotated[list[_Budget], Field(max_length=20)] | None = Field(
        default=None,
        description="of each row; null: some shares of what the dearest row costs",
    )
    feature_costs: FeatureCosts = Field(
        default=None, description="prices that differ from those of training"
    )
    columns: CaseColumns = Field(default=None, description=COLUMNS, examples=[None])

    @model_validator(mode="after")
    def _one_source(self) -> SimulateRequest:
        has_rows = self.rows is not None
        if (self.dataset is not None) == has_rows or has_rows != (
            self.labels is not None
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
        default=None,
        description="while more is worth its price; of forests, with benefits",
    )


class Simulation(BaseModel):
    """What was simulated."""

    model: ModelVersion
    rows: int
    measure: Literal["error_rate", "mean_squared_error"] = Field(
        description="what `error` is"
    )
    nothing: SimulatedOutcome = Field(description="buying no feature")
    everything: SimulatedOutcome = Field(
        description="buying every feature of the model"
    )
    budgets: list[BudgetOutcomes]
    warnings: list[str]


def simulate(
    stores: Stores, model: Loaded, question: SimulateRequest, caller: Caller
) -> dict[str, Any]:
    """Means per row of every way and budget, ready for JSON.

    Raises Invalid with the place, NotFound for an unknown data set. Of more than `MAX_ROWS` rows an
    even selection is taken, with a warning. Some 0.1 ms a row and budget.
    """
    acquirer = model.once(acquisition_model)
    prices = acquirer.prices_of(question.feature_costs)
    matrix = acquirer.matrix_of(question)
    is_by_case = matrix is not None and matrix.cases is not None
    if is_by_case and question.dataset is not None:
        # Through cells that depend on columns the means reveal the values of the columns.
        caller.need(frozenset({Scope.TRAIN}))
    values = NO_COLUMNS
    if question.dataset is not None:
        dataset_id = find_named(stores, question.dataset, "/dataset", caller).id
        table = stores.datasets.table(dataset_id)
        rows, values, warnings = rows_of_dataset(table, model)
    else:
        rows, warnings = rows_of_request(
            model, question.rows or [], question.labels or []
        )
    columns = {
        **values,
        **columns_beside(
            question.columns or {},
            len(rows.X),
            question.case_columns,
            {*model.schema.names, *values},
        ),
    }
    warnings += acquirer.order_warnings(prices)
    n = len(rows.X)
    chosen = evenly(np.ones(n), min(n, MAX_ROWS))
    if len(chosen) < len(rows.X):
        warnings.append(f"{MAX_ROWS} rows of {len(rows.X)} were simulated")
        rows = SimulatedRows(*(part[chosen] for part in rows))
    if matrix is not None:
        if is_by_case and len(chosen) * matrix.benefits.size > _MAX_CELLS:
            raise TooLarge(
                f"{len(chosen):,} matrices of {matrix.benefits.size:,} cells;"
                f" at most {_MAX_CELLS:,} in all"
            )
        columns = {name: column[chosen] for name, column in columns.items()}
        place = None
        if question.rows is not None:
            place = partial(_place, chosen, columns, question.rows, model.schema.names)
        matrix = by_case(matrix, model.schema, rows.X, columns, place)
        warnings += matrix.warnings
    simulation = report(
        acquirer, rows.X, rows.y, prices, matrix, question.budgets, rows.missing
    )
    if not math.isfinite(
        simulation["nothing"]["error"] + simulation["everything"]["error"]
    ):
        raise Invalid.at(
            "",
            "the squared errors of these rows are too large for a 64-bit float; use smaller units",
        )
    can_stop = matrix is not None and acquirer.experience is not None
    if can_stop and "worth_stopping" not in simulation["budgets"][0]:
        warnings.append(
            "`worth_stopping` is left out: it takes a few hundred different matrices times budgets"
        )
    return {**simulation, "warnings": warnings}


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
    return pointer(
        "rows", row, name if isinstance(rows[row], dict) else names.index(name)
    )


def report(
    acquirer: AcquisitionModel,
    X: np.ndarray,
    y: np.ndarray,
    prices: Prices,
    matrix: Prepared | None = None,
    budgets: Sequence[float] | None = None,
    missing: np.ndarray | None = None,
) -> dict[str, Any]:
    """Mean cost, questions, error and, with a matrix, benefit and net benefit on rows X (n, m) with
    labels y (n,).

    Labels are class codes, and the error is the share of wrong classes; or numbers, and it is the
    mean squared error. `everything` buys all features of the model, and pays for a tree's nodes on
    the way, `nothing` none; `budgets` lists for each budget, the last one none, the model asked to
    the end (`plain`), a forest until the vote is settled (`vote_stopping`), and with a matrix while
    asking is worth the price (`worth_stopping`; of few different matrices, where each row has its
    own). `missing` (n, m): unavailable values, which cost nothing; by default every NaN. n is at
    least 1.
    """
    rows = SimulatedRows(X, y, np.isnan(X) if missing is None else missing)
    simulator = _Simulator(acquirer, rows, prices, matrix)
    if matrix is not None:
        n_budgets = 1 + len(_BUDGET_SHARES if budgets is None else budgets)
        simulator.matrices = _few_matrices(acquirer, matrix, len(X), n_budgets)
    unlimited, dearest = simulator.run(None)
    if budgets is None:
        shares = {
            min(float(f"{share * dearest:.2g}"), LARGEST) for share in _BUDGET_SHARES
        }
        budgets = sorted(shares - {0.0})
    runs = [{"budget": budget, **simulator.run(budget)[0]} for budget in budgets]
    return {
        "rows": len(X),
        "measure": "error_rate" if acquirer.classes else "mean_squared_error",
        "nothing": simulator.with_nothing(),
        "everything": simulator.with_everything(),
        "budgets": [*runs, {"budget": None, **unlimited}],
    }


def _few_matrices(
    acquirer: AcquisitionModel, matrix: Prepared, n: int, n_budgets: int
) -> tuple[list[Any], np.ndarray] | None:
    """The distinct matrices of n rows, and the position (n,) of each row's matrix among them; None
    where computing the worth of asking with all of them takes too long.
    """
    matrices, matrix_of = distinct(matrix.benefits, n)
    limit = acquirer.max_matrices(len(matrix.actions))
    if matrix.benefits.ndim > 2 and len(matrices) * n_budgets > limit:
        return None
    return matrices, matrix_of


@dataclass
class _Simulator:
    """Rows that acquire features at some prices, with decisions by a matrix. `matrices`: those by
    whose worth rows stop, and the position (n,) of each row's matrix among them.
    """

    acquirer: AcquisitionModel
    rows: SimulatedRows
    prices: Prices
    matrix: Prepared | None
    matrices: tuple[list[Any], np.ndarray] | None = None

    def run(self, budget: float | None) -> tuple[dict[str, Any], float]:
        """The means of every way to ask within a budget, and the cost of the dearest row."""
        sums: dict[str, dict[str, float]] = {}
        dearest = 0.0
        n = len(self.rows.X)
        worths = self._worths(budget)
        matrix_of = (
            np.zeros(n, dtype=np.intp) if self.matrices is None else self.matrices[1]
        )
        size = self._rows_at_once()
        for start in range(0, n, size):
            part = slice(start, start + size)
            rows = SimulatedRows(*(column[part] for column in self.rows))
            trajectories = self.acquirer.model.travel(
                rows.X, self.prices, budget, rows.missing
            )
            dearest = max(dearest, float(trajectories.spent.max(initial=0.0)))
            matrix = self._matrix_of(part)
            ends_by_way = _ends(self.acquirer, trajectories, worths, matrix_of[part])
            for way, ends in ends_by_way.items():
                figures = sums.setdefault(way, {})
                for name, column in self._end(
                    trajectories, ends, rows.y, matrix
                ).items():
                    figures[name] = figures.get(name, 0.0) + float(column.sum())
        means = {
            way: {name: total / n for name, total in figures.items()}
            for way, figures in sums.items()
        }
        return means, dearest

    def _worths(self, budget: float | None) -> list[tuple[np.ndarray, Worth]]:
        if self.matrices is None or self.acquirer.experience is None:
            return []
        return [
            (B, self.acquirer.worth(B, self.prices, budget)) for B in self.matrices[0]
        ]

    def _rows_at_once(self) -> int:
        width = len(self.acquirer.classes)
        if self.matrix is not None:
            width += len(self.matrix.actions)
        cells = (len(self.acquirer.model.columns) + 1) * max(width, 1)
        return min(_ROWS_AT_ONCE, max(1, _MAX_CELLS // cells))

    def _matrix_of(self, part: slice) -> Prepared | None:
        """The matrix, or the matrices of a part of the rows."""
        if self.matrix is None or self.matrix.benefits.ndim == 2:
            return self.matrix
        return replace(self.matrix, benefits=self.matrix.benefits[part])

    def _end(
        self,
        trajectories: Trajectories,
        ends: np.ndarray,
        y: np.ndarray,
        matrix: Prepared | None,
    ) -> dict[str, np.ndarray]:
        """The figures of rows that stop in the states `ends` (n,)."""
        rows = np.arange(len(ends))
        finished = trajectories.resolved & (ends == trajectories.length)
        P = self.acquirer.probabilities(trajectories.P[rows, ends], ends, finished)
        vote = trajectories.vote[rows, ends]
        spent = trajectories.spent[rows, ends]
        return _columns(y, vote, P, spent, ends, matrix)

    def with_everything(self) -> dict[str, Any]:
        """The means of buying all features."""
        X, y, missing = self.rows
        n, m = X.shape
        cost = _cost_of_everything(missing, self.prices)
        posterior = self.acquirer.model.posterior(X)
        P = self.acquirer.probabilities(
            posterior, np.full(n, m), np.ones(n, dtype=bool)
        )
        vote = self.acquirer.model.predict(X)
        return _means(_columns(y, vote, P, cost, np.full(n, m), self.matrix))

    def with_nothing(self) -> dict[str, Any]:
        """The means of buying no feature."""
        X, y, _ = self.rows
        n = len(X)
        start = self.acquirer.model.travel(X[:1], self.prices, 0.0)
        finished = start.resolved & (start.length == 0)
        P = self.acquirer.probabilities(start.P[:, 0], np.zeros(1), finished)
        vote = np.full(n, start.vote[0, 0])
        P = np.repeat(P, n, axis=0)
        return _means(_columns(y, vote, P, np.zeros(n), np.zeros(n), self.matrix))


def _ends(
    acquirer: AcquisitionModel,
    trajectories: Trajectories,
    worths: Sequence[tuple[np.ndarray, Worth]],
    matrix_of: np.ndarray,
) -> dict[str, np.ndarray]:
    """The state in which each row stops, by each way to ask."""
    length, settled = trajectories.length, trajectories.settled
    ends = {"plain": length}
    if acquirer.votes:
        ends["vote_stopping"] = np.where(settled >= 0, settled, length)
    if worths:
        ends["worth_stopping"] = stopping_states(
            trajectories, worths, matrix_of, acquirer.probabilities
        )
    return ends


def _cost_of_everything(missing: np.ndarray, prices: Prices) -> np.ndarray:
    """The cost (n,) of all features that are not `missing` (n, m): each group is opened by the one
    with the smallest discount.
    """
    cost: np.ndarray = np.where(missing, 0.0, prices.discounted).sum(axis=1)
    discount = prices.cost - prices.discounted
    for group in range(len(prices.groups)):
        is_outside = missing | (prices.group != group)
        smallest = np.where(is_outside, np.inf, discount).min(axis=1)
        cost += np.where(np.isinf(smallest), 0.0, smallest)
    return cost


def _means(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(column.mean()) for name, column in columns.items()}


def _columns(
    y: np.ndarray,
    vote: np.ndarray,
    P: np.ndarray,
    cost: np.ndarray,
    questions: np.ndarray,
    matrix: Prepared | None,
) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):  # `simulate` reports what overflows
        error = vote != y if y.dtype.kind == "i" else np.square(vote - y)
    columns = {"cost": cost, "questions": questions, "error": error}
    if matrix is not None:
        benefit = row_benefits(y, matrix.decide(P).choice, matrix.benefits)
        columns |= {"benefit": benefit, "net_benefit": benefit - cost}
    return columns
