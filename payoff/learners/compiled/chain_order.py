"""The order in which a chain of forests asks for features.

A greedy search: next comes the feature that lowers the log loss most for its price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import Orders, order_categories
from payoff.acquisition.nodes import Nodes
from payoff.arrays import F32, F64
from payoff.decisions.folds import Blocks, stratified_folds
from payoff.progress import report

if TYPE_CHECKING:
    from payoff.learners.forest_chain import ForestChain

# Rows of a large table to grow from, and as many to validate on; of a table with fewer than both,
# all rows are in folds.
_SAMPLE = 4500
_FOLDS = 3
_TREES = 15
# Another rule is clearly better if it lowers the log loss by this share, and by so many standard
# errors of the difference.
_CLEAR_SHARE = 0.1
_CLEAR_ERRORS = 2.0
# Rules are compared after raising probabilities to the best of these powers, as the default rule is
# often only too cautious.
_POWERS = (0.7, 1.4, 2.0, 2.8, 4.0)
_TAILS = (0.01, 0.99)
# the most important features, besides free ones; others are only appended
_CANDIDATES = 20
# The number of steps, and of those that the search places: with equal prices, and with prices.
_STEPS_OF_EQUAL_PRICES = (22, 10)
_STEPS_OF_PRICES = (1000, 1000)
_LEAST = 1e-3  # the log loss by which a feature has to lower it, with prices
ROUGH = 2
"""Forests of so few features have more rows in a leaf, and are blended with no other."""
_CAREFUL_LEAF = 5  # rows in the leaves of rough forests, and of those of a small table
_SMALL = 1000  # rows below which a table is small
# rows from which leaves have more rows, so that trees have no more nodes
_LARGE = 20_000
# Other rules: rows in a leaf, and thresholds for each feature at a split.
_LEAVES = (3, 5)
_TRIES = (3, 10)

_TRAINING, _VALIDATION = 0, 1
Split = tuple[F32, np.ndarray, np.ndarray, np.ndarray]
"""Rows (n, m), codes, weights, and the use of each row, int8 (n,).

