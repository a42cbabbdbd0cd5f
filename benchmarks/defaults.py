"""What every learner earns untuned, beside the defaults of others: benefit on rows that chose nothing.

Each set is split 70 : 30 with each seed (at most 3,000 and 4,000 rows). Every model decides the test rows under 30
random matrices of 2, 3 and 5 actions; in every other one a class costs in inverse proportion to its share. The first
number is the share of the range from the best single action for all rows (0) to knowledge of every class (1). The
second is the loss that the model promises over the loss that occurs, both against knowledge of every class and summed
over the matrices: below 1 the model is overconfident, above 1 too cautious. The third is the share of matrices of which
that ratio is outside 0.9 to 1.1. The fourth is the median time of a fit with its predictions.

    .venv/bin/python benchmarks/defaults.py [--sets glass,ecoli] [--learners logistic,auto] [--seeds 5] [--folder DATA]

The ± is the standard error, over the splits, of the difference to `auto`, or to `--against`.

Learners that train with a matrix have a table of their own, with three square matrices, each of them a fit. LightGBM
and, for two classes, empulse take part where they are installed.

The smallest work: `.venv/bin/python benchmarks/defaults.py --sets glass --learners logistic --seeds 1`
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from decisions import DATA, load
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.decisions.benefit import decide, row_benefits
from app.learners.catalogue import KINDS, resolve

SETS = (
    "german_credit", "pima_diabetes", "heart_cleveland", "breast_cancer_wisconsin", "glass", "ecoli",
    "image_segmentation", "spambase", "thyroid_ann", "covtype_20k", "letter",
)  # fmt: skip
MATRICES = 30
TRAINED_WITH = 3  # matrices for learners that train with one
FIRST_SEED = 10  # smaller ones split the sets when defaults were chosen
TRAIN_ROWS, TEST_ROWS = 3000, 4000


def split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, class by class; a class of one row is trained on."""
    rng = np.random.default_rng(seed)
    inside, outside = [], []
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        cut = max(1, round(0.7 * len(rows)))
        inside.append(rows[:cut])
        outside.append(rows[cut:])
    train, test = rng.permutation(np.concatenate(inside)), rng.permutation(np.concatenate(outside))
    return train[:TRAIN_ROWS], test[:TEST_ROWS]


def random_matrices(
    shares: np.ndarray, seed: int, count: int, actions: Sequence[int], *, square: bool
) -> list[np.ndarray]:
    """Benefits (K, A): some action is right for each class and gains 1 to 10, the others lose 1 to 30.

    In a `square` matrix the right action is that of the class's own column.
    """
    rng = np.random.default_rng([seed, len(actions)])
    made: list[np.ndarray] = []
    while len(made) < count:
        A = actions[len(made) % len(actions)]
        right = np.arange(len(shares)) if square else rng.integers(0, A, len(shares))
        if len(set(right)) < 2:
            continue
        B = -np.exp(rng.uniform(0, np.log(30), (len(shares), A)))
        B[np.arange(len(shares)), right] = np.exp(rng.uniform(0, np.log(10), len(shares)))
        rare = (len(shares) * np.maximum(shares, 1e-3))[:, None]
        made.append(B / rare if len(made) % 2 else B)
    return made


def judge(P: np.ndarray, y: np.ndarray, B: np.ndarray) -> tuple[float, float, float]:
    """The share of the range that was earned (NaN where one action is nearly right for all), promised, realised loss.

    Losses are regrets against the best action of each class, in units of the matrix's mean benefit without sign.
    """
    decision = decide(P, B)
    earned = row_benefits(y, decision.choice, B).mean()
    best = B.max(axis=1)
    constant, perfect, scale = B[y].mean(axis=0).max(), best[y].mean(), np.abs(B[y]).mean()
    promised = (P @ best - decision.expected_benefits.max(axis=1)).mean()
    share = (earned - constant) / (perfect - constant) if perfect - constant > 0.02 * scale else np.nan
    return float(share), float(promised / scale), float((perfect - earned) / scale)


