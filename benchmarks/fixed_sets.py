"""What others do with the prices of features who ask every case for the same: the L1 path, and greedy subsets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rivals import Matrices, Table, at_shares, charged, earned, unseen
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from app.acquisition.session import Prices
from app.acquisition.stopping import Blend

STRENGTHS = np.geomspace(0.003, 10, 12)
PATIENCE = 2  # features that may fail to pay before the greedy search ends


def l1_runs(
    table: Table, strengths: np.ndarray = STRENGTHS
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """For each strength some training rows, their calibrated unseen P, the new rows', and the features used (m,)."""
    X, y, new, _, _ = table
    found = []
    for C in strengths:

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


def l1_earns(table: Table, matrices: Matrices) -> list[float]:
    runs, found = l1_runs(table), []
    for B in matrices:
        ways = [prior_earns(table, B)]
        for rows, seen, told, used in runs:
            sides = ((seen, table.y[rows], table.X[rows]), (told, table.truth, table.new))
            ways.append(tuple((earned(P, y, B) - paid_for(X, table.prices, used)).mean() for P, y, X in sides))
        found.append(max(ways)[1])
    return found


def subsets_earn(table: Table, matrices: Matrices) -> list[float]:
    found, search = [], Search(table.X, table.y)
    for B in matrices:

        def worth(P: np.ndarray, columns: list[int], B: np.ndarray = B) -> float:
            return float((earned(P, table.y, B) - paid_for(table.X, table.prices, columns)).mean())

        way, values = search.way(worth, prior_earns(table, B)[0], table.X.shape[1])
        columns = way[int(np.argmax(values))]
        paid = paid_for(table.new, table.prices, columns)
        found.append(float((earned(subset_told(table, columns), table.truth, B) - paid).mean()))
    return found


def l1_errors(table: Table) -> np.ndarray:
    return at_shares(
        [(used.mean(), (told.argmax(axis=1) != table.truth).mean()) for _, _, told, used in l1_runs(table)]
    )


def subset_errors(table: Table) -> np.ndarray:
    """The search is on 4,000 rows, among the 20 most important features."""
    X, y = table.X[:4000], table.y[:4000]
    top = np.argsort(-forest(X, y, 25).feature_importances_)[:20]
    way, _ = Search(X[:, top], y).way(
        lambda P, columns: float((P.argmax(axis=1) == y).mean() + 1e-9 * len(columns)), 0.0, 14
    )
    told = [(columns, subset_told(table, top[columns].tolist())) for columns in way]
    points = [(len(columns) / table.X.shape[1], (P.argmax(axis=1) != table.truth).mean()) for columns, P in told]
    return at_shares(points)