Rows are used for training, for validation, or not at all.
"""


class _Candidate(NamedTuple):
    """A forest to compare: its columns, and the rule by which it is grown."""

    columns: list[int]
    rule: Rule


def rank_categories(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    inside: np.ndarray,
    K: int,
    categorical: Sequence[int],
) -> tuple[Orders, F32]:
    """Categories ordered by the rows `inside`, and X (n, m) so, as float32, without outliers.

    A random threshold between the least and the largest number would divide nothing if one of them
    is far away. So numbers end as far outside the quantiles .01 and .99 as these are apart. Answers
    need no such limit: no threshold is outside it.
    """
    orders = order_categories(X[inside], codes[inside], weights[inside], K, categorical)
    columns = orders.apply(X)
    for column in columns.T:
        present = column[inside]
        present = present[~np.isnan(present)]
        if len(present):
            low, high = np.quantile(present, _TAILS).astype(np.float64)
            if low < high:
                np.clip(column, 2 * low - high, 2 * high - low, out=column)
    return orders, columns


def find_order(
    learner: ForestChain,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    seed: int,
) -> tuple[list[int], list[Rule]]:
    """The columns of X (n, m) in the order of the chain, and the rule of the forest of each prefix.

    The search places features, with equal prices 10, while the log loss falls by `least`. If
    `least` is None, or none was placed, the others follow by importance, up to `steps`. A forest
    has the default rule, until another is clearly better. joblib decides where pieces of work run.
    """
    m = X.shape[1]
    prices = learner.prices_
    K = len(learner.classes_)
    equal = bool(np.ptp(prices.cost) == 0 and (prices.cost == prices.discounted).all())
    steps, placed = _STEPS_OF_EQUAL_PRICES if equal else _STEPS_OF_PRICES
    steps = min(learner.steps or steps, m)
    least = _LEAST if learner.least is None and not equal else learner.least
    defaults, alternatives = _rules(learner.min_samples_leaf, len(X), steps)
    splits = [
        _split(X, codes, weights, use, K, learner.categorical())
        for use in _uses(codes, seed, learner.blocks)
    ]
    seeds = np.random.default_rng(seed).integers(2**62, size=_TREES).tolist()
    importance = _grow(*splits[0], _Candidate(list(range(m)), defaults[-1]), K, seeds)[
        1
    ]
    by_importance = np.argsort(-importance, kind="stable").tolist()
    prior = np.bincount(codes, weights) / weights.sum()
    order: list[int] = []
    rules: list[Rule] = []
    loss = np.concatenate([_loss(prior[None], *split[1:]) for split in splits])
    free = {j for j in by_importance if prices.cost[j] == 0}
    searched = [
        j for rank, j in enumerate(by_importance) if rank < _CANDIDATES or j in free
    ]
    placed = min(placed, steps, len(searched))
    for step in range(placed):
        columns = [j for j in searched if j not in order]
        report(step / placed, "choosing the order of features")
        rule = defaults[step] if rules == defaults[:step] else rules[-1]
        candidates = [_Candidate([*order, j], rule) for j in columns]
        losses = _losses(splits, candidates, prior, seeds)
        price = [prices.paid([*order, j])[-1] for j in columns]
        chosen = _best(loss - losses[:, 0], price, least)
        if chosen is None:
            break
        order.append(columns[chosen])
        rivals = [rival for rival in alternatives if rival != rule]
        rival_losses = _losses(
            splits, [_Candidate(order, rival) for rival in rivals], prior, seeds
        )
        better = _clearly_better(losses[chosen, 1], rival_losses[:, 1])
        if better is None:
            loss = losses[chosen, 0]
        else:
            loss = rival_losses[better, 0]
            rule = rivals[better]
        rules.append(rule)
    if least is None or not order:
        order += [j for j in by_importance if j not in order]
    order = order[:steps]
    following = defaults if rules == defaults[: len(rules)] else [rules[-1]] * steps
    return order, [*rules, *following[len(rules) : len(order)]]


def _rules(leaf: int | None, n: int, steps: int) -> tuple[list[Rule], list[Rule]]:
    """The default rule of each step on n rows, and the rules that may replace it.

    `leaf` is the learner's `min_samples_leaf`.
    """
    least = math.ceil(n / _LARGE)
    plain = _CAREFUL_LEAF if n < _SMALL else least
    rough = max(_CAREFUL_LEAF, plain)
    defaults = [
        Rule(leaf or (rough if s <= ROUGH else plain)) for s in range(1, steps + 1)
    ]
    leaves = (leaf,) if leaf else _LEAVES
    return defaults, [
        Rule(max(size, least), tries) for tries in _TRIES for size in leaves
    ]


def _split(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    use: np.ndarray,
    K: int,
    categorical: Sequence[int],
) -> Split:
    training = np.flatnonzero(use == _TRAINING)
    return (
        rank_categories(X, codes, weights, training, K, categorical)[1],
        codes,
        weights,
        use,
    )


def _clearly_better(loss: F64, rivals: F64) -> int | None:
    """The rival with the least of losses (i, rows); None if it is not clearly below `loss`."""
    gains = loss - rivals
    gain = gains.mean(axis=1)
    error = gains.std(axis=1) / math.sqrt(len(loss))
    best = int(gain.argmax())
    clear = max(_CLEAR_ERRORS * error[best], _CLEAR_SHARE * loss.mean())
    return best if gain[best] > clear else None


def _best(gains: np.ndarray, price: Sequence[float], least: float | None) -> int | None:
    """The column with the largest gain, of `gains` (i, rows), for its price; free columns first.

    None if no column gains `least`.
    """
    gain = gains.mean(axis=1)
    if least is not None and (gain < least).all():
        return None
    allowed = np.flatnonzero(gain >= (-np.inf if least is None else least)).tolist()

    def merit(i: int) -> tuple[bool, float, float]:
        ratio = float(gain[i])
        if price[i] != 0:
            ratio = ratio / price[i] if ratio > 0 else ratio * price[i]
        return price[i] == 0 and gain[i] > 0, ratio, float(gain[i])

    return max(allowed, key=merit)


def _losses(
    splits: Sequence[Split],
    candidates: Sequence[_Candidate],
    prior: np.ndarray,
    seeds: Sequence[int],
) -> F64:
    """The log losses (i, 2, rows) of candidates on the validation rows; `prior` (K,).

    The first is that of the probabilities, the second that of these to the best of `_POWERS`, as
    calibration will raise them.
    """
    pieces = (
        delayed(_validate)(*split, candidate, prior, seeds)
        for split in splits
        for candidate in candidates
    )
    losses = Parallel(prefer="threads")(pieces)
    count = len(candidates)
    return np.array([np.concatenate(losses[i::count], axis=1) for i in range(count)])


def _validate(
    X: F32,
    codes: np.ndarray,
    weights: np.ndarray,
    use: np.ndarray,
    candidate: _Candidate,
    prior: np.ndarray,
    seeds: Sequence[int],
) -> F64:
    """The two log losses (2, rows) of a candidate on the validation rows of a split."""
    forest, _ = _grow(X, codes, weights, use, candidate, len(prior), seeds)
    rows = X[use == _VALIDATION][:, candidate.columns]
    T = len(seeds)
    P = (T * forest.shares(rows, np.ones(len(rows), dtype=np.int32)) + prior / 2) / (
        T + 0.5
    )
    losses = [_loss(P, codes, weights, use)]
    for power in _POWERS:
        raised = P**power
        losses.append(
            _loss(raised / raised.sum(axis=1, keepdims=True), codes, weights, use)
        )
    return np.stack((losses[0], min(losses, key=np.mean)))


def _grow(
    X: F32,
    codes: np.ndarray,
    weights: np.ndarray,
    use: np.ndarray,
    candidate: _Candidate,
    K: int,
    seeds: Sequence[int],
) -> tuple[Nodes, F64]:
    """A candidate on the training rows of a split, and the importance of its columns."""
    rows = use == _TRAINING
    x = np.ascontiguousarray(X[rows][:, candidate.columns].T)
    return grow(x, codes[rows], weights[rows], K, candidate.rule, seeds)


def _loss(
    P: np.ndarray, codes: np.ndarray, weights: np.ndarray, use: np.ndarray
) -> F64:
    """Weighted log losses of P (n', K), or (1, K) for all, on the n' validation rows."""
    rows = use == _VALIDATION
    truth = codes[rows]
    if not len(truth):  # every class has one row: nothing can be held out
        return np.zeros(1)
    p = P[np.arange(len(truth)) if len(P) > 1 else 0, truth]
    return -np.log(p) * weights[rows] / weights[rows].mean()


def _uses(codes: np.ndarray, seed: int, blocks: Blocks | None) -> list[np.ndarray]:
    """The uses (n,) of rows: two samples of a large table, or the folds of a small one.

    The only row of a class is in no fold: it is used for training.
    """
    large = len(codes) >= 2 * _SAMPLE
    if large:
        fold = stratified_folds(codes, len(codes) // _SAMPLE, seed, blocks)
        if blocks is not None:
            # The latest sample validates.
            fold = np.where(fold == 0, 1, np.where(fold == 1, 0, fold))
        return [np.where(fold < 2, fold, -1).astype(np.int8)]
    folds = min(_FOLDS, max(2, int(np.bincount(codes).min())))
    fold = stratified_folds(codes, folds, seed, blocks)
    return [
        np.where(fold == k, _VALIDATION, _TRAINING).astype(np.int8)
        for k in range(folds)
    ]
