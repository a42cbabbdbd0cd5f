"""How a chain of forests is grown, and calibrated on rows that its forests did not see."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from payoff.acquisition.chain import Chain, ChainExperience, Lacking, Reduced, lacking, mean_loss
from payoff.acquisition.extra_trees import Rule, grow
from payoff.acquisition.forest import Orders
from payoff.acquisition.learning import fit_stages
from payoff.acquisition.nodes import Nodes, beside
from payoff.acquisition.stopping import Blend
from payoff.arrays import F32
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.learners.base import ALL
from payoff.learners.compiled.chain_order import ROUGH, ranked
from payoff.learners.stepwise import ENOUGH, drawn, room_for
from payoff.progress import report

if TYPE_CHECKING:
    from payoff.learners.forest_chain import ForestChain

_FOLDS = 5
_BLENDED = 2  # forests: of a state and of the one before it
_UNSEEN = 0.5  # of the trees are in forests that judge rows which they did not see
_REDUCED, _FEW = (
    (0.25, 0.5),
    5000,
)  # of the trees are in forests that lack a feature; the other: up to so many rows
_JUDGED = 5000  # rows that calibrate these, or a few more
_CELLS = 4_000_000  # of the table, times trees, in a piece of work: 0.2 s or so


class _Rows(NamedTuple):
    """Columns of the order (S, n), class codes, weights and folds (n,), and how categories are
    ranked.
    """

    X: F32
    codes: np.ndarray
    weights: np.ndarray
    fold: np.ndarray
    orders: Orders


def again(learner: ForestChain, X: np.ndarray, codes: np.ndarray, before: Chain) -> Chain:
    """The chain `before` with forests of other rows; the calibration stays."""
    rows = _rows(learner, X, codes, np.ones(len(X)), np.full(len(X), UNJUDGED), ALL)
    ((_, grown),) = _chains(learner, {ALL: rows}, before.reduced.lacking if before.reduced else [])
    reduced = (
        before.reduced and grown.reduced and replace(before.reduced, forests=grown.reduced.forests)
    )
    return replace(grown, blends=before.blends, masked_curve=before.masked_curve, reduced=reduced)


def learned(
    learner: ForestChain, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> tuple[Chain, ChainExperience | None]:
    """The chain on all rows, calibrated, and the experience that says when to stop."""
    smallest, K, S = int(np.bincount(codes).min()), len(learner.classes_), len(learner.order_)
    room = room_for(S, K)
    folds = min(_FOLDS, smallest) if room >= K and smallest > 1 else 0
    fold = stratified_folds(codes, folds, learner.seed_) if folds else np.full(len(X), UNJUDGED)
    needed = range(min(folds, math.ceil(ENOUGH * folds / len(X))))
    rows = {k: _rows(learner, X, codes, weights, fold, k) for k in (*needed, ALL)}
    found: list[tuple[np.ndarray, ...]] = []
    for k, chain in _chains(learner, rows, lacking(len(learner.order_), _gaps(rows[ALL].X))):
        if k != ALL:
            found.append(_unseen(chain, rows[k], k, learner.seed_ + k))
        else:
            whole = chain
    return _calibrated(learner, whole, found, room) if found else (whole, None)


def _calibrated(
    learner: ForestChain, chain: Chain, found: Sequence[tuple[np.ndarray, ...]], room: int
) -> tuple[Chain, ChainExperience]:
    """With blends of the states and the curve of the masked forest, and experience; every fold has
    all classes.
    """
    P, masked, known, missing, y, w, judged, others = map(np.concatenate, zip(*found, strict=True))
    S = P.shape[1] - 1
    parts = [
        [P[:, s - back] for back in range(min(max(s - ROUGH, 1), _BLENDED))]
        for s in range(1, S + 1)
    ]
    blends = [Blend.fit(part, y, w) for part in parts]
    some = drawn(np.arange(len(y)), y, room, np.random.RandomState(learner.seed_))
    answers = [
        blend.apply([P[some] for P in part]) for blend, part in zip(blends, parts, strict=True)
    ]
    kept = np.stack((P[some, 0], *answers), axis=1)
    experience = ChainExperience.of(
        kept, y[some], missing[some], learner.order_, learner.n_features_in_
    )
    curve = fit_stages(masked, known, y, w, float(S))
    losses = [mean_loss(kept[:, s], y[some], w[some]) for s in range(S + 1)]
    masked_loss = mean_loss(curve.apply(masked, known), y, w)
    reduced = chain.reduced and chain.reduced.calibrated(
        others, y[judged], w[judged], masked_loss, *losses
    )
    return replace(chain, blends=blends, masked_curve=curve, reduced=reduced), experience


def _rows(
    learner: ForestChain,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    without: int,
) -> _Rows:
    inside = np.flatnonzero(fold != without)
    orders, whole = ranked(X, codes, weights, inside, len(learner.classes_), learner.categorical())
    return _Rows(np.ascontiguousarray(whole[:, learner.order_].T), codes, weights, fold, orders)


def _chains(
    learner: ForestChain, rows: dict[int, _Rows], lacking: Sequence[Lacking]
) -> Iterator[tuple[int, Chain]]:
    """The chain without each of the folds, not calibrated; a piece of work is some trees of one of
    its forests.
    """
    S, K, n, T = (
        len(learner.order_),
        len(learner.classes_),
        len(rows[ALL].codes),
        learner.n_estimators,
    )
    reading = [(S, ()), *((s, ()) for s in range(1, S + 1)), *lacking]
    rules = [learner.rules_[length - len(lost) - 1] for length, lost in reading]
    random, fewer = np.random.default_rng(learner.seed_), math.ceil(_REDUCED[n <= _FEW] * T)
    seeds = [
        *random.integers(2**62, size=(S + 1, T)),
        *random.integers(2**62, size=(len(lacking), fewer)),
    ]
    work = {k: _work([some[: len(some) if k == ALL else math.ceil(_UNSEEN * len(some))] for some in seeds],
                     [n * length for length, _ in reading]) for k in rows}  # fmt: skip
    pieces = (
        delayed(_grow_some)(*rows[k][:4], k, reading[one] if one else None, K, rules[one], some)
        for k in rows
        for one, some in work[k]
    )
    grown, total, done = (
        Parallel(prefer="threads", return_as="generator")(pieces),
        sum(map(len, work.values())),
        0,
    )
    for number, (k, data) in enumerate(rows.items()):
        trees: list[list[Nodes]] = [[] for _ in reading]
        for (one, _), forest in zip(work[k], islice(grown, len(work[k])), strict=True):
            trees[one].append(forest)
            done += 1
            report(done / total, _stage(number, len(rows)))
        inside = data.fold != k
        prior = (
            np.bincount(data.codes[inside], data.weights[inside], minlength=K)
            / data.weights[inside].sum()
        )
        masked, forests, others = (
            beside([one for some in part for one in some], prior)
            for part in (trees[:1], trees[1 : S + 1], trees[S + 1 :])
        )
        reduced = Reduced.of(S, lacking, others) if lacking else None
        order, gaps = np.array(learner.order_, dtype=np.intp), _gaps(data.X[:, inside])
        yield (
            k,
            Chain(
                order, learner.n_features_in_, forests, [], gaps, masked, None, data.orders, reduced
            ),
        )


def _gaps(X: F32) -> np.ndarray:
    """Which columns of X (S, n) have so many missing values that a forest learns what these mean."""
    return np.isnan(X).sum(axis=1) >= max(10, 0.01 * X.shape[1])


def _work(seeds: Sequence[np.ndarray], cells: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Pieces of work for forests with these `seeds`, each tree of so many `cells`: the forest and
    some of its seeds.
    """
    found = []
    for one in (*range(1, len(seeds)), 0):
        batch = int(np.clip(_CELLS // cells[one], 1, len(seeds[one])))
        found += [
            (one, seeds[one][start : start + batch].tolist())
            for start in range(0, len(seeds[one]), batch)
        ]
    return found


def _stage(number: int, total: int) -> str:
    return (
        "growing the forests"
        if number == total - 1
        else f"learning when to stop, {number + 1} of {total - 1}"
    )


def _grow_some(
    X: F32, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, without: int, reads: Lacking | None, K: int,
    rule: Rule, seeds: Sequence[int],
) -> Nodes:  # fmt: skip
    """Trees of the columns of X (S, n) that it `reads`, without a fold; None: of all columns, with
    random gaps.
    """
    inside = fold != without
    length, lost = (len(X), ()) if reads is None else reads
    rows, y, w = np.ascontiguousarray(X[:length, inside]), codes[inside], weights[inside]
    rows[list(lost)] = np.nan  # what never has a value is never split on
    if reads is not None:
        return grow(rows, y, w, K, rule, seeds)[0]
    gappy = [grow(with_gaps(rows, seed)[0], y, w, K, rule, [seed])[0] for seed in seeds]
    return beside(gappy, gappy[0].prior)


def with_gaps(X: F32, seed: int) -> tuple[F32, np.ndarray]:
    """X (S, n) cut after a random number of columns in each row, and with none, one or two gaps
    more on average; and these numbers (n,).
    """
    random = np.random.default_rng(seed)
    S, n = X.shape
    state = random.integers(1, S + 1, size=n)
    gap = random.random((S, n)) < random.integers(0, 3, size=n) / state
    return np.where(gap | (np.arange(S)[:, None] >= state), np.float32(np.nan), X), state


def _unseen(chain: Chain, rows: _Rows, fold: int, seed: int) -> tuple[np.ndarray, ...]:
    """Of the rows of a fold: probabilities (n, S + 1, K) in each state, those with random gaps (n,
    K) and how many features are known there (n,), missing marks (n, S), class codes and weights;
    which rows judge the reduced forests, and what these say there (n', F, K).
    """
    outside = rows.fold == fold
    X = np.ascontiguousarray(rows.X[:, outside].T)
    n, S = X.shape
    P = np.stack([chain.answers(X, np.full(n, s, dtype=np.int32)) for s in range(S + 1)], axis=1)
    gappy = np.ascontiguousarray(with_gaps(X.T, seed)[0].T)
    masked = chain.masked.shares(gappy, np.ones(n, dtype=np.int32))
    known = (~np.isnan(gappy)).sum(axis=1)
    judged = np.arange(n) % math.ceil(n / _JUDGED) == 0
    others = P[judged, :0]
    if (reduced := chain.reduced) is not None:
        others = np.stack(
            [reduced.shares(X[judged], k) for k in range(len(reduced.lacking))], axis=1
        )
    return P, masked, known, np.isnan(X), rows.codes[outside], rows.weights[outside], judged, others