@dataclass(frozen=True)
class Task:
    """Rows to learn from, their class codes, the categorical columns, a matrix or None, and a seed."""

    X: np.ndarray
    y: np.ndarray
    categorical: list[int]
    B: np.ndarray | None
    seed: int


def ours(kind: str, **changed: Any) -> Callable[[Task], Any]:
    """The service's learner with its defaults, but for those changed."""

    def fit(task: Task) -> Any:
        one = resolve({"kind": kind, **changed})
        built = one.build(
            categorical_features=task.categorical,
            benefits=task.B if one.uses_benefits else None,
            random_state=task.seed,
        )
        return built.fit(task.X, task.y)

    return fit


def prepared(task: Task, model: Any) -> Any:
    """Imputing, scaling and one-hot columns before a model, as its users write them."""
    numeric = [j for j in range(task.X.shape[1]) if j not in task.categorical]
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return make_pipeline(make_column_transformer((numbers, numeric), (words, task.categorical)), model)


def calibrated(task: Task, model: Any, method: str = "sigmoid") -> Any:
    """The model with scikit-learn's calibration on up to five folds."""
    smallest = int(np.bincount(task.y).min())
    whole = CalibratedClassifierCV(model, method=method, cv=min(5, smallest)) if smallest > 1 else model
    return whole.fit(task.X, task.y)


def sklearn_logistic(task: Task) -> Any:
    return prepared(task, LogisticRegression(max_iter=1000)).fit(task.X, task.y)


def sklearn_forest(task: Task) -> Any:
    return calibrated(task, prepared(task, RandomForestClassifier(random_state=task.seed)))


def sklearn_forest_isotonic(task: Task) -> Any:
    return calibrated(task, prepared(task, RandomForestClassifier(random_state=task.seed)), "isotonic")


def sklearn_boosting(task: Task) -> Any:
    columns = task.categorical or None
    return calibrated(task, HistGradientBoostingClassifier(categorical_features=columns, random_state=task.seed))


def lightgbm_isotonic(task: Task) -> Any:
    from lightgbm import LGBMClassifier  # noqa: PLC0415 - optional

    return calibrated(task, LGBMClassifier(random_state=task.seed, verbose=-1, n_jobs=1), "isotonic")


class _Decided:
    """Decisions of a model that trains with costs, as certainties: its own rule decides, not the expected benefit."""

    def __init__(self, model: Any, prepare: Any) -> None:
        self.model, self.prepare = model, prepare

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        certain: np.ndarray = np.eye(2)[self.model.predict(self.prepare.transform(X)).astype(int)]
        return certain


def empulse(kind: str) -> Callable[[Task], Any]:
    """A cost-sensitive model of empulse for two classes, with what each mistake costs."""

    def fit(task: Task) -> Any:
        from empulse import models  # noqa: PLC0415 - optional

        assert task.B is not None
        losses = task.B.max(axis=1, keepdims=True) - task.B
        right = losses.argmin(axis=1)
        costs = {"fp_cost": float(losses[0, right[1]]), "fn_cost": float(losses[1, right[0]])}
        prepare = prepared(task, "passthrough").fit(task.X, task.y)
        model = getattr(models, kind)()
        return _Decided(model.fit(prepare.transform(task.X), task.y, **costs), prepare)

    return fit


RIVALS: dict[str, Callable[[Task], Any]] = {
    "sklearn logistic": sklearn_logistic,
    "sklearn forest": sklearn_forest,
    "sklearn forest isotonic": sklearn_forest_isotonic,
    "random_forest leaf 1": ours("random_forest", min_samples_leaf=1),
    "random_forest 500": ours("random_forest", n_estimators=500),
    "sklearn boosting": sklearn_boosting,
    "LightGBM isotonic": lightgbm_isotonic,
}
TRAINED_RIVALS = {"empulse boosting": empulse("CSBoostClassifier"), "empulse logistic": empulse("CSLogitClassifier")}


