"""What it earns to buy test after test, with the prices of real tests: heart disease, diabetes, thyroid disease.

   .venv/bin/python benchmarks/net_benefit.py [folder of the data, default ../shared/data] [--trees [data set]]

Prices with group discounts after Turney (1995); the benefit matrices are in the same currency, stated below. Five times
two folds: a forest is trained on one half (which also learns when to stop), and each patient of the other half is asked
test by test. Mean net benefit (benefit of the decisions less the price of the tests) per patient of buying nothing,
every test of the list, every test that the forest asks for, until the vote is settled, and while it is worth the price.
"gain" is worth stopping less the better of nothing and all that the forest asks for, its standard error over the five
repetitions (the folds of one share their rows), and in how many of the ten folds it is above zero.

`--trees`: what `cost_tree` earns that chooses among 8 trade-offs by error, and by net benefit; one half is trained on,
five times.

The smallest work: `.venv/bin/python benchmarks/net_benefit.py --trees heart_cleveland`
"""

from __future__ import annotations

import argparse
import copy
import csv
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from app.acquisition.forest import FlatForest
from app.acquisition.session import Prices
from app.decisions.benefit import Prepared
from app.learners.budget_forest import BudgetForest
from app.learners.cost_tree import path as trade_offs
from app.learners.cost_tree.estimator import CostTree, Point
from app.learners.cost_tree.hard import HardTree
from app.learners.cost_tree.path import Sample, Setting
from app.learners.forest_chain import ForestChain
from app.learners.random_forest import RandomForest
from app.usecases.acquisition_model import AcquisitionModel
from app.usecases.feature_costs import parse_prices
from app.usecases.simulate import report
from tests.reference.stepwise import from_sklearn, simulate

REPETITIONS = 5
SCALES = (0.5, 1.0, 2.0)  # of the matrix: 1 is the one stated, the others show what hangs on it
SIZES = (1, 10, 20, 40)
TRADE_OFFS = 8  # of a path; the default, 20, takes more than twice the time
CASES: dict[str, list[list[float]]] = {
    # rows: the truth; columns: taken for …
    "heart_cleveland": [[0, -800], [-1600, 0]],  # no disease, disease
    "pima_diabetes": [[0, -100], [-200, 0]],  # no diabetes, diabetes
    "thyroid_ann": [[0, -160, -800], [-160, 0, -800], [-200, -200, 0]],  # hyper, hypo (rare both), normal
}
GAPS = ("glucose_tol", "diastolic_bp", "triceps", "insulin", "mass_index")  # 0 stands for missing in the diabetes data


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, Prices]:
    """Rows, class codes and prices; a feature without a price (computed from others) is left out."""
    with (folder / f"{name}.costs.csv").open() as file:
        costs = [row for row in csv.DictReader(file) if row["cost"]]
    names = [row["feature"] for row in costs]
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float("nan" if row[column] in ("", "?") else row[column]) for column in names] for row in rows])
    y = np.array([int(float(row["label"])) for row in rows])
    if name == "heart_cleveland":
        y = (y > 0).astype(int)
    for gap in set(GAPS) & set(names):
        X[X[:, names.index(gap)] == 0, names.index(gap)] = np.nan
    listed: list[dict[str, Any]] = []
    for row in costs:
        entry: dict[str, Any] = {"feature": row["feature"], "cost": float(row["cost"])}
        group = {"group": row["group"], "discounted_cost": float(row["discounted_cost"])}
        listed.append(entry | group if row["group"] else entry)
    return X, np.unique(y, return_inverse=True)[1], parse_prices(listed, names)


def halves(y: np.ndarray, repetition: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(2, shuffle=True, random_state=repetition).split(y, y))


def net_benefits(X: np.ndarray, y: np.ndarray, prices: Prices, B: np.ndarray, make: Callable[[], Any]) -> np.ndarray:
    """(3, 5, 2, 5): scales of the matrix, repetitions, folds, ways."""
    names, classes = [f"x{j}" for j in range(X.shape[1])], list(range(len(B)))
    found = []
    for repetition in range(REPETITIONS):
        for inside, outside in halves(y, repetition):
            model = make().fit(X[inside], y[inside])
            if hasattr(model, "learn_stops"):  # a chain has learned it
                model.learn_stops(X[inside], y[inside], prices)
            ready = AcquisitionModel.of(model, names, classes, prices)
            for scale in SCALES:
                told = report(ready, X[outside], y[outside], prices, Prepared(scale * B, classes), budgets=[])
                asked = told["budgets"][-1]
                worth = asked.get("worth_stopping", asked["plain"])
                ways = (
                    told["nothing"],
                    told["everything"],
                    asked["plain"],
                    asked.get("vote_stopping", asked["plain"]),
                    worth,
                )
                found.append([way["net_benefit"] for way in ways])
    return np.moveaxis(np.array(found).reshape(REPETITIONS, 2, len(SCALES), 5), 2, 0)


def table_of_net_benefits(folder: Path) -> None:
    print(f"{'net benefit':16}{'forest':16}{'scale':>6}{'nothing':>9}{'every':>9}{'asked':>9}{'vote':>9}{'worth':>9}"
          f"{'gain':>9}{'error':>7}  folds above")  # fmt: skip
    for name, matrix in CASES.items():
        X, y, prices = load(folder, name)
        makers: dict[str, Callable[[], Any]] = {
            "budget_forest": lambda prices=prices: BudgetForest(feature_costs=prices, random_state=0),
            "random_forest": lambda: RandomForest(n_estimators=40, random_state=0),
            "forest_chain": lambda prices=prices: ForestChain(feature_costs=prices, random_state=0),
            "all features": lambda: RandomForest(n_estimators=40, max_features=None, random_state=0),
        }
        for kind, make in makers.items():
            for scale, found in zip(
                SCALES, net_benefits(X, y, prices, np.array(matrix, dtype=float), make), strict=True
            ):
                nothing, every, asked, vote, worth = found.mean(axis=(0, 1))
                gains = found[:, :, 4] - found[:, :, 0 if nothing > asked else 2]
                error = gains.mean(axis=1).std(ddof=1) / np.sqrt(REPETITIONS)
                print(f"{name:16}{kind:16}{scale:6g}{nothing:9.2f}{every:9.2f}{asked:9.2f}{vote:9.2f}{worth:9.2f}"
                      f"{gains.mean():9.2f}{error:7.2f}  {(gains > 0).sum()} of 10", flush=True)  # fmt: skip


