"""Whatever can be asked feature by feature, a forest or a tree of classifiers, asked in one way."""

from __future__ import annotations

import numpy as np

from app.acquisition import session, trajectories, tree_session
from app.acquisition.forest import FlatForest
from app.acquisition.prices import Prices
from app.acquisition.session import States
from app.acquisition.trajectories import Trajectories
from app.acquisition.tree_of_classifiers import TreeOfClassifiers

Walkable = FlatForest | TreeOfClassifiers


def step(
    model: Walkable, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None = None, *,
    stop_when_settled: bool = True,
) -> States:  # fmt: skip
    """Where cases stand and what each should ask for next: `session.step`, or `tree_session.step`, which has no vote
    to settle.
    """
    if isinstance(model, TreeOfClassifiers):
        return tree_session.step(model, X, status, prices, budget)
    return session.step(model, X, status, prices, budget, stop_when_settled=stop_when_settled)


def travel(
    model: Walkable, X: np.ndarray, prices: Prices, budget: float | None = None, missing: np.ndarray | None = None
) -> Trajectories:
    """Complete rows, fed feature by feature to the end: `trajectories.travel`, or `tree_session.travel`."""
    if isinstance(model, TreeOfClassifiers):
        return tree_session.travel(model, X, prices, budget, missing)
    return trajectories.travel(model, X, prices, budget, missing)
