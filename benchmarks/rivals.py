"""What others do with the prices of features: boosted trees that pay lazily, and one set of features for every case.

A rival is a function of a Table: what it earns on the new rows with each of several benefit matrices, less the price
of the features; and, of LightGBM, its error on them at a mean share of the features, each at price 1. All probabilities
are calibrated, and all choices made, on training rows that the model did not see.

- `lightgbm`: boosted trees that pay for a feature where a row needs it first (`cegb_penalty_feature_lazy`). A case asks
  for what the next group of trees reads on its way, and stops by the recursion of the chain (least squares on the
  stake, from the last group to the first), with the prices of its own way. `cegb_tradeoff` is chosen by
  cross-validation.
- `l1_path`: logistic regressions with an L1 penalty of 12 strengths. Each asks for all features that it uses; the
  strength is chosen by cross-validation.
- `greedy_subset`: the feature that raises the out-of-bag net benefit of a forest most comes next; a forest on the best
  subset.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from app.acquisition.session import Prices
from app.acquisition.stopping import Blend, at_stake
from app.decisions.benefit import decide, row_benefits

STAGES = (1, 2, 4, 8, 16, 32, 64, 100)  # boosting rounds after which a case may stop
TRADE_OFFS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # in units of one nat for the mean price of a feature
SIZES = np.geomspace(3, 20_000, 40)  # worth of a right class, in features
SHARES = (0.05, 0.08, 0.12, 0.16, 0.25)
STRENGTHS = np.geomspace(0.003, 10, 12)
PATIENCE = 2  # features that may fail to pay before the greedy search ends
FOLDS = 5


class Journeys(NamedTuple):
    """Probabilities (n, S, K) in each state, and what has been paid there (n, S)."""

    P: np.ndarray
    paid: np.ndarray


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray
    prices: Prices


Matrices = list[np.ndarray]


def charged(prices: Prices, used: np.ndarray) -> np.ndarray:
    """What the features `used` (n, m) cost together (n,): of a group, the first is that with the least discount."""
    total = np.where(used, prices.discounted, 0.0).sum(axis=1)
    for group in range(len(prices.groups)):
        more = np.where(used & (prices.group == group), prices.cost - prices.discounted, np.inf).min(axis=1)
        total += np.where(np.isinf(more), 0.0, more)
    return total


def earned(P: np.ndarray, y: np.ndarray, B: np.ndarray) -> np.ndarray:
    return row_benefits(y, decide(np.ascontiguousarray(P), B).choice, B)


def unseen(X: np.ndarray, y: np.ndarray, answer: Callable[[np.ndarray, np.ndarray], Any]) -> tuple[np.ndarray, list]:
    """Rows, and what `answer` says fold by fold about them after it has seen the others: of a large table one third."""
    large = len(X) > 9000
    folds = list(StratifiedKFold(3 if large else FOLDS, shuffle=True, random_state=0).split(X, y))[
        : 1 if large else None
    ]
    return np.concatenate([outside for _, outside in folds]), [answer(inside, outside) for inside, outside in folds]


def boosted(X: np.ndarray, y: np.ndarray, prices: Prices, trade_off: float) -> Any:
    import lightgbm  # noqa: PLC0415 - a rival that this project does not need

    K, few = int(y.max()) + 1, len(X) < 1000
    settings: dict[str, Any] = {
        "objective": "multiclass" if K > 2 else "binary", "num_leaves": 15 if few else 63, "learning_rate": 0.1,
        "min_data_in_leaf": 5 if few else 20, "num_threads": 1, "verbose": -1, "seed": 0, "deterministic": True,
    }  # fmt: skip
    if K > 2:
        settings["num_class"] = K
    if trade_off:  # a penalty is for each row
        lazy = prices.cost / prices.cost.mean()
        settings |= {"cegb_tradeoff": trade_off, "cegb_penalty_feature_lazy": lazy.tolist()}
    return lightgbm.train(settings, lightgbm.Dataset(X, y), STAGES[-1])


def paths(tree: dict[str, Any], m: int) -> np.ndarray:
    """The features on the way to each leaf, (leaves, m)."""
    found = np.zeros((tree["num_leaves"], m), dtype=bool)

    def walk(node: dict[str, Any], seen: tuple[int, ...]) -> None:
        if "split_feature" in node:
            for side in ("left_child", "right_child"):
                walk(node[side], (*seen, node["split_feature"]))
        else:
            found[node.get("leaf_index", 0), list(seen)] = True

    walk(tree["tree_structure"], ())
    return found


def staged(model: Any, X: np.ndarray, y: np.ndarray, prices: Prices) -> Journeys:
    """What each row (n, m) is told after no tree and after each of the STAGES, where training had classes y."""
    K, n = int(y.max()) + 1, len(X)
    leaves = model.predict(X, pred_leaf=True).reshape(n, -1)
    trees, per_round = model.dump_model()["tree_info"], model.num_model_per_iteration()
    P, paid = [np.tile(np.bincount(y, minlength=K) / len(y), (n, 1))], [np.zeros(n)]
    used, done, missing = np.zeros(X.shape, dtype=bool), 0, np.isnan(X)
    for stage in STAGES:
        for number in range(done, min(stage * per_round, len(trees))):
            used |= paths(trees[number], X.shape[1])[leaves[:, number]]
        done = stage * per_round
        told = model.predict(X, num_iteration=stage)
        P.append(told if K > 2 else np.stack((1 - told, told), axis=1))
        paid.append(charged(prices, used & ~missing))
    return Journeys(np.stack(P, axis=1), np.stack(paid, axis=1))


class Stops:
    """When a next state is not worth its price: from the last to the first, the net gain on the stake and its square,
    within the range of stakes that were seen.
    """

    def __init__(self, run: Journeys, y: np.ndarray, B: np.ndarray) -> None:
        S = run.P.shape[1]
        net = np.stack([earned(run.P[:, s], y, B) for s in range(S)], axis=1) - run.paid
        self.B, self.lines, value = B, {}, net[:, -1]
        for s in range(S - 2, -1, -1):
            z, gain = at_stake(run.P[:, s], B), value - net[:, s]
            low, width = z.min(), np.ptp(z)
            width = 1.0 if width <= 1e-9 * z.max() else width
            powers = np.vander((z - low) / width, 3)
            self.lines[s] = low, width, np.linalg.lstsq(powers, gain, rcond=1e-9)[0]
            value = np.where(self.goes_on(s, z), value, net[:, s])

    def goes_on(self, s: int, z: np.ndarray) -> np.ndarray:
        low, width, line = self.lines[s]
        return np.polyval(line, np.clip((z - low) / width, 0, 1)) > 0

    def ends(self, run: Journeys) -> np.ndarray:
        stops = [~self.goes_on(s, at_stake(run.P[:, s], self.B)) for s in range(len(self.lines))]
        return np.stack([*stops, np.ones(len(run.P), dtype=bool)], axis=1).argmax(axis=1)


def ended(run: Journeys, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(ends))
    return run.P[rows, ends], run.paid[rows, ends]


def calibrated(run: Journeys, curves: list[Blend]) -> Journeys:
    states = [curve.apply([run.P[:, s + 1]]) for s, curve in enumerate(curves)]
    return Journeys(np.stack([run.P[:, 0], *states], axis=1), run.paid)


def lightgbm_runs(
    table: Table, trade_offs: tuple[float, ...] = TRADE_OFFS
) -> list[tuple[np.ndarray, Journeys, Journeys]]:
    """For each trade-off some training rows, their journeys through models that did not see them, and of new rows."""
    X, y, new, _, prices = table
    found = []
    for trade_off in trade_offs:
        rows, parts = unseen(X, y, lambda inside, outside, t=trade_off: staged(
            boosted(X[inside], y[inside], prices, t), X[outside], y[inside], prices))  # fmt: skip
        seen = Journeys(*(np.concatenate([getattr(run, name) for run in parts]) for name in Journeys._fields))
        curves = [Blend.fit([seen.P[:, s]], y[rows], np.ones(len(rows))) for s in range(1, seen.P.shape[1])]
        told = staged(boosted(X, y, prices, trade_off), new, y, prices)
        found.append((rows, calibrated(seen, curves), calibrated(told, curves)))
    return found


def lightgbm(table: Table, matrices: Matrices) -> list[float]:
    runs, found = lightgbm_runs(table), []
    for B in matrices:
        ways = []
        for rows, seen, told in runs:
            stops = Stops(seen, table.y[rows], B)
            sides = ((seen, table.y[rows]), (told, table.truth))
            ends = [(*ended(run, stops.ends(run)), y) for run, y in sides]
            ways.append([(earned(P, y, B) - paid).mean() for P, paid, y in ends])
        found.append(max(ways)[1])
    return found


def lightgbm_errors(table: Table) -> np.ndarray:
    """At each share the trade-off is the one with the least error there on training rows."""
    K, curves = int(table.y.max()) + 1, []
    for rows, seen, told in lightgbm_runs(table, (0.01, 0.03, 0.1, 0.3)):
        points: list[list[tuple[float, float]]] = [[], []]
        for size in SIZES:
            stops = Stops(seen, table.y[rows], size * np.eye(K))
            for run, y, kept in ((seen, table.y[rows], points[0]), (told, table.truth, points[1])):
                P, paid = ended(run, stops.ends(run))
                kept.append((paid.mean() / table.X.shape[1], (P.argmax(axis=1) != y).mean()))
        curves.append([at_shares(some) for some in points])
    inside, outside = np.moveaxis(np.array(curves), 1, 0)
    return np.take_along_axis(outside, inside.argmin(axis=0)[None], axis=0)[0]


def at_shares(points: list[tuple[float, float]]) -> np.ndarray:
    """The error at SHARES between points (share, error); 1 before the first."""
    shares, errors = np.array(sorted(points)).T
    return np.interp(SHARES, shares, errors, left=1.0)


def l1_runs(table: Table) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """For each strength some training rows, their calibrated unseen P, the new rows', and the features used (m,)."""
    X, y, new, _, _ = table
    found = []
    for C in STRENGTHS:

        def model(rows: np.ndarray, C: float = C) -> Any:
            linear = OneVsRestClassifier(LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", random_state=0))
            ranks = QuantileTransformer(n_quantiles=100)  # which a few heavy tails do not rule, as of TSH
            steps = SimpleImputer(keep_empty_features=True), ranks, StandardScaler(), linear
            return make_pipeline(*steps).fit(X[rows], y[rows])

        rows, parts = unseen(X, y, lambda inside, outside, model=model: model(inside).predict_proba(X[outside]))
        P, whole = np.concatenate(parts), model(np.arange(len(X)))
        curve = Blend.fit([P], y[rows], np.ones(len(rows)))
        used = np.any([one.coef_[0] != 0 for one in whole[-1].estimators_], axis=0)
        found.append((rows, curve.apply([P]), curve.apply([whole.predict_proba(new)]), used))
    return found


def forest(X: np.ndarray, y: np.ndarray, trees: int) -> RandomForestClassifier:
    with warnings.catch_warnings(action="ignore"):  # a row that every tree has seen
        return RandomForestClassifier(trees, min_samples_leaf=3 if len(X) < 9000 else 1, oob_score=True,
                                      random_state=0, max_features=None).fit(X, y)  # fmt: skip


def out_of_bag(X: np.ndarray, y: np.ndarray, trees: int) -> tuple[RandomForestClassifier, np.ndarray]:
    model = forest(X, y, trees)
    P = model.oob_decision_function_
    return model, np.where(np.isfinite(P), P, 1 / P.shape[1])


def paid_for(X: np.ndarray, prices: Prices, columns: np.ndarray | list[int]) -> np.ndarray:
    used = np.zeros(X.shape, dtype=bool)
    used[:, columns] = True
    return charged(prices, used & ~np.isnan(X))


class Search:
    """Forward selection of a subset, whose forests are kept."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = X, y
        self.told: dict[tuple[int, ...], np.ndarray] = {}

    def way(self, worth: Callable[[np.ndarray, list[int]], float], start: float, steps: int) -> tuple[list, list]:
        """The subsets on the way, each the one before and the feature that makes it worth most, and their values."""
        left, way, values = list(range(self.X.shape[1])), [[]], [start]
        while left and len(way) <= steps and np.argmax(values) >= len(values) - PATIENCE - 1:
            tried = {j: worth(self._told([*way[-1], j]), [*way[-1], j]) for j in left}
            best = max(tried, key=lambda j: tried[j])
            left.remove(best)
            way.append([*way[-1], best])
            values.append(tried[best])
        return way, values

    def _told(self, columns: list[int]) -> np.ndarray:
        key = tuple(columns)
        if key not in self.told:
            self.told[key] = out_of_bag(self.X[:, columns], self.y, 25)[1]
        return self.told[key]


def subset_told(table: Table, columns: list[int]) -> np.ndarray:
    """Calibrated P of the new rows, by a forest on these columns."""
    if not columns:
        return np.tile(np.bincount(table.y) / len(table.y), (len(table.new), 1))
    model, P = out_of_bag(table.X[:, columns], table.y, 100)
    return Blend.fit([P], table.y, np.ones(len(P))).apply([model.predict_proba(table.new[:, columns])])


def prior_earns(table: Table, B: np.ndarray) -> tuple[float, float]:
    prior = np.bincount(table.y) / len(table.y)
    return tuple(earned(np.tile(prior, (len(y), 1)), y, B).mean() for y in (table.y, table.truth))


def l1_path(table: Table, matrices: Matrices) -> list[float]:
    runs, found = l1_runs(table), []
    for B in matrices:
        ways = [prior_earns(table, B)]
        for rows, seen, told, used in runs:
            sides = ((seen, table.y[rows], table.X[rows]), (told, table.truth, table.new))
            ways.append(tuple((earned(P, y, B) - paid_for(X, table.prices, used)).mean() for P, y, X in sides))
        found.append(max(ways)[1])
    return found


def greedy_subset(table: Table, matrices: Matrices) -> list[float]:
    found, search = [], Search(table.X, table.y)
    for B in matrices:

        def worth(P: np.ndarray, columns: list[int], B: np.ndarray = B) -> float:
            return float((earned(P, table.y, B) - paid_for(table.X, table.prices, columns)).mean())

        way, values = search.way(worth, prior_earns(table, B)[0], table.X.shape[1])
        columns = way[int(np.argmax(values))]
        paid = paid_for(table.new, table.prices, columns)
        found.append(float((earned(subset_told(table, columns), table.truth, B) - paid).mean()))
    return found
