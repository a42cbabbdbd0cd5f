"""How a chain of forests is grown, and calibrated on rows that its forests did not see."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from payoff.acquisition.chain import (
    Chain,
    ChainExperience,
    Lacking,
    Reduced,
    lacking,
    mean_loss,
)
from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import Orders
from payoff.acquisition.learning import fit_stages
from payoff.acquisition.nodes import Nodes, beside
from payoff.acquisition.stopping import Blend
from payoff.arrays import F32
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.learners.compiled.chain_order import ROUGH, rank_categories
from payoff.learners.rows import ALL
from payoff.learners.stepwise import (
    MAX_ROWS_OF_EXPERIENCE,
    drawn_by_weight,
    folds_with_all_classes,
    room_for,
    stratified_sample,
)
from payoff.progress import report

if TYPE_CHECKING:
    from payoff.learners.forest_chain import ForestChain

_FOLDS = 5
# forests that are blended: that of a state and that of the state before it
_BLENDED = 2
# the share of the trees in forests that predict rows which they did not see
_UNSEEN_SHARE = 0.5
# The share of the trees in forests that lack a feature, of a large and of a small table.
_REDUCED_SHARE = 0.25
_REDUCED_SHARE_OF_SMALL = 0.5
_SMALL = 5000  # the maximum number of rows of a small table
# rows that calibrate the forests which lack a feature, or a few more
_CALIBRATING = 5000
_CELLS = 4_000_000  # cells of the table, times trees, in a piece of work: about 0.2 s


class _Rows(NamedTuple):
    """Columns in the order (S, n), class codes, weights, folds (n,), and orders of categories."""

    X: F32
    codes: np.ndarray
    weights: np.ndarray
    fold: np.ndarray
    orders: Orders


class _Forest(NamedTuple):
    """A forest of a chain without a fold; `reads` None is all columns, with random gaps."""

    without: int
    reads: Lacking | None
    rule: Rule
    K: int


class _Unseen(NamedTuple):
    """Predictions of n rows by a chain that did not see them, and their truth.

    Probabilities `P` (n, S + 1, K) in each state and `masked` (n, K) with random gaps, where
    `known` (n,) features are known; marks `missing` (n, S); class `codes` and `weights` (n,). The
    rows `calibrating` (n,) have the predictions `reduced` (n', F, K) of the reduced forests.
    """

    P: np.ndarray
    masked: np.ndarray
    known: np.ndarray
    missing: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    calibrating: np.ndarray
    reduced: np.ndarray


def refit(
    learner: ForestChain,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    before: Chain,
) -> Chain:
    """The chain `before` with forests of other rows; the calibration stays."""
    rows = _rows(learner, X, codes, weights, np.full(len(X), UNJUDGED), ALL)
    lacking = before.reduced.lacking if before.reduced else []
    ((_, grown),) = _chains(learner, {ALL: rows}, lacking)
    reduced = None
    if before.reduced and grown.reduced:
        reduced = replace(before.reduced, forests=grown.reduced.forests)
    return replace(
        grown, blends=before.blends, masked_curve=before.masked_curve, reduced=reduced
    )


def fit(
    learner: ForestChain, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> tuple[Chain, ChainExperience | None]:
    """The chain on all rows, calibrated, and the experience that decides when to stop."""
    smallest = int(np.bincount(codes).min())
    K = len(learner.classes_)
    S = len(learner.order_)
    room = room_for(S, K)
    folds = min(_FOLDS, smallest) if room >= K and smallest > 1 else 0
    fold = (
        stratified_folds(codes, folds, learner.seed_, learner.blocks)
        if folds
        else np.full(len(X), UNJUDGED)
    )
    needed = folds_with_all_classes(
        codes, fold, math.ceil(MAX_ROWS_OF_EXPERIENCE * folds / len(X))
    )
    rows = {
        k: _rows(learner, X, codes, weights, fold, k) for k in (*range(needed), ALL)
    }
    parts: list[_Unseen] = []
    for k, chain in _chains(learner, rows, lacking(S, _gaps(rows[ALL].X))):
        if k != ALL:
            parts.append(_unseen(chain, rows[k], k, learner.seed_ + k))
        else:
            final = chain
    complete = len(np.unique(codes[(fold >= 0) & (fold < needed)])) == K
    return _calibrate(learner, final, parts, room) if complete else (final, None)


def _calibrate(
    learner: ForestChain, chain: Chain, parts: Sequence[_Unseen], room: int
) -> tuple[Chain, ChainExperience]:
    """The chain with blends of its states and the curve of the masked forest, and experience.

    The parts together have all classes.
    """
    unseen = _Unseen(*map(np.concatenate, zip(*parts, strict=True)))
    P, y, w = unseen.P, unseen.codes, unseen.weights
    S = P.shape[1] - 1
    states = [
        [P[:, s - back] for back in range(min(max(s - ROUGH, 1), _BLENDED))]
        for s in range(1, S + 1)
    ]
    blends = [Blend.fit(blended, y, w) for blended in states]
    random = np.random.RandomState(learner.seed_)
    drawn = drawn_by_weight(np.arange(len(y)), y, w, random)
    sample = stratified_sample(drawn, y, room, random)
    equal = np.ones(len(sample))
    answers = [
        blend.apply([p[sample] for p in blended])
        for blend, blended in zip(blends, states, strict=True)
    ]
    calibrated = np.stack((P[sample, 0], *answers), axis=1)
    experience = ChainExperience.of(
        calibrated,
        y[sample],
        unseen.missing[sample],
        learner.order_,
        learner.n_features_in_,
    )
    curve = fit_stages(unseen.masked, unseen.known, y, w, float(S))
    reduced = None
    if chain.reduced:
        losses = [mean_loss(calibrated[:, s], y[sample], equal) for s in range(S + 1)]
        masked_loss = mean_loss(curve.apply(unseen.masked, unseen.known), y, w)
        rows = unseen.calibrating
        reduced = chain.reduced.calibrated(
            unseen.reduced, y[rows], w[rows], masked_loss, *losses
        )
    return replace(
        chain, blends=blends, masked_curve=curve, reduced=reduced
    ), experience


def _rows(
    learner: ForestChain,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    without: int,
) -> _Rows:
    inside = np.flatnonzero(fold != without)
    K = len(learner.classes_)
    orders, columns = rank_categories(
        X, codes, weights, inside, K, learner.categorical()
    )
    return _Rows(
        np.ascontiguousarray(columns[:, learner.order_].T), codes, weights, fold, orders
    )


def _chains(
    learner: ForestChain, rows: dict[int, _Rows], lacking: Sequence[Lacking]
) -> Iterator[tuple[int, Chain]]:
    """The chain without each of the folds, not calibrated.

    Its forests are the masked one, those of the states, and those `lacking` features. A piece of
    work is some trees of one forest.
    """
    S = len(learner.order_)
    K = len(learner.classes_)
    T = learner.n_estimators
    n = len(rows[ALL].codes)
    reading = [(S, ()), *((s, ()) for s in range(1, S + 1)), *lacking]
    rules = [learner.rules_[length - len(lost) - 1] for length, lost in reading]
    share = _REDUCED_SHARE_OF_SMALL if n <= _SMALL else _REDUCED_SHARE
    random = np.random.default_rng(learner.seed_)
    seeds = [
        *random.integers(2**62, size=(S + 1, T)),
        *random.integers(2**62, size=(len(lacking), math.ceil(share * T))),
    ]
    unseen = [trees[: math.ceil(_UNSEEN_SHARE * len(trees))] for trees in seeds]
    cells = [n * length for length, _ in reading]
    work = {k: _work(seeds if k == ALL else unseen, cells) for k in rows}
    pieces = (
        delayed(_grow_trees)(
            *rows[k][:4], _Forest(k, reading[f] if f else None, rules[f], K), batch
        )
        for k in rows
        for f, batch in work[k]
    )
    grown = Parallel(prefer="threads", return_as="generator")(pieces)
    total = sum(map(len, work.values()))
    done = 0
    for number, (k, data) in enumerate(rows.items()):
        trees: list[list[Nodes]] = [[] for _ in reading]
        for (f, _), nodes in zip(work[k], islice(grown, len(work[k])), strict=True):
            trees[f].append(nodes)
            done += 1
            report(done / total, _stage(number, len(rows)))
        inside = data.fold != k
        sums = np.bincount(data.codes[inside], data.weights[inside], minlength=K)
        prior = sums / data.weights[inside].sum()
        masked, forests, lacking_forests = (
            beside([nodes for batches in part for nodes in batches], prior)
            for part in (trees[:1], trees[1 : S + 1], trees[S + 1 :])
        )
        chain = Chain(
            np.array(learner.order_, dtype=np.intp),
            learner.n_features_in_,
            forests,
            [],
            _gaps(data.X[:, inside]),
            masked,
            None,
            data.orders,
            Reduced.of(S, lacking, lacking_forests) if lacking else None,
        )
        yield k, chain


def _gaps(X: F32) -> np.ndarray:
    """Whether a column of X (S, n) has enough missing values for a forest to learn from them."""
    return np.isnan(X).sum(axis=1) >= max(10, 0.01 * X.shape[1])


def _work(
    seeds: Sequence[np.ndarray], cells: Sequence[int]
) -> list[tuple[int, list[int]]]:
    """Pieces of work: the number of a forest, and a batch of its seeds.

    `seeds` are those of the trees of each forest, `cells` the table's cells that a tree reads.
    """
    work = []
    for f in (*range(1, len(seeds)), 0):
        size = len(seeds[f])
        batch = int(np.clip(_CELLS // cells[f], 1, size))
        work += [
            (f, seeds[f][start : start + batch].tolist())
            for start in range(0, size, batch)
        ]
    return work


def _stage(number: int, total: int) -> str:
    if number == total - 1:
        return "growing the forests"
    return f"learning when to stop, {number + 1} of {total - 1}"


def _grow_trees(
    X: F32,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    forest: _Forest,
    seeds: Sequence[int],
) -> Nodes:
    """Trees of a forest, one for each seed, on the columns X (S, n) of all rows."""
    K, rule = forest.K, forest.rule
    inside = fold != forest.without
    y, w = codes[inside], weights[inside]
    length, lost = forest.reads or (len(X), ())
    rows = np.ascontiguousarray(X[:length, inside])
    rows[list(lost)] = np.nan  # a column without values is never split on
    if forest.reads is not None:
        return grow(rows, y, w, K, rule, seeds)[0]
    gappy = [grow(with_gaps(rows, seed)[0], y, w, K, rule, [seed])[0] for seed in seeds]
    return beside(gappy, gappy[0].prior)


def with_gaps(X: F32, seed: int) -> tuple[F32, np.ndarray]:
    """X (S, n) with random gaps, and the state (n,) of each row.

    A row is cut after a random number of columns, its state, and has none, one or two more gaps on
    average.
    """
    random = np.random.default_rng(seed)
    S, n = X.shape
    state = random.integers(1, S + 1, size=n)
    gap = random.random((S, n)) < random.integers(0, 3, size=n) / state
    return np.where(
        gap | (np.arange(S)[:, None] >= state), np.float32(np.nan), X
    ), state


def _unseen(chain: Chain, rows: _Rows, fold: int, seed: int) -> _Unseen:
    """Predictions of the rows of a fold by the chain without it."""
    outside = rows.fold == fold
    X = np.ascontiguousarray(rows.X[:, outside].T)
    n, S = X.shape
    P = np.stack(
        [chain.answers(X, np.full(n, s, dtype=np.int32)) for s in range(S + 1)], axis=1
    )
    gappy = np.ascontiguousarray(with_gaps(X.T, seed)[0].T)
    masked = chain.masked.shares(gappy, np.ones(n, dtype=np.int32))
    known = (~np.isnan(gappy)).sum(axis=1)
    calibrating = np.arange(n) % math.ceil(n / _CALIBRATING) == 0
    reduced = P[calibrating, :0]
    if chain.reduced is not None:
        forests = range(len(chain.reduced.lacking))
        shares = [chain.reduced.shares(X[calibrating], f) for f in forests]
        reduced = np.stack(shares, axis=1)
    codes, weights = rows.codes[outside], rows.weights[outside]
    return _Unseen(P, masked, known, np.isnan(X), codes, weights, calibrating, reduced)
