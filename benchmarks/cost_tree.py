"""What a tree of classifiers buys for its price: the paper's quadrants, and error against cost on two real tables.

    .venv/bin/python benchmarks/cost_tree.py [folder of data sets] [--only quadrants|speed|thyroid|covtype]

Quadrants: mean squared error and mean cost on new rows, ten seeds, and the paths of one tree. Real tables: thyroid
(its own prices; 3772 rows to train, 3428 to test) and Covertype (class 2 against the rest, every feature at price 1;
12,000 and 8,000 random rows), against L1-penalised logistic regression, whose cost is that of the features with weight.
One thread. As section 5 of Xu, Kusner, Weinberger, Chen, "Cost-Sensitive Tree of Classifiers" (2013).

The smallest work: `.venv/bin/python benchmarks/cost_tree.py --only speed`
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from app.acquisition.session import Prices
from app.acquisition.tree_of_classifiers import Stop, outline
from app.learners.cost_tree.estimator import CostTree
from app.learners.cost_tree.hard import HardTree
from app.learners.cost_tree.path import Sample, Setting
from app.usecases.feature_costs import parse_prices
from tests.reference.stepwise import simulate

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
NAMES = ("sign x", "sign z", "y++", "y+-", "y-+", "y--")
PRICES = (1.0, 1.0, 10.0, 10.0, 10.0, 10.0)


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


def synthetic() -> None:
    print(f"{'seed':>5}{'error':>11}{'cost':>7}{'fit s':>7}")
    for seed in range(10):
        start = time.perf_counter()
        model = quadrants_tree(seed)
        seconds = time.perf_counter() - start
        print(f"{seed:5}{figures(model, seed)}{seconds:7.2f}", flush=True)
    print()
    show(model)


def one_quadrants_tree() -> None:
    model = quadrants_tree(0)
    print(f"error and mean cost{figures(model, 0)}")
    show(model)


def figures(model: CostTree, seed: int) -> str:
    """Mean squared error and mean cost on new rows."""
    X, y = quadrants(2000, seed + 100)
    error = np.square(model.predict(X) - y).mean()
    return f"{error:11.1e}{simulate(model.model_, X, model.prices_).cost.mean():7.2f}"


def show(model: CostTree) -> None:
    """Features and cost of each path."""
    print("\n".join(described(outline(model.model_, model.prices_))))


def described(stops: tuple[Stop, ...], k: int = 0, path: tuple[int, ...] = (), indent: str = "") -> list[str]:
    """The tree as lines: what each node asks for and has not yet, and what a path has cost at its end."""
    stop = stops[k]
    path = (*path, *stop.asks)
    asked = ", ".join(NAMES[j] for j in stop.asks) or "nothing new"
    if stop.upper < 0 and stop.lower < 0:
        return [f"{indent}ask {asked}; predict (path: {', '.join(NAMES[j] for j in path)}; cost {stop.cost:g})"]
    lines = [f"{indent}ask {asked}; cost so far {stop.cost:g}"]
    for sign, child in ((">", stop.upper), ("<=", stop.lower)):
        lines.append(f"{indent}score {sign} {stop.threshold:.2f}:")
        further = described(stops, child, path, indent + "    ") if child >= 0 else [f"{indent}    predict"]
        lines += further
    return lines


def speed() -> None:
    """10,000 rows of 50 features, depth 4: one trade-off, and a whole path of twenty."""
    random = np.random.default_rng(0)
    X = random.normal(size=(10_000, 50))
    score = X @ (random.normal(size=50) * (random.random(50) < 0.3)) + np.where(X[:, 0] > 0, 3 * X[:, 1], 3 * X[:, 2])
    targets = {"classification": (score + random.normal(size=10_000) > 0).astype(int), "regression": score}
    print(f"\n{'10,000 x 50, depth 4':24}{'trade-offs':>11}{'fit s':>8}{'CPU s':>8}")
    for task, y in targets.items():
        for trade_off in (0.01, None):
            start, busy = time.perf_counter(), time.process_time()
            CostTree(task=task, trade_off=trade_off, random_state=0).fit(X, y)
            took = time.perf_counter() - start, time.process_time() - busy
            print(f"{task:24}{20 if trade_off is None else 1:11}{took[0]:8.1f}{took[1]:8.1f}", flush=True)


Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Prices]


def read(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.reader(file))


def covtype(folder: Path) -> Table:
    table = np.array(read(folder / "covtype_20k.csv.gz")[1:], dtype=np.float64)
    table = table[np.random.default_rng(0).permutation(len(table))]
    X, y = np.ascontiguousarray(table[:, :-1]), (table[:, -1] == 2).astype(int)
    return X[:12_000], y[:12_000], X[12_000:], y[12_000:], Prices.unit(X.shape[1])


def thyroid(folder: Path) -> Table:
    """FTI, which the price list leaves blank, is computed from TT4 and T4U: it costs what both do."""
    header, *lines = read(folder / "thyroid_ann.csv.gz")
    names = header[:21]
    X, y = np.array([line[:21] for line in lines], dtype=np.float64), np.array([int(line[-1]) for line in lines])
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


def lasso(table: Table) -> list[tuple[float, float]]:
    """Cost and test error of L1-penalised logistic regression on scaled features, from strong to weak penalty."""
    X, y, new, labels, prices = table
    scaler = StandardScaler().fit(X)
    X, new, points = scaler.transform(X), scaler.transform(new), []
    for C in np.geomspace(3e-4, 10, 20):
        model = LogisticRegression(l1_ratio=1.0, C=C, solver="saga", max_iter=400, tol=1e-3, random_state=0).fit(X, y)
        used = np.flatnonzero((np.abs(model.coef_) > 1e-6).any(axis=0))
        cost = sum(prices.paid(sorted(used, key=lambda j: prices.cost[j])))
        points.append((cost, float((model.predict(new) != labels).mean())))
    return points


class WholePath(CostTree):
    """Keeps every tree of the path of trade-offs, not the best alone."""

    def _choose(self, setting: Setting, inside: Sample, outside: Sample) -> HardTree | None:
        self.setting = setting
        self.steps = list(setting.path(inside, outside, setting.lambdas(inside.rows)))
        self.steps.sort(key=lambda step: (step[0].cost, step[0].error))
        self.nothing = setting.prior(inside.rows)
        return None


def trees(table: Table, features: str) -> list[tuple[float, float]]:
    """Mean cost and test error of the trees that no cheaper one beat on rows held out of the training rows."""
    X, y, new, labels, prices = table
    path = WholePath(features=features, feature_costs=prices, random_state=0).fit(X, y)
    points = [(0.0, float((path.predict(new) != labels).mean()))]
    least = np.inf
    for point, hard in path.steps:
        if point.cost > 0 and point.error < least:
            least = point.error
            run = simulate(path.setting.assemble(hard, path.nothing), new, prices)
            points.append((float(run.cost.mean()), float((path.classes_[run.prediction] != labels).mean())))
    return points


def curves(name: str, table: Table) -> None:
    """Both curves, and where trees stand at each cost of the other; between two points one may toss a coin."""
    start = time.perf_counter()
    found = {features: trees(table, features) for features in ("raw", "boosted")}
    seconds = time.perf_counter() - start
    print(f"\n{name}: test error at mean cost per row (both paths {seconds:.0f} s)")
    for features, points in found.items():
        print(f"  tree, {features}: " + "  ".join(f"{error:.4f} at {cost:.2f}" for cost, error in points))
    print(f"  {'cost':>8}{'L1 logistic':>13}{'tree raw':>10}{'boosted':>10}")
    worst = dict.fromkeys(found, -np.inf)
    for cost, error in sorted(set(lasso(table))):
        ours = {
            features: float(np.interp(cost, *zip(*hull(points), strict=True))) for features, points in found.items()
        }
        worst = {features: max(worst[features], ours[features] - error) for features in found}
        print(f"  {cost:8.2f}{error:13.4f}{ours['raw']:10.4f}{ours['boosted']:10.4f}")
    print("  largest error above L1 logistic regression: "
          + ", ".join(f"{features} {value:+.4f}" for features, value in worst.items()), flush=True)  # fmt: skip


def hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The lower convex hull of points by cost."""
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points):
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (x - kept[-2][0]) >= (y - kept[-2][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((x, y))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--only", choices=("quadrants", "speed", "thyroid", "covtype"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # saga's last digits of weights do not move the curve
    if asked.only in (None, "quadrants"):
        synthetic()
    if asked.only in (None, "speed"):
        speed()
    if asked.only in (None, "thyroid"):
        curves("thyroid", thyroid(asked.folder))
    if asked.only in (None, "covtype"):
        curves("covtype, class 2 against the rest", covtype(asked.folder))


if __name__ == "__main__":
    main()
