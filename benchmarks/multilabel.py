"""Sets of labels on new rows: what they were expected to cost, and what they cost.

Each set of data is divided at random with each seed: 1,000 rows train, up to 1,000 others are judged. `sampled` is the
method of `/retrieve` for labels that depend on one another; the other rows take the best set of independent labels.
Only scene is a real task of several labels. In the sets of classes the labels are the classes, of which one is true.
The simulated ones: scikit-learn's `make_multilabel_classification`; six labels that are independent given the
features; two groups of three labels, one of each group; six labels with a common cause that is no feature.

    .venv/bin/python benchmarks/multilabel.py [--sets scene,groups] [--seeds 5] [--data ../shared/data]

The smallest work: `.venv/bin/python benchmarks/multilabel.py --sets groups --seeds 1`
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from decisions import DATA, load
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier

from app.learners.multilabel import MultilabelForest, MultilabelLogistic
from app.retrieval.losses import Terms
from app.retrieval.sampled import select_sampled
from app.retrieval.selection import select_many
from tests.reference.losses import f_beta, jaccard

ROWS = 1000
LOSSES = (f_beta(), jaccard())
CLASSES = ("ecoli", "glass", "image_segmentation", "covtype_20k")
SIMULATED = ("topics", "independent", "groups", "common_cause")
Table = tuple[np.ndarray, np.ndarray]


def scene(folder: Path) -> Table:
    with gzip.open(folder / "scene.csv.gz", "rt") as file:
        head, *rows = csv.reader(file)
    label = np.array([name.startswith("label_") for name in head])
    values = np.array(rows)[:, np.array(head) != "split"]
    label = label[np.array(head) != "split"]
    return np.where(values == "", "nan", values)[:, ~label].astype(float), values[:, label].astype(int)


def simulated(name: str, seed: int) -> Table:
    rng, n = np.random.default_rng(seed), 2 * ROWS
    if name == "topics":
        X, Y = make_multilabel_classification(n, 20, n_classes=5, length=40, random_state=seed)
        return X.astype(float), Y
    X = rng.normal(size=(n, 15))
    odds = X @ rng.normal(size=(15, 6)) / 2
    if name == "groups":
        utility = (odds + 1.5 * rng.gumbel(size=odds.shape)).reshape(n, 2, 3)
        return X, (utility == utility.max(axis=2, keepdims=True)).reshape(n, 6).astype(int)
    cause = 3 * rng.normal(size=(n, 1)) if name == "common_cause" else 0
    return X, (odds + cause - 1 > rng.logistic(size=odds.shape)).astype(int)


def table(name: str, seed: int, folder: Path) -> Table:
    if name in SIMULATED:
        return simulated(name, seed)
    if name == "scene":
        return scene(folder)
    X, y, _ = load(folder, name)
    return X, np.eye(y.max() + 1, dtype=int)[y][:, np.bincount(y) >= 15]


def independent(P: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """For each loss the best sets (n, L) as 0 and 1, and their mean expected loss."""
    n, L = P.shape
    for loss in LOSSES:
        found = select_many(P.ravel(), np.arange(n + 1) * L, Terms(loss))
        chosen = np.zeros((n, L), dtype=int)
        for row, (begin, k) in zip(chosen, zip(found.offsets, found.k, strict=False), strict=True):
            row[found.order[begin : begin + k]] = 1
        yield chosen, found.expected_loss.mean()


def sampled(model: MultilabelForest, X: np.ndarray, P: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    for loss in LOSSES:
        found = select_sampled((vectors[:2] for vectors in model.label_vectors(X)), P, Terms(loss))
        chosen = np.zeros(P.shape, dtype=int)
        chosen[np.repeat(np.arange(len(P)), found.k), found.order] = 1
        yield chosen, found.figures[0].mean()


def run(X: np.ndarray, Y: np.ndarray, new: np.ndarray, seed: int) -> dict[str, Iterator[tuple[np.ndarray, float]]]:
    forest = MultilabelForest(random_state=seed).fit(X, Y)
    P = forest.posterior(new)
    theirs = RandomForestClassifier(random_state=seed).fit(X, Y)
    raw = np.column_stack([p[:, list(c).index(1)] if 1 in c else np.zeros(len(new))
                           for p, c in zip(theirs.predict_proba(new), theirs.classes_, strict=True)])  # fmt: skip
    return {
        "multilabel_forest, sampled": sampled(forest, new, P),
        "multilabel_forest": independent(P),
        "multilabel_logistic": independent(MultilabelLogistic(random_state=seed).fit(X, Y).posterior(new)),
        "scikit-learn's forest": independent(raw),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(("scene", *CLASSES, *SIMULATED)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    print("Mean loss, and mean expected loss in brackets; in the last column the standard error of the difference to")
    print("'sampled' over seeds, F1 and Jaccard")
    for name in options.sets.split(","):
        figures: dict[str, list[list[float]]] = {}
        for seed in range(options.seeds):
            X, Y = table(name, seed, options.data)
            order = np.random.default_rng(seed).permutation(len(X))
            cut = min(ROWS, len(X) // 2)
            train, test = order[:cut], order[cut : 2 * cut]
            for way, answers in run(X[train], Y[train], X[test], seed).items():
                line = figures.setdefault(way, [])
                line.append([])
                for loss, (chosen, expected) in zip(LOSSES, answers, strict=True):
                    truth = Y[test]
                    real = loss.of_counts((chosen * truth).sum(1), chosen.sum(1), truth.sum(1), truth.shape[1])
                    line[-1] += [float(real.mean()), float(expected)]
        print(f"{name}: {Y.shape[1]} labels, {Y.sum(axis=1).mean():.2f} a row", flush=True)
        best = np.array(figures["multilabel_forest, sampled"])
        for way, lines in figures.items():
            f1, f1_said, j, j_said = np.mean(lines, axis=0)
            error = (np.array(lines) - best).std(axis=0, ddof=min(1, len(lines) - 1)) / len(lines) ** 0.5
            print(
                f"  {way:28}F1 {f1:.3f} ({f1_said:.3f})  Jaccard {j:.3f} ({j_said:.3f})  {error[0]:.3f} {error[2]:.3f}"
            )


if __name__ == "__main__":
    main()
