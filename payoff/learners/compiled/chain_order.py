"""The order in which a chain of forests asks for features: greedily, by what each lowers the loss
for its price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed

from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import Orders, order_categories
from payoff.acquisition.nodes import Nodes
from payoff.arrays import F32, F64
from payoff.decisions.folds import stratified_folds
from payoff.progress import report

if TYPE_CHECKING:
    from payoff.learners.forest_chain import ForestChain

_HALF = 4500  # rows to grow from, and as many to judge by; with fewer than twice as many, all rows in folds
_FOLDS = 3
_TREES = 15
_CLEARLY = 0.1  # of the log loss: by so much less another rule must have
_DOUBT = 2.0  # standard errors of the difference that must lie between them
_POWERS = (
    0.7,
    1.4,
    2.0,
    2.8,
    4.0,
)  # rules are compared after the best: the usual one is often only too cautious
_TAILS = (0.01, 0.99)
_CANDIDATES = 20  # the most important features, beside free ones; others are only appended
_EQUAL, _PRICED = (22, 10), (1000, 1000)  # steps, and how many of them the search places
_LEAST = 1e-3
ROUGH = 2
"""Forests of so few features have more rows in a leaf, and are blended with no other."""
_CAREFUL = 5  # rows in their leaves, and in those of a small table
_SMALL, _LARGE = (
    1000,
    20_000,
)  # rows: a small table; above the other, more rows in a leaf and no more nodes
_LEAVES, _TRIES = (
    (3, 5),
    (3, 10),
)  # of other rules: rows in a leaf, and thresholds for each feature at a split


_GROWN, _JUDGED = 0, 1
Split = tuple[F32, np.ndarray, np.ndarray, np.ndarray]
"""Rows (n, m), codes, weights, and what each row is for, int8 (n,): to grow from, to judge by, or
neither.
"""


def ranked(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    inside: np.ndarray,
    K: int,
    categorical: Sequence[int],
) -> tuple[Orders, F32]:
    """Categories ordered by the rows `inside`, and X (n, m) in this order, as float32, without far
    outliers.

    A random threshold between the least and the largest number would divide nothing if one of them
    is far away. So numbers end as far beyond the quantiles .01 and .99 as these are apart. Answers
    need no such limit: no threshold is beyond it.
    """
    orders = order_categories(X[inside], codes[inside], weights[inside], K, categorical)
    found = orders.apply(X)
    for column in found.T:
        present = column[inside]
        present = present[~np.isnan(present)]
        if len(present):
            low, high = np.quantile(present, _TAILS).astype(np.float64)
            if low < high:
                np.clip(column, 2 * low - high, 2 * high - low, out=column)
    return orders, found


def find_order(
    learner: ForestChain, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, seed: int
) -> tuple[list[int], list[Rule]]:
    """The columns of X (n, m) in the order in which they are asked for, and how the forest of each
    prefix is grown.

    The search places features, with equal prices 10, while the log loss falls by `least`. If
    `least` is None, or none was placed, the others follow by importance, up to `steps`. A forest
    has the usual rule, until another is clearly better. Pieces of work run where joblib says.
    """
    n, m = X.shape
    prices, own = learner.prices_, learner.min_samples_leaf
    K, categorical = len(learner.classes_), learner.categorical()
    equal = bool(np.ptp(prices.cost) == 0 and (prices.cost == prices.discounted).all())
    steps, placed = _EQUAL if equal else _PRICED
    steps = min(learner.steps or steps, m)
    least = _LEAST if learner.least is None and not equal else learner.least
    few = _CAREFUL if n < _SMALL else math.ceil(n / _LARGE)
    usual = [Rule(own or (max(_CAREFUL, few) if s <= ROUGH else few)) for s in range(1, steps + 1)]
    rivals = [
        Rule(max(leaf, math.ceil(n / _LARGE)), tries)
        for tries in _TRIES
        for leaf in ([own] if own else _LEAVES)
    ]
    splits = [
        (
            ranked(X, codes, weights, np.flatnonzero(use == _GROWN), K, categorical)[1],
            codes,
            weights,
            use,
        )
        for use in _uses(codes, seed)
    ]
    seeds = np.random.default_rng(seed).integers(2**62, size=_TREES).tolist()
    importance = _grown(*splits[0], list(range(X.shape[1])), K, usual[-1], seeds)[1]
    by_importance = np.argsort(-importance, kind="stable").tolist()
    prior = np.bincount(codes, weights) / weights.sum()
    order: list[int] = []
    rules: list[Rule] = []
    known = np.concatenate([_loss(prior[None], *split[1:]) for split in splits])
    free = {j for j in by_importance if prices.cost[j] == 0}
    candidates = [j for rank, j in enumerate(by_importance) if rank < _CANDIDATES or j in free]
    for step in range(searched := min(placed, steps, len(candidates))):
        left = [j for j in candidates if j not in order]
        report(step / searched, "choosing the order of features")
        rule = usual[step] if rules == usual[:step] else rules[-1]
        losses = _losses(splits, [([*order, j], rule) for j in left], K, prior, seeds)
        chosen = _best(known - losses[:, 0], [prices.paid([*order, j])[-1] for j in left], least)
        if chosen is None:
            break
        order.append(left[chosen])
        others = [other for other in rivals if other != rule]
        again = _losses(splits, [(order, other) for other in others], K, prior, seeds)
        better = _clearly_better(losses[chosen, 1], again[:, 1])
        known, rule = (
            (losses[chosen, 0], rule) if better is None else (again[better, 0], others[better])
        )
        rules.append(rule)
    if least is None or not order:
        order += [j for j in by_importance if j not in order]
    order = order[:steps]
    rest = usual if rules == usual[: len(rules)] else [rules[-1]] * steps
    return order, [*rules, *rest[len(rules) : len(order)]]


def _clearly_better(usual: F64, others: F64) -> int | None:
    """Which of the `others` (i, rows) has the least loss, if it is clearly less than the `usual`
    one (rows,).
    """
    lower = usual - others
    fall, error = lower.mean(axis=1), lower.std(axis=1) / math.sqrt(len(usual))
    best = int(fall.argmax())
    return best if fall[best] > max(_DOUBT * error[best], _CLEARLY * usual.mean()) else None


def _best(lower: np.ndarray, price: Sequence[float], least: float | None) -> int | None:
    """Which lowers the losses (i, rows) most for its price, free ones first; None if none does by
    `least`.
    """
    drop = lower.mean(axis=1)
    if least is not None and (drop < least).all():
        return None
    allowed = np.flatnonzero(drop >= (-np.inf if least is None else least)).tolist()

    def merit(i: int) -> tuple[bool, float, float]:
        gain = float(drop[i])
        ratio = gain if price[i] == 0 else gain / price[i] if gain > 0 else gain * price[i]
        return price[i] == 0 and gain > 0, ratio, gain

    return max(allowed, key=merit)


def _losses(
    splits: Sequence[Split],
    tried: Sequence[tuple[list[int], Rule]],
    K: int,
    prior: np.ndarray,
    seeds: Sequence[int],
) -> F64:
    """The log losses (i, 2, rows) of forests of these columns and rules, on the rows that the
    splits hold out: of the probabilities, and of these to the best of `_POWERS`, as calibration
    will raise them.
    """
    pieces = (
        delayed(_judge)(*split, *forest, K, prior, seeds) for split in splits for forest in tried
    )
    losses = Parallel(prefer="threads")(pieces)
    return np.array([np.concatenate(losses[i :: len(tried)], axis=1) for i in range(len(tried))])


def _judge(
    X: F32, codes: np.ndarray, weights: np.ndarray, use: np.ndarray, columns: list[int], rule: Rule, K: int,
    prior: np.ndarray, seeds: Sequence[int],
) -> F64:  # fmt: skip
    forest, _ = _grown(X, codes, weights, use, columns, K, rule, seeds)
    rows, T = X[use == _JUDGED][:, columns], len(seeds)
    P = (T * forest.shares(rows, np.ones(len(rows), dtype=np.int32)) + prior / 2) / (T + 0.5)
    losses = [_loss(P, codes, weights, use)]
    for power in _POWERS:
        raised = P**power
        losses.append(_loss(raised / raised.sum(axis=1, keepdims=True), codes, weights, use))
    return np.stack((losses[0], min(losses, key=np.mean)))


def _grown(
    X: F32, codes: np.ndarray, weights: np.ndarray, use: np.ndarray, columns: list[int], K: int, rule: Rule,
    seeds: Sequence[int],
) -> tuple[Nodes, F64]:  # fmt: skip
    rows = use == _GROWN
    return grow(
        np.ascontiguousarray(X[rows][:, columns].T), codes[rows], weights[rows], K, rule, seeds
    )


def _loss(P: np.ndarray, codes: np.ndarray, weights: np.ndarray, use: np.ndarray) -> F64:
    """Weighted log losses of P (n', K), or of the one row of P for all, on the n' rows to judge by."""
    judged = use == _JUDGED
    truth = codes[judged]
    if not len(truth):  # every class has one row: nothing can be held out
        return np.zeros(1)
    chosen = P[np.arange(len(truth)) if len(P) > 1 else 0, truth]
    return -np.log(chosen) * weights[judged] / weights[judged].mean()


def _uses(codes: np.ndarray, seed: int) -> list[np.ndarray]:
    """How rows are used: two large samples, or folds of a small table. A class's only row is in no
    fold: it grows.
    """
    large = len(codes) >= 2 * _HALF
    folds = len(codes) // _HALF if large else min(_FOLDS, max(2, int(np.bincount(codes).min())))
    fold = stratified_folds(codes, folds, seed)
    if large:
        return [np.where(fold < 2, fold, -1).astype(np.int8)]
    return [np.where(fold == k, _JUDGED, _GROWN).astype(np.int8) for k in range(folds)]
