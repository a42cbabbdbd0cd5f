"""A chain of forests on nested sets of features, which learns when another feature is not worth its price."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed

from app.acquisition.categories import Orders
from app.acquisition.chain import Chain, Lacking, Reduced, lacking, mean_loss
from app.acquisition.extra_trees import ExtraTrees, Rule, grow
from app.acquisition.partial_calibration import Blend, StageCurve
from app.acquisition.prices import Prices
from app.acquisition.stopping import ChainExperience
from app.arrays import F32
from app.decisions.folds import stratified_folds
from app.errors import Invalid, pointer
from app.learners._chain_order import Search, find_order, ranked
from app.learners.base import ALL, Learner
from app.learners.compiled_kinds import FOREST_CHAIN
from app.learners.stepwise import drawn, prices_of
from app.progress import part, report

_FOLDS = 5
_ENOUGH = 2000  # rows of experience, and at least as many are held out
_LARGEST = 5_000_000  # probabilities kept
_EQUAL, _PRICED = (22, 10), (1000, 1000)  # steps and greedy: with equal prices, and with others
_LEAST = 1e-3
_BLENDED = 2  # forests: of a state and of the one before it
_UNSEEN = 0.5  # of the trees are in forests that judge rows which they did not see
_REDUCED, _FEW = (0.25, 0.5), 5000  # of the trees are in forests that lack a feature; the other: up to so many rows
_JUDGED = 5000  # rows that calibrate these, or a few more
_CELLS = 4_000_000  # of the table, times trees, in a piece of work: 0.2 s or so
_ROUGH = 2  # forests of few features, which no other is blended with
_CAREFUL = 5  # rows in their leaves, and in those of a small table
_SMALL, _LARGE = 1000, 20_000  # rows: a small table; above the other, more rows in a leaf and no more nodes
_LEAVES, _TRIES = (3, 5), (3, 10)  # of other rules: rows in a leaf, and thresholds for each feature at a split
_LARGEST_NUMBER = float(np.finfo(np.float32).max)


class _Rows(NamedTuple):
    """Columns of the order (S, n), class codes, weights and folds (n,), and how categories are ranked."""

    X: F32
    codes: np.ndarray
    weights: np.ndarray
    fold: np.ndarray
    orders: Orders


class ForestChain(Learner):
    """Forests of extremely randomised trees (Geurts 2006) on the first 1, 2, … features of one order.

    Every forest is trained on all rows, so that a case which stops early gets the answer of a whole forest. The order
    is found by a greedy search: the feature that lowers the held-out log loss most for its price comes next, up to
    `greedy` features, while it does so by `least`; if prices are equal, the next important ones follow, up to `steps`.
    None: 10 and 22 features and no `least` for equal prices; the 20 most important ones, free ones beside, and 0.001
    for others. `n_estimators` trees a forest. `min_samples_leaf` (None: 5 in the first two forests, then 1; 5 in all
    with fewer than 1,000 rows; more above 20,000, unless 3 or 5 do clearly better on held-out rows). A split is the
    best of one random threshold for each feature, or of 3 or 10 where that does clearly better. `feature_costs`:
    Prices, or one price >= 0 for each column, or None for 1 each. The other parameters are `Learner`'s.

    Each state is calibrated, blended with the one before it, on rows that its forests did not see; up to 2,000 of
    these rows are the experience that says when to stop. Fitted, besides `Learner`'s: `model_` (Chain), `experience_`
    (or None), `order_`, `rules_` (how each forest is grown), `prices_`.
    O(steps trees rows features depth).
    """

    parameters = FOREST_CHAIN.parameters
    calibration: str = "none"
    experience_: ChainExperience | None
    order_: list[int]
    model_: Chain

    def __init__(
        self,
        *,
        steps: int | None = None,
        greedy: int | None = None,
        least: float | None = None,
        n_estimators: int = 40,
        min_samples_leaf: int | None = None,
        feature_costs: Prices | Sequence[float] | None = None,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.steps = steps
        self.greedy = greedy
        self.least = least
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.feature_costs = feature_costs
        self.categorical_features = categorical_features
        self.random_state = random_state

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Grow the forests again on rows (n, m), y (n,); order, calibration and experience stay."""
        codes = np.searchsorted(self.classes_, y)
        before = self.model_
        rows = self._rows(np.asarray(X), codes, np.ones(len(X)), np.full(len(X), ALL))
        ((_, grown),) = self._chains({ALL: rows}, before.reduced.lacking if before.reduced else [])
        reduced = before.reduced and grown.reduced and replace(before.reduced, forests=grown.reduced.forests)
        self.model_ = replace(grown, blends=before.blends, masked_curve=before.masked_curve, reduced=reduced)
        return self

    def findings(self) -> dict[str, Any]:
        """How it is calibrated."""
        return {"calibration": "sigmoid" if self.model_.blends else "none"}

    def staircase(self, B: np.ndarray | None = None) -> list[dict[str, Any]]:
        """A step for each state 0 … S: the column that it `asks` for (None at the end), its price and what is `spent`
        before, the `error` on unseen rows and, with benefits B (K, A), the share of them that `stops` there. The last
        two are None without experience.
        """
        prices, known = [*self.prices_.paid(self.order_), None], self.experience_
        spent = np.cumsum([0.0, *prices[:-1]]).tolist()
        nothing = [None] * len(spent)
        errors = known.error_by_state().tolist() if known else nothing
        stops = known.stopping(B, self.prices_).tolist() if known and B is not None else nothing
        columns = zip([*self.order_, None], prices, spent, errors, stops, strict=True)
        return [dict(zip(("asks", "price", "spent", "error", "stops"), step, strict=True)) for step in columns]

    def _check(self) -> None:
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Chain:
        from sklearn.utils import check_random_state  # noqa: PLC0415 - see `estimator`

        for j in np.flatnonzero(np.nanmax(np.abs(X), axis=0, initial=0.0) > _LARGEST_NUMBER):
            message = f"numbers must be at most {_LARGEST_NUMBER:.3g} in magnitude; use a larger unit"
            raise Invalid.at(pointer("columns", j), message)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        with part(0.0, 0.35, "choosing the order of features"):
            self.order_, self.rules_ = find_order(
                X, codes, weights, self.prices_, self._categorical(), self._search(len(X))
            )
        with part(0.35, 1.0):
            return self._learned(X, codes, weights)

    def _search(self, n: int) -> Search:
        m = self.n_features_in_
        equal = bool(np.ptp(self.prices_.cost) == 0 and (self.prices_.cost == self.prices_.discounted).all())
        steps, greedy = _EQUAL if equal else _PRICED
        steps = min(steps if self.steps is None else self.steps, m)
        greedy = min(greedy if self.greedy is None else self.greedy, steps)
        least = _LEAST if self.least is None and not equal else self.least
        usual = [Rule(self._leaf(s, n)) for s in range(1, steps + 1)]
        leaves = _LEAVES if self.min_samples_leaf is None else [self.min_samples_leaf]
        others = [Rule(max(leaf, math.ceil(n / _LARGE)), tries) for tries in _TRIES for leaf in leaves]
        return Search(steps, greedy, least, usual, others, self._seed)

    def _leaf(self, state: int, n: int) -> int:
        """Rows in a leaf of a state's forest, by default, for a table of n rows."""
        if self.min_samples_leaf is not None:
            return self.min_samples_leaf
        usual = _CAREFUL if n < _SMALL else math.ceil(n / _LARGE)
        return max(_CAREFUL, usual) if state <= _ROUGH else usual

    def _learned(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Chain:
        """The chain on all rows, calibrated; sets the experience."""
        smallest, K, S = int(np.bincount(codes).min()), len(self.classes_), len(self.order_)
        room = min(_ENOUGH, _LARGEST // ((S + 1) * K))
        self.experience_ = None
        folds = min(_FOLDS, smallest) if room >= K else 0
        fold = stratified_folds(codes, folds, self._seed) if folds > 1 else np.full(len(X), ALL)
        needed = range(min(folds, math.ceil(_ENOUGH * folds / len(X)))) if folds > 1 else range(0)
        rows = {k: self._rows(X, codes, weights, fold, k) for k in (*needed, ALL)}
        found: list[tuple[np.ndarray, ...]] = []
        for k, chain in self._chains(rows, lacking(len(self.order_), _gaps(rows[ALL].X))):
            if k != ALL:
                found.append(_unseen(chain, rows[k], k, self._seed + k))
            else:
                model = self._calibrated(chain, found, room) if found else chain
        return model

    def _calibrated(self, chain: Chain, found: Sequence[tuple[np.ndarray, ...]], room: int) -> Chain:
        """With blends of the states and the curve of the masked forest; sets the experience if every class is in it."""
        P, masked, known, missing, y, w, judged, others = map(np.concatenate, zip(*found, strict=True))
        if len(np.unique(y)) < len(self.classes_):
            return chain
        S = P.shape[1] - 1
        parts = [[P[:, s - back] for back in range(min(max(s - _ROUGH, 1), _BLENDED))] for s in range(1, S + 1)]
        blends = [Blend.fit(part, y, w) for part in parts]
        some = drawn(np.arange(len(y)), y, room, np.random.RandomState(self._seed))
        answers = [blend.apply([P[some] for P in part]) for blend, part in zip(blends, parts, strict=True)]
        kept = np.stack((P[some, 0], *answers), axis=1)
        self.experience_ = ChainExperience.of(kept, y[some], missing[some], self.order_, self.n_features_in_)
        curve = StageCurve.fit(masked, known, y, w, float(S))
        losses = [mean_loss(kept[:, s], y[some], w[some]) for s in range(S + 1)]
        masked_loss = mean_loss(curve.apply(masked, known), y, w)
        reduced = chain.reduced and chain.reduced.calibrated(others, y[judged], w[judged], masked_loss, *losses)
        return replace(chain, blends=blends, masked_curve=curve, reduced=reduced)

    def _rows(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, without: int = ALL
    ) -> _Rows:
        inside = np.flatnonzero(fold != without) if without != ALL else np.arange(len(X))
        orders, whole = ranked(X, codes, weights, inside, len(self.classes_), self._categorical())
        return _Rows(np.ascontiguousarray(whole[:, self.order_].T), codes, weights, fold, orders)

    def _chains(self, rows: dict[int, _Rows], lacking: Sequence[Lacking]) -> Iterator[tuple[int, Chain]]:
        """The chain without each of the folds, not calibrated; a piece of work is some trees of one of its forests."""
        S, K, n, T = len(self.order_), len(self.classes_), len(rows[ALL].codes), self.n_estimators
        reading = [(S, ()), *((s, ()) for s in range(1, S + 1)), *lacking]
        rules = [self.rules_[length - len(lost) - 1] for length, lost in reading]
        random, fewer = np.random.default_rng(self._seed), math.ceil(_REDUCED[n <= _FEW] * T)
        seeds = [*random.integers(2**62, size=(S + 1, T)), *random.integers(2**62, size=(len(lacking), fewer))]
        work = {k: _work([some[: len(some) if k == ALL else math.ceil(_UNSEEN * len(some))] for some in seeds],
                         [n * length for length, _ in reading]) for k in rows}  # fmt: skip
        pieces = (
            delayed(_grow_some)(*rows[k][:4], k, reading[one] if one else None, K, rules[one], some)
            for k in rows
            for one, some in work[k]
        )
        grown, total, done = Parallel(prefer="threads", return_as="generator")(pieces), sum(map(len, work.values())), 0
        for number, (k, data) in enumerate(rows.items()):
            trees: list[list[ExtraTrees]] = [[] for _ in reading]
            for (one, _), forest in zip(work[k], islice(grown, len(work[k])), strict=True):
                trees[one].append(forest)
                done += 1
                report(done / total, _stage(number, len(rows)))
            masked, others = ExtraTrees.beside(trees[0], 1, K), [one for some in trees[S + 1 :] for one in some]
            forests = ExtraTrees.beside([one for some in trees[1 : S + 1] for one in some], S, K)
            inside = data.fold != k if k != ALL else np.ones(n, dtype=bool)
            prior = np.bincount(data.codes[inside], data.weights[inside], minlength=K) / data.weights[inside].sum()
            order, m, gaps = np.array(self.order_, dtype=np.intp), self.n_features_in_, _gaps(data.X[:, inside])
            reduced = Reduced.of(S, lacking, ExtraTrees.beside(others, len(lacking), K), prior) if lacking else None
            yield k, Chain(order, m, prior, forests, [], gaps, masked, None, data.orders, reduced)


def _gaps(X: F32) -> np.ndarray:
    """Which columns of X (S, n) have so many missing values that a forest learns what these mean."""
    gaps: np.ndarray = np.isnan(X).sum(axis=1) >= max(10, 0.01 * X.shape[1])
    return gaps


def _work(seeds: Sequence[np.ndarray], cells: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Pieces of work for forests with these `seeds`, each tree of so many `cells`: the forest and some of its seeds."""
    found = []
    for one in (*range(1, len(seeds)), 0):
        batch = int(np.clip(_CELLS // cells[one], 1, len(seeds[one])))
        found += [(one, seeds[one][start : start + batch].tolist()) for start in range(0, len(seeds[one]), batch)]
    return found


def _stage(number: int, total: int) -> str:
    return "growing the forests" if number == total - 1 else f"learning when to stop, {number + 1} of {total - 1}"


def _grow_some(
    X: F32, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, without: int, reads: Lacking | None, K: int,
    rule: Rule, seeds: Sequence[int],
) -> ExtraTrees:  # fmt: skip
    """Trees of the columns of X (S, n) that it `reads`, without a fold; None: of all columns, with random gaps."""
    inside = fold != without if without != ALL else np.ones(len(codes), dtype=bool)
    length, lost = (len(X), ()) if reads is None else reads
    rows, y, w = np.ascontiguousarray(X[:length, inside]), codes[inside], weights[inside]
    rows[list(lost)] = np.nan  # what never has a value is never split on
    if reads is not None:
        return grow(rows, y, w, K, rule, seeds)[0]
    gappy = (grow(with_gaps(rows, seed)[0], y, w, K, rule, [seed])[0] for seed in seeds)
    return ExtraTrees.beside(list(gappy), 1, K)


def with_gaps(X: F32, seed: int) -> tuple[F32, np.ndarray]:
    """X (S, n) cut after a random number of columns in each row, and with none, one or two gaps more on average; and
    these numbers (n,).
    """
    random = np.random.default_rng(seed)
    S, n = X.shape
    state = random.integers(1, S + 1, size=n)
    gap = random.random((S, n)) < random.integers(0, 3, size=n) / state
    return np.where(gap | (np.arange(S)[:, None] >= state), np.float32(np.nan), X), state


def _unseen(chain: Chain, rows: _Rows, fold: int, seed: int) -> tuple[np.ndarray, ...]:
    """Of the rows of a fold: probabilities (n, S + 1, K) in each state, those with random gaps (n, K) and how many
    features are known there (n,), missing marks (n, S), class codes and weights; which rows judge the reduced forests,
    and what these say there (n', F, K).
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
        others = np.stack([reduced.shares(X[judged], k) for k in range(len(reduced.lacking))], axis=1)
    return P, masked, known, np.isnan(X), rows.codes[outside], rows.weights[outside], judged, others
