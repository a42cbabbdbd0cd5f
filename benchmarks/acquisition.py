"""What learners earn that ask for priced features, their error by the share of features asked for, and the quadrants.

    .venv/bin/python benchmarks/acquisition.py money [--only SET …] [--learners NAME …] [--seeds 5]
    .venv/bin/python benchmarks/acquisition.py shares [--learners NAME …] [--seeds 3]
    .venv/bin/python benchmarks/acquisition.py quadrants

`money`: heart disease, diabetes and thyroid disease with the prices and group discounts of Turney (1995); the benefit
matrices are in the same currency, stated below. Twice as many folds as seeds: a learner is fitted on one half (which
also learns when to stop), and each patient of the other half is asked test by test. Mean net benefit (benefit of the
decisions less the price of the tests) per patient with half, all and double of the matrix, beside buying nothing, all
that a random forest asks for, and the rivals of `rivals.py`; and the difference to `forest_chain` on the same folds,
with its standard error over the seeds (the folds of one share their rows).

`shares`: Covertype, seven classes, every feature at price 1, 12,000 random rows to train and 8,000 to decide, as table
1 of Nan, Wang, Saligrama, "Feature-Budgeted Random Forest" (2015): the error at a mean share of the features, where
learners stop as more is not worth its price, from cheap errors to dear ones.

`quadrants`: the paper's example of a tree of classifiers, with features and cost of each path. One thread.

The smallest work: `.venv/bin/python benchmarks/acquisition.py quadrants`
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import rivals
from decisions import DATA
from rivals import SHARES, SIZES, Matrices, Table, at_shares
from sklearn.model_selection import StratifiedKFold

from app.acquisition.session import Prices
from app.acquisition.stopping import at_stake
from app.decisions.benefit import Prepared
from app.kernels import CALLS
from app.learners.budget_forest import BudgetForest
from app.learners.cost_tree.estimator import CostTree
from app.learners.forest_chain import ForestChain
from app.learners.random_forest import RandomForest
from app.usecases.acquisition_model import AcquisitionModel
from app.usecases.feature_costs import parse_prices
from app.usecases.simulate import report
from tests.reference.cost_tree import QUADRANTS, quadrants
from tests.reference.stepwise import simulate

SCALES = (0.5, 1.0, 2.0)  # of the matrix: 1 is the one stated, the others show what hangs on it
CASES: dict[str, list[list[float]]] = {
    # rows: the truth; columns: taken for …
    "heart_cleveland": [[0, -800], [-1600, 0]],  # no disease, disease
    "pima_diabetes": [[0, -100], [-200, 0]],  # no diabetes, diabetes
    "thyroid_ann": [[0, -160, -800], [-160, 0, -800], [-200, -200, 0]],  # hyper, hypo (rare both), normal
}
GAPS = ("glucose_tol", "diastolic_bp", "triceps", "insulin", "mass_index")  # 0 stands for missing in the diabetes data
TRAINED = 12_000  # rows of Covertype
NAMES = ("sign x", "sign z", "y++", "y+-", "y-+", "y--")


def priced(name: str) -> tuple[np.ndarray, np.ndarray, Prices]:
    """Rows, class codes and prices; a feature without a price (computed from others) is left out."""
    with (DATA / f"{name}.costs.csv").open() as file:
        costs = [row for row in csv.DictReader(file) if row["cost"]]
    names = [row["feature"] for row in costs]
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
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


def covtype(seed: int) -> Table:
    """All seven classes; every feature at price 1."""
    table = np.loadtxt(DATA / "covtype_20k.csv.gz", delimiter=",", skiprows=1)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    X, y = np.ascontiguousarray(table[:, :-1]), np.unique(table[:, -1], return_inverse=True)[1]
    return Table(X[:TRAINED], y[:TRAINED], X[TRAINED:], y[TRAINED:], Prices.unit(X.shape[1]))


def fitted(model: Any, table: Table) -> Any:
    model.fit(table.X, table.y)
    if hasattr(model, "learn_stops"):  # a chain has learned it
        model.learn_stops(table.X, table.y, table.prices)
    return model


def own(make: Callable[[Prices], Any]) -> Callable[[Table, Matrices], list[float]]:
    def earn(table: Table, matrices: Matrices) -> list[float]:
        model = fitted(make(table.prices), table)
        return [earned(model, table, B) for B in matrices]

    return earn


def own_with_matrix(make: Callable[[Prices, np.ndarray], Any]) -> Callable[[Table, Matrices], list[float]]:
    def earn(table: Table, matrices: Matrices) -> list[float]:
        return [earned(make(table.prices, B).fit(table.X, table.y), table, B) for B in matrices]

    return earn


def asked(model: Any, table: Table, B: np.ndarray) -> dict[str, Any]:
    """What the simulation of `/acquire` says of new rows."""
    names, classes = [f"x{j}" for j in range(table.X.shape[1])], list(range(len(B)))
    ready = AcquisitionModel.of(model, names, classes, table.prices)
    return report(ready, table.new, table.truth, table.prices, Prepared(B, classes), budgets=[])


def earned(model: Any, table: Table, B: np.ndarray) -> float:
    """The net benefit of asking while it is worth its price; of a tree, which learns no stop, to its end."""
    ways = asked(model, table, B)["budgets"][-1]
    net_benefit: float = ways.get("worth_stopping", ways["plain"])["net_benefit"]
    return net_benefit


def bought(way: str) -> Callable[[Table, Matrices], list[float]]:
    """Nothing, or all that a random forest asks for."""

    def earn(table: Table, matrices: Matrices) -> list[float]:
        model = fitted(every_feature(), table)
        told = [asked(model, table, B) for B in matrices]
        return [(one["nothing"] if way == "nothing" else one["budgets"][-1]["plain"])["net_benefit"] for one in told]

    return earn


def every_feature() -> RandomForest:
    return RandomForest(n_estimators=40, max_features=None, random_state=0)


EARN: dict[str, Callable[[Table, Matrices], list[float]]] = {
    "forest_chain": own(lambda prices: ForestChain(feature_costs=prices, random_state=0)),
    "random_forest": own(lambda _: every_feature()),
    "budget_forest": own(lambda prices: BudgetForest(feature_costs=prices, random_state=0)),
    "cost_tree": own_with_matrix(lambda prices, B: CostTree(feature_costs=prices, benefits=B, random_state=0)),
    "nothing": bought("nothing"),
    "all asked for": bought("all"),
    "lightgbm": rivals.lightgbm,
    "l1 path": rivals.l1_path,
    "greedy subset": rivals.greedy_subset,
}


def own_errors(make: Callable[[], Any]) -> Callable[[Table], np.ndarray]:
    """The errors at SHARES of the features, between the mean costs of many benefits of the right class."""

    def errors(table: Table) -> np.ndarray:
        model, prices = fitted(make(), table), table.prices
        n_features = table.X.shape[1]
        classes = list(range(table.truth.max() + 1))
        ready = AcquisitionModel.of(model, [str(j) for j in range(n_features)], classes, prices)
        run = model.model_.travel(table.new, prices)
        n, S = run.asked.shape
        states = np.broadcast_to(np.arange(S + 1), (n, S + 1))
        finished = states == run.length[:, None]
        P = ready.probabilities(run.P.reshape(n * (S + 1), -1), states.ravel(), finished.ravel())
        points = []
        for size in SIZES:
            B = size * np.eye(P.shape[1])
            worth = ready.worth(B, prices, None)
            assert worth is not None
            stops = states >= run.length[:, None]
            stops[:, :S] |= worth.stops(run.asked, run.price, at_stake(P, B).reshape(n, S + 1)[:, :S])
            ends = stops.argmax(axis=1)
            told = P.reshape(n, S + 1, -1)[np.arange(n), ends].argmax(axis=1)
            points.append((run.spent[np.arange(n), ends].mean() / n_features, (told != table.truth).mean()))
        return at_shares(points)

    return errors


ERRORS: dict[str, Callable[[Table], np.ndarray]] = {
    "forest_chain": own_errors(lambda: ForestChain(random_state=0)),
    "random_forest": own_errors(
        lambda: RandomForest(n_estimators=40, max_features=None, calibration="none", random_state=0)
    ),
    "budget_forest": own_errors(lambda: BudgetForest(alpha=0, n_estimators=40, random_state=0)),
    "lightgbm": rivals.lightgbm_errors,
}


def compared(name: str, columns: list[str], found: dict[str, np.ndarray]) -> None:
    """A line for each learner: its mean, and its difference to the chain with the standard error over the seeds."""
    print(f"{'':32}" + "".join(f"{column:>26}" for column in columns))
    for learner, runs in found.items():
        gaps = runs - found.get("forest_chain", runs)
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else gaps[0] * np.nan
        cells = zip(runs.mean(axis=0), gaps.mean(axis=0), errors, strict=True)
        print(f"{name:16}{learner:16}" + "".join(f"{m:11.4g} ({g:6.3g}±{e:5.3g})" for m, g, e in cells), flush=True)


def money(sets: list[str], learners: list[str], seeds: int) -> None:
    for name in sets:
        X, y, prices = priced(name)
        matrices = [scale * np.array(CASES[name], dtype=float) for scale in SCALES]
        tables = [
            [
                Table(X[i], y[i], X[o], y[o], prices)
                for i, o in StratifiedKFold(2, shuffle=True, random_state=s).split(y, y)
            ]
            for s in range(seeds)
        ]
        found = {}
        for learner in learners:
            start = time.perf_counter()
            runs = [[EARN[learner](table, matrices) for table in folds] for folds in tables]
            found[learner] = np.array(runs).mean(axis=1)
            print(f"  {name} {learner} {time.perf_counter() - start:.0f} s", flush=True)
        compared(name, [f"x {scale:g}" for scale in SCALES], found)


def shares(learners: list[str], seeds: int) -> None:
    tables, found = [covtype(seed) for seed in range(seeds)], {}
    for learner in learners:
        start = time.perf_counter()
        found[learner] = np.array([ERRORS[learner](table) for table in tables])
        print(f"  covtype {learner} {time.perf_counter() - start:.0f} s", flush=True)
    compared("covtype", [f"{share:.0%}" for share in SHARES], found)


def show_quadrants() -> None:
    """Error and mean cost on new rows, and what each path of the tree asks for."""
    model = CostTree(**QUADRANTS, random_state=0).fit(*quadrants(2000, 0))
    X, y = quadrants(2000, 100)
    error = np.square(model.predict(X) - y).mean()
    print(f"error and mean cost{error:11.1e}{simulate(model.model_, X, model.prices_).cost.mean():7.2f}")
    for node in model.outline(NAMES):
        print(node)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("money", "shares", "quadrants"))
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--learners", nargs="+", choices=list(EARN), default=list(EARN))
    parser.add_argument("--seeds", type=int)
    chosen = parser.parse_args()
    if "lightgbm" in chosen.learners and find_spec("lightgbm") is None:
        print("lightgbm is left out: it is not installed")
        chosen.learners.remove("lightgbm")
    for call in CALLS.values():
        call()
    if chosen.what == "money":
        money(chosen.only, chosen.learners, chosen.seeds or 5)
    elif chosen.what == "shares":
        shares([name for name in chosen.learners if name in ERRORS], chosen.seeds or 3)
    else:
        show_quadrants()


if __name__ == "__main__":
    main()