def table_of_trees(folder: Path, *wanted: str) -> None:
    """Mean net benefit of the point with the least error, and of that with the largest net benefit, for every scale."""
    print(f"{'cost_tree':16}{'scale':>6}{'nothing':>9}{'every':>9}{'error':>9}{'net':>9}{'gain':>9}{'error':>7}")
    for name in wanted or CASES:
        X, y, prices = load(folder, name)
        B, found = np.array(CASES[name], dtype=float), []
        for repetition in range(REPETITIONS):
            inside, outside = halves(y, repetition)[0]
            with one_path(TRADE_OFFS):
                found.append([tree_benefits(X, y, prices, scale * B, inside, outside) for scale in SCALES])
        for scale, ways in zip(SCALES, np.moveaxis(np.array(found), 1, 0), strict=True):
            gains = ways[:, 3] - ways[:, 0]
            error = gains.std(ddof=1) / np.sqrt(REPETITIONS)
            means = "".join(f"{mean:9.2f}" for mean in (*ways.mean(axis=0), gains.mean()))
            print(f"{name:16}{scale:6g}{means}{error:7.2f}", flush=True)


def tree_benefits(
    X: np.ndarray, y: np.ndarray, prices: Prices, B: np.ndarray, inside: np.ndarray, outside: np.ndarray
) -> list[float]:
    """The net benefits of nothing, every test, and the trees chosen by error and by net benefit."""
    names, classes = [f"x{j}" for j in range(X.shape[1])], list(range(len(B)))
    reports = []
    for benefits in (None, B):
        model = CostTree(feature_costs=prices, benefits=benefits, random_state=0).fit(X[inside], y[inside])
        ready = AcquisitionModel.of(model, names, classes, prices)
        reports.append(report(ready, X[outside], y[outside], prices, Prepared(B, classes), budgets=[]))
    by_error, by_benefit = reports
    ways = (by_error["nothing"], by_error["everything"], by_error["budgets"][-1]["plain"],
            by_benefit["budgets"][-1]["plain"])  # fmt: skip
    return [way["net_benefit"] for way in ways]


@contextmanager
def one_path(steps: int) -> Iterator[None]:
    """Fits inside share the trees of the first one: they differ in the choice only."""
    grow, kept = Setting.path, []

    def path(self: Setting, inside: Sample, outside: Sample, lambdas: list[float]) -> Iterator[tuple[Point, HardTree]]:
        if not kept:
            kept.extend((point.lambda_, hard) for point, hard in grow(self, inside, outside, lambdas))
        for lambda_, hard in copy.deepcopy(kept):
            yield self.point(self.assemble(hard, self.prior(outside.rows)), outside, lambda_), hard

    with mock.patch.object(Setting, "path", path), mock.patch.object(trade_offs, "STEPS", steps):
        yield


def table_of_errors(folder: Path) -> None:
    """Error against mean cost: budgets for this forest, numbers of trees for an ordinary one."""
    print(f"\n{'error':16}{'forest':28}{'error':>8}{'complete':>10}{'asked':>9}")
    for name in CASES:
        X, y, prices = load(folder, name)
        dearest = float(simulate(_ordinary(X, y, 40), X, prices, stop_when_settled=False).cost.mean())
        for share in (0.05, 0.25, 0.5, 1.0):
            budget = share * dearest
            _errors(X, y, prices, name, f"budget_forest, budget {budget:.4g}",
                    lambda X, y, prices=prices, budget=budget: BudgetForest(
                        budget=budget, feature_costs=prices, random_state=0).fit(X, y).model_)  # fmt: skip
        for trees in SIZES:
            _errors(
                X, y, prices, name, f"scikit-learn, {trees} trees", lambda X, y, trees=trees: _ordinary(X, y, trees)
            )


def _ordinary(X: np.ndarray, y: np.ndarray, trees: int) -> FlatForest:
    return from_sklearn(RandomForestClassifier(trees, random_state=0).fit(X, y))


def _errors(
    X: np.ndarray, y: np.ndarray, prices: Prices, name: str, forest: str, grow: Callable[..., FlatForest]
) -> None:
    found = []
    for repetition in range(REPETITIONS):
        for inside, outside in halves(y, repetition):
            grown = grow(X[inside], y[inside])
            asked = simulate(grown, X[outside], prices)
            plain = simulate(grown, X[outside], prices, stop_when_settled=False)
            found.append(((asked.prediction != y[outside]).mean(), plain.cost.mean(), asked.cost.mean()))
    error, complete, cost = np.mean(found, axis=0)
    print(f"{name:16}{forest:28}{error:8.4f}{complete:10.2f}{cost:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--trees", nargs="*", choices=list(CASES))
    asked = parser.parse_args()
    if asked.trees is None:
        table_of_net_benefits(asked.folder)
        table_of_errors(asked.folder)
    else:
        table_of_trees(asked.folder, *asked.trees)


if __name__ == "__main__":
    main()
