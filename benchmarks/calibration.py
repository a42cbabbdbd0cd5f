"""Which calibration helps at which size: mean log loss on new rows, by the rows of the smallest class in training.

The thresholds of `calibration: auto` come from this table: the method with the smaller loss on most of the sets.

    python benchmarks/calibration.py [folder of data sets]
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import numpy as np

from app.decisions.metrics import holdout_metrics
from app.learners.catalogue import resolve

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
SETS = {"spambase": None, "pima_diabetes": None, "thyroid_ann": "3", "covtype_20k": "2", "image_segmentation": None}
SIZES = (6, 10, 20, 50, 200, 500, 1000, 1500)
METHODS = ("none", "sigmoid", "isotonic")


def load(path: Path, positive: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n, m) and labels (n,); with `positive`, that class against the rest."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    used = [j for j, name in enumerate(header) if name not in {"label", "split"}]
    labels = np.array([line[header.index("label")] for line in lines])
    X = np.array([[float(line[j]) for j in used] for line in lines])
    return X, labels if positive is None else labels == positive


def losses(kind: str, X: np.ndarray, y: np.ndarray, n: int, repetitions: int) -> list[float]:
    """Mean log loss of each method, trained on n rows."""
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(repetitions):
        order = np.random.default_rng(seed).permutation(len(y))
        inside, outside = order[:n], order[n : n + 5000]
        if len(np.unique(y[inside])) < len(np.unique(y)):
            continue
        for method in METHODS:
            learner, parameters = resolve({"kind": kind, "calibration": method})
            model = learner.build(parameters, random_state=seed).fit(X[inside], y[inside])
            codes = np.searchsorted(model.classes_, y[outside])
            found[method].append(holdout_metrics(model.posterior(X[outside]), codes, model.classes_)["log_loss"])
    return [float(np.mean(values)) for values in found.values()]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print(f"{'kind':<17}{'data':<19}{'smallest class':>14}" + "".join(f"{method:>10}" for method in METHODS))
    for kind in ("logistic", "cost_naive_bayes"):
        for name, positive in SETS.items():
            X, y = load(folder / f"{name}.csv.gz", positive)
            share = np.unique(y, return_counts=True)[1].min() / len(y)
            for size in SIZES:
                n = int(size / share)
                if n < 0.7 * len(y):
                    row = losses(kind, X, y, n, 10 if size < 200 else 3)
                    print(f"{kind:<17}{name:<19}{size:>14}" + "".join(f"{value:>10.4f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
