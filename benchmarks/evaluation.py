"""How far the figures in a card are from what the published model does, evaluated on a hold-out or by cross-validation.

A small table is drawn from each set, and the rest stands for future cases. The model is published as the service does:
fitted on all rows of the table with the calibration of the first fit. The error is the absolute difference between
accuracy, or mean benefit per row, in the card and on the rest; benefits are scaled so that the range from the best
single action to perfect knowledge is 1.

    .venv/bin/python benchmarks/evaluation.py [--sets glass] [--learners logistic] [--rows 150] [--seeds 20] [--folder]

The smallest work: `.venv/bin/python benchmarks/evaluation.py --sets glass --learners logistic --rows 150 --seeds 1`
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from decisions import DATA, load
from defaults import random_matrices

from app.decisions.benefit import decide, row_benefits
from app.learners.catalogue import KINDS, resolve
from app.usecases.evaluation import folds_of, split_rows

SETS = ("german_credit", "heart_cleveland", "glass")
LEARNERS = ("logistic", "random_forest", "gradient_boosting")
MATRICES = 10


def figures(P: np.ndarray, y: np.ndarray, matrices: list[np.ndarray], ranges: np.ndarray) -> np.ndarray:
    """Accuracy, and the mean benefit of the decisions with each matrix."""
    earned = [row_benefits(y, decide(P, B).choice, B).mean() for B in matrices]
    return np.concatenate(([(P.argmax(axis=1) == y).mean()], np.array(earned) / ranges))


def one(kind: str, X: np.ndarray, y: np.ndarray, categorical: tuple[int, ...], rows: int, seed: int) -> np.ndarray:
    """Errors of accuracy and of benefit, hold-out then cross-validation, and the seconds that both take."""
    K = int(y.max()) + 1
    inside = split_rows(y, min(rows / len(y), 0.5), seed).holdout
    outside = np.setdiff1d(np.arange(len(y)), inside)
    shares = np.bincount(y, minlength=K) / len(y)
    matrices = random_matrices(shares, seed, MATRICES, (2, 3), square=False)
    ranges = np.array([shares @ B.max(axis=1) - (shares @ B).max() for B in matrices])
    matrices, ranges = [B for B, span in zip(matrices, ranges, strict=True) if span > 0.1], ranges[ranges > 0.1]
    X, y, X_rest, y_rest = X[inside], y[inside], np.ascontiguousarray(X[outside]), y[outside]

    def fitted(chosen: np.ndarray):
        learner = KINDS[kind].build(resolve({"kind": kind})[1], categorical_features=list(categorical), random_state=0)
        return learner.fit(X[chosen], y[chosen])

    def answers(model, chosen: np.ndarray) -> np.ndarray:
        P = np.zeros((len(chosen), K))
        P[:, model.classes_] = model.posterior(np.ascontiguousarray(X[chosen]))
        return P

    split = split_rows(y, 0.25, seed)
    began = perf_counter()
    model = fitted(split.train)
    scores = {0: answers(model, split.holdout)}
    between = perf_counter()
    fold = folds_of(y, split, 4, seed)
    for number in range(1, 4):
        scores[number] = answers(fitted(np.flatnonzero(fold != number)), np.flatnonzero(fold == number))
    after = perf_counter()
    model.refit(X, y)
    refit = perf_counter() - after
    P_rest = np.zeros((len(y_rest), K))
    P_rest[:, model.classes_] = model.posterior(X_rest)
    truth = figures(P_rest, y_rest, matrices, ranges)
    order = np.concatenate([np.flatnonzero(fold == number) for number in range(4)])
    found = [
        np.abs(figures(scores[0], y[split.holdout], matrices, ranges) - truth),
        np.abs(figures(np.concatenate(list(scores.values())), y[order], matrices, ranges) - truth),
    ]
    errors = [value for error in found for value in (error[0], error[1:].mean())]
    return np.array([*errors, between - began + refit, after - began + refit])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DATA)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--rows", default="150,300")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| set | rows (<= half) | learner | accuracy: hold-out, crossed | benefit: the same | seconds: the same |")
    for name in arguments.sets.split(","):
        X, y, categorical = load(arguments.folder, name)
        for rows in map(int, arguments.rows.split(",")):
            if rows > len(y) * 0.75:
                continue
            for kind in arguments.learners.split(","):
                seeds = range(arguments.seeds)
                a, b, c, d, *times = np.mean([one(kind, X, y, categorical, rows, seed) for seed in seeds], axis=0)
                line = f"| {name} | {rows} | {kind} | {a:.3f}, {c:.3f} | {b:.3f}, {d:.3f} |"
                print(f"{line} {times[0]:.2f}, {times[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