def contenders(chosen: str) -> dict[str, Callable[[Task], Any]]:
    """The learners by name, all or those chosen, separated by commas."""
    every = {name: ours(name) for name, kind in KINDS.items() if kind.labels == "one"} | RIVALS
    if importlib.util.find_spec("empulse"):
        every |= TRAINED_RIVALS
    if not importlib.util.find_spec("lightgbm"):
        del every["LightGBM isotonic"]
    return {name: every[name] for name in chosen.split(",")} if chosen else every


def trains_with_benefits(name: str) -> bool:
    return name in TRAINED_RIVALS or (name in KINDS and resolve({"kind": name}).takes("benefits"))


def run(
    table: tuple[np.ndarray, np.ndarray, tuple[int, ...]],
    fits: dict[str, Callable[[Task], Any]],
    seeds: int,
    *,
    square: bool,
    against: str = "auto",
    first: int = FIRST_SEED,
) -> dict[str, tuple[float, float, float, float, float]]:
    """Share, the standard error of its difference to `against`, promised over realised loss, share of matrices where
    they differ, and seconds of each contender.
    """
    X, y, columns = table
    categorical = list(columns)
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    for seed in range(first, first + seeds):
        train, test = split(y, seed)
        classes, codes = np.unique(y[train], return_inverse=True)
        test = test[np.isin(y[test], classes)]
        truth = np.searchsorted(classes, y[test])
        shares = np.bincount(codes) / len(codes)
        actions = (len(classes),) if square else (2, 3, 5)
        matrices = random_matrices(shares, seed, TRAINED_WITH if square else MATRICES, actions, square=square)
        for name, fit in fits.items():
            if name in TRAINED_RIVALS and len(classes) > 2:
                continue
            own: list[np.ndarray | None] = [*matrices] if square and trains_with_benefits(name) else [None]
            for B in own:
                began = perf_counter()
                P = fit(Task(X[train], codes, categorical, B, seed)).predict_proba(X[test])
                seconds[name].append(perf_counter() - began)
                found[name] += [judge(P, truth, each) for each in (matrices if B is None else [B])]
    result = {}
    for name, rows in found.items():
        share, promised, realised = np.array(rows).T
        ratio = float(promised.sum() / realised.sum())
        differ = float(np.mean(np.abs(promised - realised) > 0.1 * realised))
        behind = error_of_difference(share, np.array(found.get(against, rows))[:, 0], seeds)
        result[name] = (float(np.nanmean(share)), behind, ratio, differ, float(np.median(seconds[name])))
    return result


def error_of_difference(one: np.ndarray, other: np.ndarray, seeds: int) -> float:
    """The standard error over splits of the difference between two columns of shares, a block for each split."""
    means = np.nanmean((one - other).reshape(seeds, -1), axis=1)
    return float(means.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--learners", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--against", default="auto", help="the contender that standard errors are about")
    parser.add_argument("--folder", type=Path, default=DATA)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = contenders(chosen.learners)
    trained = {name: fit for name, fit in fits.items() if trains_with_benefits(name)}
    blind = {name: fit for name, fit in fits.items() if name not in trained or name == "auto"}
    plain = {name: fit for name, fit in blind.items() if name in {"logistic", "gradient_boosting"}}
    square_group = trained | plain if trained else {}
    for title, group, square in (("30 matrices", blind, False), ("3 square matrices", square_group, True)):
        if not group:
            continue
        table = {}
        for name in chosen.sets.split(","):
            table[name] = run(
                load(chosen.folder, name),
                group,
                chosen.seeds,
                square=square,
                against=chosen.against,
                first=chosen.first_seed,
            )
            print(f"\n{name}, {title}")
            for contender, (share, error, ratio, differ, seconds) in table[name].items():
                print(f"  {contender:24}{share:9.4f} ±{error:.4f}{ratio:9.3f}{differ:9.0%}{seconds:9.2f} s", flush=True)
        means = {
            name: float(np.mean([rows[name][0] for rows in table.values() if name in rows]))
            for name in group
            if any(name in rows for rows in table.values())
        }
        print(f"\nmean share over the sets, {title}")
        for contender in sorted(means, key=lambda one: -means[one]):
            print(f"  {contender:24}{means[contender]:9.4f}")


if __name__ == "__main__":
    main()
