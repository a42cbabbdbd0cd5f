"""The order in which a chain of forests asks for features: greedily, by what each lowers the loss for its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from app.acquisition.categories import Orders, order_categories
from app.acquisition.extra_trees import ExtraTrees, grow
from app.acquisition.prices import Prices
from app.arrays import F32, F64
from app.decisions.folds import stratified_folds
from app.progress import report

_HALF = 4500  # rows to grow from, and as many to judge by; with fewer than twice as many, all rows in folds
_FOLDS = 3
_TREES = 15
_CANDIDATES = 20  # the most important features; others are only appended


@dataclass(frozen=True)
class Search:
    """How an order is found: greedily up to `greedy` features while the log loss falls by `least`, with the leaf sizes
    of states 1, 2, … `leaves`; then by importance up to `steps`, if any feature were as good or none was found.
    """

    steps: int
    greedy: int
    least: float | None
    leaves: Sequence[int]
    seed: int


_GROWN, _JUDGED = 0, 1
Split = tuple[F32, np.ndarray, np.ndarray, np.ndarray]
"""Rows (n, m), codes, weights, and what each row is for, int8 (n,): to grow from, to judge by, or neither."""


def ranked(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, inside: np.ndarray, K: int, categorical: Sequence[int]
) -> tuple[Orders, F32]:
    """Categories ordered by the rows `inside`, and X (n, m) in this order, as float32."""
    orders = order_categories(X[inside], codes[inside], weights[inside], K, categorical)
    return orders, orders.apply(X).astype(np.float32)


def find_order(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, prices: Prices, categorical: Sequence[int], search: Search
) -> list[int]:
    """The columns of X (n, m) in the order in which they are asked for; pieces of work run where joblib says."""
    K = int(codes.max()) + 1
    splits = [
        (ranked(X, codes, weights, np.flatnonzero(use == _GROWN), K, categorical)[1], codes, weights, use)
        for use in _uses(codes, search.seed)
    ]
    seeds = np.random.default_rng(search.seed).integers(2**62, size=_TREES).tolist()
    importance = _grown(*splits[0], list(range(X.shape[1])), K, search.leaves[-1], seeds)[1]
    by_importance = np.argsort(-importance, kind="stable").tolist()
    prior = np.bincount(codes, weights) / weights.sum()
    order: list[int] = []
    last = float(np.mean([_loss(prior[None], *split[1:]) for split in splits]))
    candidates = by_importance[:_CANDIDATES]
    for step in range(min(search.greedy, len(candidates))):
        left = [j for j in candidates if j not in order]
        report(step / search.greedy, "choosing the order of features")
        losses = _losses(splits, [[*order, j] for j in left], K, prior, search.leaves[step], seeds)
        chosen = _best(last - losses, [prices.paid([*order, j])[-1] for j in left], search.least)
        if chosen is None:
            break
        order.append(left[chosen])
        last = float(losses[chosen])
    if search.least is None or not order:
        order += [j for j in by_importance if j not in order]
    return order[: search.steps]


def _best(drop: np.ndarray, price: Sequence[float], least: float | None) -> int | None:
    """Which lowers the loss most for its price, free ones first; None if none lowers it by `least`."""
    if least is not None and (drop < least).all():
        return None
    allowed = np.flatnonzero(drop >= (-np.inf if least is None else least)).tolist()

    def merit(i: int) -> tuple[bool, float, float]:
        gain = float(drop[i])
        ratio = gain if price[i] == 0 else gain / price[i] if gain > 0 else gain * price[i]
        return price[i] == 0 and gain > 0, ratio, gain

    return max(allowed, key=merit)


def _losses(
    splits: Sequence[Split], tried: list[list[int]], K: int, prior: np.ndarray, least: int, seeds: Sequence[int]
) -> np.ndarray:
    """The log loss of a forest of each list of columns, mean over the splits."""
    pieces = (delayed(_judge)(*split, columns, K, prior, least, seeds) for split in splits for columns in tried)
    losses = np.array(Parallel(prefer="threads")(pieces))
    mean: np.ndarray = losses.reshape(len(splits), len(tried)).mean(axis=0)
    return mean


def _judge(
    X: F32, codes: np.ndarray, weights: np.ndarray, use: np.ndarray, columns: list[int], K: int, prior: np.ndarray,
    least: int, seeds: Sequence[int],
) -> float:  # fmt: skip
    forest, _ = _grown(X, codes, weights, use, columns, K, least, seeds)
    rows, T = X[use == _JUDGED][:, columns], len(seeds)
    P = (T * forest.shares(rows, np.ones(len(rows), dtype=np.int32)) + prior / 2) / (T + 0.5)
    return _loss(P, codes, weights, use)


def _grown(
    X: F32, codes: np.ndarray, weights: np.ndarray, use: np.ndarray, columns: list[int], K: int, least: int,
    seeds: Sequence[int],
) -> tuple[ExtraTrees, F64]:  # fmt: skip
    rows = use == _GROWN
    return grow(np.ascontiguousarray(X[rows][:, columns].T), codes[rows], weights[rows], K, least, seeds)


def _loss(P: np.ndarray, codes: np.ndarray, weights: np.ndarray, use: np.ndarray) -> float:
    """Log loss of P (n', K), or of the one row of P for all, on the rows to judge by."""
    truth = codes[use == _JUDGED]
    if not len(truth):  # every class has one row: nothing can be held out
        return 0.0
    chosen = P[np.arange(len(truth)) if len(P) > 1 else 0, truth]
    return float(np.average(-np.log(chosen), weights=weights[use == _JUDGED]))


def _uses(codes: np.ndarray, seed: int) -> list[np.ndarray]:
    """How rows are used: two large samples, or folds of a small table. A class's only row is in no fold: it grows."""
    large = len(codes) >= 2 * _HALF
    folds = len(codes) // _HALF if large else min(_FOLDS, max(2, int(np.bincount(codes).min())))
    fold = stratified_folds(codes, folds, seed)
    if large:
        return [np.where(fold < 2, fold, -1).astype(np.int8)]
    return [np.where(fold == k, _JUDGED, _GROWN).astype(np.int8) for k in range(folds)]
