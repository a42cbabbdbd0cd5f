"""Values that are missing in service alone: what an answer is worth by each way to treat them.

Models are trained on complete rows, and asked about unseen rows that lack 1, 3 or half of their features, drawn anew for
each row. The tables of benchmarks/missing_in_service.md: log loss, and the share of the range from one action for all to
perfect knowledge that decisions earn, by random matrices and by those in which rare classes are expensive.

    .venv/bin/python benchmarks/missing_in_service.py [--sets electricity] [--learners logistic] [--seeds 1]

`payoff` is what the service does. `as if nothing`: the model alone, whose trees send such rows to the larger child. The
imputers are scikit-learn's, before the same learner; categories get the most common one. `any value`: the mean over 40
training values. `masked copies`: the learner trained on rows that lack up to three quarters of their values.
`both branches`: trees descend to both children by their shares of training rows (random_forest alone).

The smallest work: `.venv/bin/python benchmarks/missing_in_service.py --sets heart_cleveland --learners logistic`
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import load
from defaults import judge, random_matrices
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes the next import possible
from sklearn.impute import IterativeImputer, SimpleImputer

from payoff.learners.catalogue import resolve

SETS = (
    "breast_cancer",
    "german_credit",
    "heart_cleveland",
    "electricity",
    "image_segmentation",
    "spambase",
)
LEARNERS: dict[str, dict[str, Any]] = {
    "random_forest": {"n_estimators": 100},
    "gradient_boosting": {"max_iter": 40},
    "logistic": {},
}
TRAIN_ROWS = 600
TEST_ROWS = 200
DRAWN = 40
_FLOOR = 1e-6


class Table:
    """Rows to learn from and to be asked about, their classes, and the categorical columns."""

    def __init__(self, name: str, seed: int) -> None:
        if name == "breast_cancer":
            X, y = load_breast_cancer(return_X_y=True)
            self.categorical: list[int] = []
        else:
            X, y, categorical = load(name)
            self.categorical = list(categorical)
        complete = ~np.isnan(X).any(axis=1)
        X, y = X[complete], y[complete]
        order = np.random.default_rng(seed).permutation(len(X))
        inside = order[: min(TRAIN_ROWS, int(0.6 * len(X)))]
        classes, self.y = np.unique(y[inside], return_inverse=True)
        outside = order[len(inside) :]
        outside = outside[np.isin(y[outside], classes)][:TEST_ROWS]
        self.X, self.new = X[inside], X[outside]
        self.truth = np.searchsorted(classes, y[outside])
        self.numeric = [j for j in range(X.shape[1]) if j not in self.categorical]

    def fit(self, kind: str, X: np.ndarray) -> Any:
        learner = resolve({"kind": kind} | LEARNERS[kind])
        built = learner.build(
            categorical_features=self.categorical, benefits=None, random_state=0
        )
        return built.fit(X, self.y)

    def masked(self, count: int) -> np.ndarray:
        """The unseen rows without `count` of their values."""
        rng = np.random.default_rng(7)
        rows = self.new.copy()
        for row in rows:
            row[rng.permutation(len(row))[:count]] = np.nan
        return rows

    def masked_training_rows(self) -> np.ndarray:
        """The training rows, of which four fifths lack up to three quarters of their values."""
        rng = np.random.default_rng(1)
        share = rng.uniform(0, 0.75, len(self.X)) * (rng.random(len(self.X)) < 0.8)
        return np.where(rng.random(self.X.shape) < share[:, None], np.nan, self.X)


def imputing(table: Table) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Both imputers, fitted on the training rows."""
    mean = SimpleImputer().fit(table.X[:, table.numeric])
    most_common = SimpleImputer(strategy="most_frequent").fit(table.X)
    iterative = IterativeImputer(max_iter=5, random_state=0).fit(table.X)

    def simple(rows: np.ndarray) -> np.ndarray:
        filled = most_common.transform(rows)
        filled[:, table.numeric] = mean.transform(rows[:, table.numeric])
        return np.ascontiguousarray(filled)

    def chained(rows: np.ndarray) -> np.ndarray:
        filled = np.ascontiguousarray(iterative.transform(rows))
        filled[:, table.categorical] = most_common.transform(rows)[:, table.categorical]
        return filled

    return {"SimpleImputer": simple, "IterativeImputer": chained}


