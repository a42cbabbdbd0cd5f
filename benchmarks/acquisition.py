"""Error, cost and time of what `/acquire` asks feature by feature: forests, and trees of classifiers.

    .venv/bin/python benchmarks/acquisition.py [folder of data sets] [--only covtype|shares|…]

Covertype: seven classes, every feature at price 1, 12,000 random rows to train and 8,000 to decide, as table 1 of Nan,
Wang, Saligrama, "Feature-Budgeted Random Forest" (2015). Thyroid: three classes, the prices of the tests, 3772 rows and
3428. The cost of a row is what it looks at, each feature once: for all trees of a forest ("complete"), and asking
feature by feature until the vote cannot change any more ("asked"), which gives the same classes. A tree of classifiers
asks to its end. Then the error at a mean share of the features, where forests and the chain of forests stop as more is
not worth its price, from cheap errors to dear ones. Last the paper's quadrants, with features and cost of each path.
One thread.

The smallest work: `.venv/bin/python benchmarks/acquisition.py --only quadrants`
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.forest import FlatForest
from app.acquisition.session import Prices, States
from app.acquisition.stopping import at_stake
from app.kernels import CALLS
from app.learners.budget_forest import BudgetForest
from app.learners.cost_tree.estimator import CostTree
from app.learners.forest_chain import ForestChain
from app.learners.random_forest import RandomForest
from app.usecases.acquisition_model import AcquisitionModel
from app.usecases.feature_costs import parse_prices
from tests.reference.stepwise import Simulation, from_sklearn, simulate

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
NAMES = ("sign x", "sign z", "y++", "y+-", "y-+", "y--")
PRICES = (1.0, 1.0, 10.0, 10.0, 10.0, 10.0)
TRAINED = 12_000
SIZES = (1, 10, 40)
SHARES = (0.05, 0.08, 0.12, 0.16, 0.25)
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Prices]


def timed(call: Callable[[], object], repeats: int = 1) -> float:
    """The quickest of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def budgeted(X: np.ndarray, y: np.ndarray, trees: int, prices: Prices) -> FlatForest:
    alpha = 0 if np.ptp(prices.cost) == 0 else None  # with real prices the rule is chosen on validation rows
    return BudgetForest(alpha=alpha, n_estimators=trees, feature_costs=prices, random_state=0).fit(X, y).model_


def ordinary(X: np.ndarray, y: np.ndarray, trees: int, features: str | None) -> FlatForest:
    model = RandomForestClassifier(trees, max_features=features, random_state=0, n_jobs=1).fit(X, y)
    return from_sklearn(model)


TREES: dict[str, dict[str, Any]] = {
    "covtype": {"lambdas": (1e-3, 1e-2), "features": ("raw",)},
    "thyroid": {"lambdas": (1e-5, 1e-4, 1e-3, 1e-2), "features": ("raw", "boosted")},
}


def covtype(folder: Path, seed: int = 0) -> Table:
    """All seven classes; every feature at price 1."""
    table = np.loadtxt(folder / "covtype_20k.csv.gz", delimiter=",", skiprows=1)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    X, y = np.ascontiguousarray(table[:, :-1]), np.unique(table[:, -1], return_inverse=True)[1]
    return X[:TRAINED], y[:TRAINED], X[TRAINED:], y[TRAINED:], Prices.unit(X.shape[1])


