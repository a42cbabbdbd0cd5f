"""Models asked one feature at a time: states case by case, and the ends of complete rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from payoff.acquisition.prices import Prices
from payoff.acquisition.states import States, StepwiseModel, Trajectories

UNAVAILABLE = -1
_BLOCK = 2000  # rows whose states are in memory together


@dataclass(frozen=True)
class Simulation:
    """The ends of n rows: `cost`, `questions`, `prediction` (n,), `probabilities` (n, K), and whether `resolved`."""

    cost: np.ndarray
    questions: np.ndarray
    prediction: np.ndarray
    probabilities: np.ndarray
    resolved: np.ndarray


def stands_as(states: States, i: int, twin: dict[str, Any]) -> None:
    """Assert that case i asks for what its literal twin asks for, and has spent, resolved and settled as much."""
    columns = states.order[i, : states.wanted[i]]
    waiting = states.waiting[i, columns].tolist()
    np.testing.assert_array_equal(columns, [j for j, *_ in twin["frontier"]])
    np.testing.assert_allclose(
        states.price[i, columns],
        [price for _, price, *_ in twin["frontier"]],
        rtol=1e-9,
    )
    assert all(
        those == found
        for (_, _, *more), found in zip(twin["frontier"], waiting, strict=True)
        for those in more
    )
    assert states.spent[i] == pytest.approx(twin["spent"], abs=1e-12)
    assert states.following[i] == (-1 if twin["next"] is None else twin["next"])
    assert (states.resolved[i], states.leader[i] >= 0) == (
        twin["resolved"],
        twin["settled"],
    )
    assert (states.missed[i] > 0) == twin["missed"]


def travels_as_it_steps(
    model: StepwiseModel,
    X: np.ndarray,
    prices: Prices,
    budget: float | None,
    missing: np.ndarray | None = None,
) -> Trajectories:
    """The trajectories of rows, once they are those of `model.step`, state by state: questions, prices, answers, sums.

    What a value is that is not known yet plays no part.
    """
    run = model.travel(X, prices, budget, missing)
    free = np.isnan(X) if missing is None else missing
    X = np.where(free, np.nan, X)
    status, ends, settled = (
        np.zeros(X.shape, dtype=np.int32),
        np.full(len(X), -1),
        np.full(len(X), -1),
    )
    for s in range(int(run.length.max()) + 1):
        now, on = (
            model.step(np.where(status == 0, 99.0, X), status, prices, budget),
            ends < 0,
        )
        answer = np.where(np.isnan(now.value), now.prediction, now.value)
        np.testing.assert_array_equal(now.probabilities[on], run.P[on, s])
        np.testing.assert_allclose(answer[on], run.vote[on, s], rtol=1e-12)
        np.testing.assert_allclose(now.spent[on], run.spent[on, s], atol=1e-12)
        settled[on & (settled < 0) & (now.leader >= 0)] = s
        over = on & (now.following < 0)
        np.testing.assert_array_equal(
            run.resolved[over], now.resolved[over] == now.trees
        )
        ends[over] = s
        rows = np.flatnonzero(on & ~over)
        j = now.following[rows]
        np.testing.assert_array_equal(j, run.asked[rows, s] if len(rows) else j)
        if len(rows):
            np.testing.assert_array_equal(now.price[rows, j], run.price[rows, s])
            np.testing.assert_array_equal(free[rows, j], run.missing[rows, s])
        status[rows, j] = np.where(free[rows, j], UNAVAILABLE, s + 1)
    np.testing.assert_array_equal(ends, run.length)
    np.testing.assert_array_equal(settled, run.settled)
    return run


def simulate(
    model: StepwiseModel,
    X: np.ndarray,
    prices: Prices,
    budget: float | None = None,
    *,
    stop_when_settled: bool = True,
) -> Simulation:
    """The ends of `model.travel`; a settled vote stops a row if `stop_when_settled`."""
    parts = []
    for start in range(0, len(X), _BLOCK):
        rows = model.travel(X[start : start + _BLOCK], prices, budget)
        stops = stop_when_settled & (rows.settled >= 0)
        ends = np.where(stops, rows.settled, rows.length)
        at = np.arange(len(rows)), ends
        parts.append(
            (
                rows.spent[at],
                ends,
                rows.vote[at],
                rows.P[at],
                rows.resolved & (ends == rows.length),
            )
        )
    return Simulation(*map(np.concatenate, zip(*parts, strict=True)))