def any_value(table: Table, model: Any, rows: np.ndarray) -> np.ndarray:
    """The mean answer over `DRAWN` training rows in turn that lend all that is missing."""
    lenders = table.X[np.random.default_rng(0).permutation(len(table.X))[:DRAWN]]
    return np.mean(
        [model.posterior(np.where(np.isnan(rows), lender, rows)) for lender in lenders],
        axis=0,
    )


def both_branches(model: Any, rows: np.ndarray) -> np.ndarray:
    """A forest's answer where a row without a value goes to both children by their shares."""
    forest = model.model_
    nodes = forest.nodes
    ranks = forest.orders.apply(rows)
    weight = np.zeros((len(nodes.right), len(rows)))
    weight[nodes.roots] = 1.0
    P = np.zeros((len(rows), forest.n_classes))
    for node, right in enumerate(nodes.right):
        if right < 0:
            P += weight[node][:, None] * nodes.value[-1 - right]
            continue
        x = ranks[:, nodes.column[node]]
        share = nodes.cover[node + 1] / (nodes.cover[node + 1] + nodes.cover[right])
        goes_left = np.where(np.isnan(x), share, x <= nodes.threshold[node])
        weight[node + 1] += weight[node] * goes_left
        weight[right] += weight[node] * (1 - goes_left)
    P /= P.sum(axis=1, keepdims=True)
    return P if model.calibrator_ is None else np.asarray(model.calibrator_.apply(P))


def answers(table: Table, kind: str) -> Iterator[tuple[str, str, np.ndarray]]:
    """Each way, how much is missing, and the probabilities (n, K)."""
    model = table.fit(kind, table.X)
    masked = table.fit(kind, table.masked_training_rows())
    imputers = imputing(table)
    m = table.X.shape[1]
    yield "complete rows", "none", model.posterior(table.new)
    for missing, count in (("1", 1), ("3", 3), ("half", m // 2)):
        rows = table.masked(count)
        yield "payoff", missing, model.posterior(rows)
        yield "as if nothing", missing, model.complete_posterior(rows)
        for name, impute in imputers.items():
            yield name, missing, model.posterior(impute(rows))
        yield "any value", missing, any_value(table, model, rows)
        yield "masked copies", missing, masked.posterior(rows)
        if kind == "random_forest":
            yield "both branches", missing, both_branches(model, rows)


def judged(
    P: np.ndarray, truth: np.ndarray, matrices: list[np.ndarray]
) -> tuple[float, float, float]:
    """The log loss, and the mean share of the range by random and by rare-and-expensive matrices."""
    loss = -np.log(np.maximum(P[np.arange(len(P)), truth], _FLOOR)).mean()
    shares = np.array([judge(P, truth, B)[0] for B in matrices])
    return float(loss), float(np.nanmean(shares[::2])), float(np.nanmean(shares[1::2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.process_time()
    results = defaultdict(list)
    for kind in asked.learners.split(","):
        for name in asked.sets.split(","):
            for seed in range(asked.seeds):
                table = Table(name, seed)
                matrices = random_matrices(np.bincount(table.y) / len(table.y), seed)
                for way, missing, P in answers(table, kind):
                    results[kind, missing, way].append(judged(P, table.truth, matrices))
    print(
        "| learner | missing | way | log loss | random matrices | rare and expensive |"
    )
    print("|---|---|---|---|---|---|")
    for (kind, missing, way), figures in sorted(
        results.items(), key=lambda item: item[0][:2]
    ):
        loss, usual, rare = np.mean(figures, axis=0)
        print(f"| {kind} | {missing} | {way} | {loss:.3f} | {usual:.3f} | {rare:.3f} |")
    print(f"\n{time.process_time() - started:.0f} s of one core")


if __name__ == "__main__":
    main()