def thyroid(folder: Path) -> Table:
    """Three classes; the prices of the tests, in groups. FTI, which the price list leaves blank, comes from TT4 and
    T4U: it costs what both do.
    """
    with gzip.open(folder / "thyroid_ann.csv.gz", "rt", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    names = header[:21]
    X, y = np.array([line[:21] for line in lines], dtype=np.float64), np.array([int(line[-1]) for line in lines])
    y -= y.min()
    inside = np.array([line[-2] == "train" for line in lines])
    with (folder / "thyroid_ann.costs.csv").open(encoding="utf-8") as file:
        rows = {row["feature"]: row for row in csv.DictReader(file)}
    costs = {name: (float(row["cost"]), float(row["discounted_cost"])) for name, row in rows.items() if row["cost"]}
    costs["FTI"] = (costs["TT4"][0] + costs["T4U"][1], costs["TT4"][1] + costs["T4U"][1])
    listed = [
        {"feature": name, "cost": cost, **({"group": rows[name]["group"], "discounted_cost": less}
                                          if rows[name]["group"] else {})}
        for name, (cost, less) in costs.items() if name != "FTI"
    ]  # fmt: skip
    listed.append({"feature": "FTI", "cost": costs["FTI"][0], "group": "A", "discounted_cost": costs["FTI"][1]})
    return X[inside], y[inside], X[~inside], y[~inside], parse_prices(listed, names)


def quadrants(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two signs tell which of four dear features is the label; means 30, 10, -10, -30, other features N(0, 20^2)."""
    random = np.random.default_rng(seed)
    signs = np.sign(random.uniform(-1, 1, (n, 2)))
    y = signs @ [20.0, 10.0] + random.normal(size=n)
    dear = random.normal(0, 20, (n, 4))
    dear[np.arange(n), (signs[:, 0] < 0) * 2 + (signs[:, 1] < 0)] = y
    return np.column_stack((signs, dear)), y


def quadrants_tree(seed: int) -> CostTree:
    return CostTree(
        task="regression", depth=3, trade_off=0.06, zero_tolerance=0.05, rho=0.0, standardise=False,
        feature_costs=PRICES, random_state=seed,
    ).fit(*quadrants(2000, seed))  # fmt: skip


def show_quadrants() -> None:
    """Error and mean cost on new rows, and what each path of a tree asks for."""
    model, (X, y) = quadrants_tree(0), quadrants(2000, 100)
    error = np.square(model.predict(X) - y).mean()
    print(f"error and mean cost{error:11.1e}{simulate(model.model_, X, model.prices_).cost.mean():7.2f}")
    for node in model.outline(NAMES):
        print(node)


def compare(name: str, table: Table) -> None:
    """Forests of some sizes, and trees of classifiers at some trade-offs."""
    X, y, new, truth, prices = table
    growers: dict[str, Callable[[int], FlatForest]] = {
        "budget forest": lambda trees: budgeted(X, y, trees, prices),
        "random forest, all features": lambda trees: ordinary(X, y, trees, None),
        "random forest, sqrt": lambda trees: ordinary(X, y, trees, "sqrt"),
    }
    print(f"\n{name}: all features cost {sum(prices.paid(np.argsort(-prices.cost).tolist())):.1f}")
    print(f"{'learner':30}{'':>14}{'error':>8}{'complete':>10}{'asked':>8}{'questions':>11}{'fit s':>8}")
    for kind, grow in growers.items():
        for trees in SIZES:
            start = time.perf_counter()
            forest = grow(trees)
            seconds = time.perf_counter() - start
            plain = simulate(forest, new, prices, stop_when_settled=False)
            asked = simulate(forest, new, prices)
            assert (plain.prediction == asked.prediction).all()
            line(kind, f"{trees} trees", (plain.prediction != truth).mean(), (plain.cost, asked.cost), asked, seconds)
        answer(partial(forest.step, prices=prices), new)
    for features in TREES[name]["features"]:
        for trade_off in TREES[name]["lambdas"]:
            model = CostTree(
                trade_off=trade_off, features=features, weak_learners=50,
                feature_costs=prices, random_state=0,
            )  # fmt: skip
            start = time.perf_counter()
            tree = model.fit(X, y).model_
            seconds = time.perf_counter() - start
            run = simulate(tree, new, prices)
            error = (run.prediction != truth).mean()
            line(f"cost tree, {features}", f"lambda {trade_off:g}", error, (run.cost, run.cost), run, seconds)
        answer(partial(tree.step, prices=prices), new)


def at_shares(folder: Path, seeds: int) -> None:
    """Error at a mean share of features that are asked for, each learner stopped by what more is worth."""
    print(f"\ncovtype, stopped by worth{'':7}" + "".join(f"{share:>8.0%}" for share in SHARES) + f"{'fit s':>8}")
    makers: dict[str, Callable[[int], Any]] = {
        "budget forest": lambda seed: BudgetForest(alpha=0, n_estimators=40, random_state=seed),
        "random forest, all features": lambda seed: RandomForest(
            n_estimators=40, max_features=None, calibration="none", random_state=seed
        ),
        "forest chain": lambda seed: ForestChain(random_state=seed),
    }
    for kind, make in makers.items():
        found = []
        for seed in range(seeds):
            X, y, new, truth, prices = covtype(folder, seed)
            start = time.perf_counter()
            model = make(seed).fit(X, y)
            if hasattr(model, "learn_stops"):  # a chain has learned it
                model.learn_stops(X, y, prices)
            seconds = time.perf_counter() - start
            found.append([*error_at(model, new, truth, prices), seconds])
        *errors, seconds = np.mean(found, axis=0)
        print(f"{kind:32}" + "".join(f"{error:8.4f}" for error in errors) + f"{seconds:8.1f}", flush=True)


def error_at(model: Any, X: np.ndarray, truth: np.ndarray, prices: Prices) -> np.ndarray:
    """The error at SHARES of the features, between the mean costs of many benefits of the right class."""
    ready = AcquisitionModel.of(model, [str(j) for j in range(X.shape[1])], list(range(truth.max() + 1)), prices)
    run = model.model_.travel(X, prices)
    n, S = run.asked.shape
    states = np.broadcast_to(np.arange(S + 1), (n, S + 1))
    finished = states == run.length[:, None]
    P = ready.probabilities(run.P.reshape(n * (S + 1), -1), states.ravel(), finished.ravel())
    costs, errors = [], []
    for size in np.geomspace(3, 20_000, 40):
        B = size * np.eye(P.shape[1])
        worth = ready.worth(B, prices, None)
        assert worth is not None
        stops = states >= run.length[:, None]
        stake = at_stake(P, B).reshape(n, S + 1)
        stops[:, :S] |= worth.stops(run.asked, run.price, stake[:, :S])
        ends = stops.argmax(axis=1)
        costs.append(run.spent[np.arange(n), ends].mean() / X.shape[1])
        errors.append((P.reshape(n, S + 1, -1)[np.arange(n), ends].argmax(axis=1) != truth).mean())
    order = np.argsort(costs, kind="stable")
    at: np.ndarray = np.interp(SHARES, np.array(costs)[order], np.array(errors)[order])
    return at


def line(
    kind: str, size: str, error: float, costs: tuple[np.ndarray, np.ndarray], run: Simulation, seconds: float
) -> None:
    complete, asked = (cost.mean() for cost in costs)
    questions = run.questions.mean()
    print(f"{kind:30}{size:>14}{error:8.4f}{complete:10.2f}{asked:8.2f}{questions:11.2f}{seconds:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--only", choices=("covtype", "shares", "thyroid", "quadrants"))
    parser.add_argument("--seeds", type=int, default=3, help="how often the rows of covtype are divided")
    chosen = parser.parse_args()
    for call in CALLS.values():
        call()
    if chosen.only in (None, "covtype"):
        compare("covtype", covtype(chosen.folder))
    if chosen.only in (None, "shares"):
        at_shares(chosen.folder, chosen.seeds)
    if chosen.only in (None, "thyroid"):
        compare("thyroid", thyroid(chosen.folder))
    if chosen.only in (None, "quadrants"):
        print("\nquadrants: two signs at price 1 say which of four features at price 10 is the label")
        show_quadrants()


def answer(step: Callable[[np.ndarray, np.ndarray], States], X: np.ndarray) -> None:
    """How long the last and largest one takes to say what to ask next, where three features are known."""
    batch = np.resize(X, (10_000, X.shape[1]))
    status = np.zeros(batch.shape, dtype=np.int32)
    status[:, [0, 5, 9]] = 1
    one = timed(lambda: step(batch[:1], status[:1]), 50)
    many = timed(lambda: step(batch, status), 3)
    print(f"  one case {1e6 * one:.0f} microseconds; 10,000 cases in one call {1e3 * many:.0f} ms")


if __name__ == "__main__":
    main()
