"""Error, cost and time of forests that pay for features: Covertype, 20,000 rows, every feature at price 1.

    python benchmarks/acquisition.py [folder of covtype_20k.csv.gz, default ../shared/data]

Trains on 12,000 random rows and decides on the other 8,000. The cost of a row is what it looks at, each feature once
over the whole forest: for all trees ("complete"), and asking feature by feature until the vote cannot change any more
("asked"), which gives the same classes. One thread. As table 1 of Nan, Wang, Saligrama,
"Feature-Budgeted Random Forest" (2015).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.forest import FlatForest
from app.acquisition.prices import Prices
from app.acquisition.session import simulate, step
from app.acquisition.warming import warm
from app.learners.budget_forest import BudgetForest

TRAINED = 12_000
SIZES = (1, 10, 20, 40)


def timed(call: Callable[[], object], repeats: int = 1) -> float:
    """The quickest of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def budgeted(X: np.ndarray, y: np.ndarray, trees: int) -> FlatForest:
    return BudgetForest(alpha=0, n_estimators=trees, random_state=0).fit(X, y).model_


def ordinary(X: np.ndarray, y: np.ndarray, trees: int, features: str | None) -> FlatForest:
    model = RandomForestClassifier(trees, max_features=features, random_state=0, n_jobs=1).fit(X, y)
    return FlatForest.from_sklearn(model)


def main(folder: Path) -> None:
    table = np.loadtxt(folder / "covtype_20k.csv.gz", delimiter=",", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))]
    X, y = np.ascontiguousarray(table[:, :-1]), np.unique(table[:, -1], return_inverse=True)[1]
    inside, outside = slice(TRAINED), slice(TRAINED, None)
    prices = Prices.unit(X.shape[1])
    growers: dict[str, Callable[[int], FlatForest]] = {
        "budget forest": lambda trees: budgeted(X[inside], y[inside], trees),
        "random forest, all features": lambda trees: ordinary(X[inside], y[inside], trees, None),
        "random forest, sqrt": lambda trees: ordinary(X[inside], y[inside], trees, "sqrt"),
    }
    warm()
    budgeted(X[:500], y[:500], 1)
    print(f"{'forest':30}{'trees':>6}{'error':>8}{'complete %':>12}{'asked %':>9}{'questions':>11}{'fit s':>8}")
    for name, grow in growers.items():
        for trees in SIZES:
            start = time.perf_counter()
            forest = grow(trees)
            seconds = time.perf_counter() - start
            plain = simulate(forest, X[outside], prices, stop_when_settled=False)
            asked = simulate(forest, X[outside], prices)
            assert (plain.prediction == asked.prediction).all()
            shares = [100 * run.cost.mean() / X.shape[1] for run in (plain, asked)]
            error = (plain.prediction != y[outside]).mean()
            print(f"{name:30}{trees:6}{error:8.4f}{shares[0]:12.2f}{shares[1]:9.2f}"
                  f"{asked.questions.mean():11.2f}{seconds:8.2f}")  # fmt: skip
        answer(forest, X[outside], prices)


def answer(forest: FlatForest, X: np.ndarray, prices: Prices) -> None:
    """How long the last and largest forest takes to say what to ask next."""
    batch = np.resize(X, (10_000, X.shape[1]))
    status = np.zeros(batch.shape, dtype=np.int32)
    status[:, [0, 5, 9]] = 1
    one = timed(lambda: step(forest, batch[:1], status[:1], prices)[0], 50)
    many = timed(lambda: list(step(forest, batch, status, prices)), 3)
    print(f"  one case {1e6 * one:.0f} microseconds; 10,000 cases in one call {1e3 * many:.0f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared" / "data")
