"""What the parameters of a tree of classifiers may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.acquisition.prices import check_budget
from app.errors import Invalid, pointer

TASKS = ("classification", "regression")
FEATURES = ("raw", "boosted")
STARTS = ("leaf", "greedy")
INITIALISERS = (*STARTS, "both")
DEEPEST = 8


def check(tree: Any) -> None:
    """Invalid at the first parameter of a CostTree that is wrong."""
    for name, choices in (("task", TASKS), ("features", FEATURES), ("initialiser", INITIALISERS)):
        if getattr(tree, name) not in choices:
            raise Invalid.at(pointer(name), f"{name} is one of {', '.join(choices)}")
    for name, high in (("depth", DEEPEST), ("weak_learners", 1000), ("weak_depth", DEEPEST)):
        _check_number(name, getattr(tree, name), 1, high, whole=True)
    for name in ("rho", "zero_tolerance", "evaluation_cost"):
        _check_number(name, getattr(tree, name), 0, np.finfo(np.float64).max)
    if tree.steepness is not None:
        _check_number("steepness", tree.steepness, np.finfo(np.float64).tiny, 1e6)
    if tree.trade_off is not None:
        _check_number("lambda", tree.trade_off, 0, np.finfo(np.float64).max)
    if tree.trade_off is not None and tree.budget is not None:
        raise Invalid.at("/budget", "a budget chooses lambda; give one of the two")
    if not 0 < tree.validation_fraction < 1:
        raise Invalid.at("/validation_fraction", "validation_fraction is between 0 and 1")
    check_budget(tree.budget)


def _check_number(name: str, value: Any, low: float, high: float, *, whole: bool = False) -> None:
    kinds = int | np.integer if whole else int | float | np.integer | np.floating
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = f"an integer from {low} to {high}" if whole else f"a number of at least {low}"
        raise Invalid.at(pointer(name), f"{name} is {what}")
