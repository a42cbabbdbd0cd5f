"""Which way to decide earns most: the comparison of the benefit paper, with today's strong learners beside it.

benchmarks/decisions.md describes data, matrices and methods.

    .venv/bin/python benchmarks/decisions.py [--sets glass ecoli] [--repetitions 5]
    .venv/bin/python benchmarks/decisions.py --credit
    .venv/bin/python benchmarks/decisions.py --cases

What costs of three kinds cannot say, the rules that take them are given as means: C_HD, C_DH and C_DD are the mean
losses of the matrix, classes counting by their share in training.

`--credit`: the mean realised cost of a case of German credit, where a good customer refused costs 1 and a bad one
accepted 5, three times ten folds.

`--cases`: the benefit of a case where each has its own matrix, on the data sets that come with empulse, with the costs
that it states, beside its methods for costs of instances; two folds. It needs empulse 0.13 and LightGBM:
`pip install --target FOLDER empulse lightgbm`, and FOLDER in PYTHONPATH. In brackets the difference to `logistic` with
own matrices, ± its standard error over the cases.

The smallest work: `.venv/bin/python benchmarks/decisions.py --sets glass --repetitions 1`
"""

import argparse
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from common import load, preparing, standard_error
from joblib import Parallel, delayed, parallel_config
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from payoff.decisions.benefit import decide
from payoff.decisions.folds import stratified_folds
from payoff.decisions.rules import beta_delta, equivalent_benefits, hierarchical
from payoff.learners.benefit_logistic import BenefitLogistic
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.hierarchical_logistic import HierarchicalLogistic
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic

SETS = (
    "glass",
    "ecoli",
    "thyroid_ann",
    "heart_cleveland",
    "german_credit",
    "pima_diabetes",
)
TWO_CLASSES = ("german_credit", "pima_diabetes")
MATRICES, PROCESSES = 10, 2
PROPER = 8  # methods of the comparison; those after them are for orientation
COSTS = ("tn_cost", "fp_cost", "fn_cost", "tp_cost")
CASES: dict[
    str, tuple[str, Callable[[Mapping[str, np.ndarray]], Sequence[Any]]]
] = {  # the loader, COSTS as it says
    "telemarketing": (
        "load_upsell_bank_telemarketing",
        lambda of: (0, 1, np.maximum(SHARE * of["balance"], 1), 1),
    ),
    "credit, PAKDD": (
        "load_credit_scoring_pakdd",
        lambda of: (0, of["fp_cost"], 0.75 * of["cl"], 0),
    ),
    "credit, VUB": (
        "load_vub_credit_scoring",
        lambda of: (0, of["fp_cost"], 0.75 * of["cl"], 0),
    ),
    "churn": ("load_churn_tv_subscriptions", lambda of: [of[name] for name in COSTS]),
}
SHARE, RARE = (
    0.25 * 0.02463333,
    100,
)  # of a balance that a deposit earns; rows of a rare word
CREDIT = np.array(
    [[0.0, -1.0], [-5.0, 0.0]]
)  # rows: good, bad; columns: accept, refuse


def random_benefits(n_classes: int, seed: int) -> np.ndarray:
    """(MATRICES, K, K): gains on the diagonal, costs off it, each log-uniform from 1 to 100."""
    sizes = 10 ** np.random.default_rng(seed).uniform(
        0, 2, (MATRICES, n_classes, n_classes)
    )
    return np.where(np.eye(n_classes, dtype=bool), sizes, -sizes)


def random_costs(n_classes: int, majority: int, seed: int) -> np.ndarray:
    """(MATRICES, K, K) of three costs: one gain for being right, and C_DD, C_HD, C_DH above it, drawn as above."""
    drawn = 10 ** np.random.default_rng(seed).uniform(0, 2, (MATRICES, 4))
    return np.stack(
        [
            gain
            + equivalent_benefits(n_classes, majority, *(gain + cost for cost in costs))
            for gain, *costs in drawn
        ]
    )


MODELS: dict[str, Callable[..., object]] = {
    "plain": partial(Logistic, calibration="none"),
    "calibrated": Logistic,
    "bayes": partial(CostNaiveBayes, calibration="none"),
    "careful": CostNaiveBayes,
    "boosted": GradientBoosting,
    "kernel": KernelLogistic,
    "staged": HierarchicalLogistic,
}


class Fold:
    """Training rows, rows to decide, and models that are fitted once for all matrices."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        inside: np.ndarray,
        categorical: tuple[int, ...],
    ) -> None:
        self.X, self.y, self.rows = X[inside], y[inside], X[~inside]
        self.common = {"categorical_features": categorical, "random_state": 0}
        self.shares = np.bincount(self.y) / len(self.y)
        self.majority = int(self.shares.argmax())
        self._found: dict[str, np.ndarray] = {}

    def probabilities(self, model: str) -> np.ndarray:
        if model not in self._found:
            fitted = MODELS[model](**self.common).fit(self.X, self.y)
            self._found[model] = fitted.predict_proba(self.rows)
        return self._found[model]

    def costs(self, B: np.ndarray) -> tuple[float, float, float]:
        """C_DD, C_HD, C_DH nearest to B: mean losses against being right."""
        losses = np.diag(B)[:, None] - B
        others = np.delete(np.arange(len(B)), self.majority)
        weights = self.shares[others] / self.shares[others].sum()
        among = losses[np.ix_(others, others)].sum(axis=1) / max(len(others) - 1, 1)
        false_alarm, missed = (
            losses[self.majority, others] @ weights,
            weights @ losses[others, self.majority],
        )
        return float(weights @ among), float(false_alarm), float(missed)


def benefit_lr(fold: Fold, B: np.ndarray) -> np.ndarray:
    model = BenefitLogistic(benefits=B, calibration="none", **fold.common).fit(
        fold.X, fold.y
    )
    return model.predict(fold.rows)


def hierarchical_benefit_lr(fold: Fold, B: np.ndarray) -> np.ndarray:
    first, second = BenefitLogistic(calibration="none"), Logistic(calibration="none")
    model = HierarchicalLogistic(
        first=first, second=second, benefits=B, **fold.common
    ).fit(fold.X, fold.y)
    return model.predict(fold.rows)


def hierarchical_rule(fold: Fold, model: str, B: np.ndarray) -> np.ndarray:
    return hierarchical(
        fold.probabilities(model), fold.majority, *fold.costs(B)[1:]
    ).choice


METHODS: dict[str, Callable[[Fold, np.ndarray], np.ndarray]] = {
    "cost-blind LR": lambda fold, _B: fold.probabilities("plain").argmax(axis=1),
    "benefit LR": benefit_lr,
    "cost naive Bayes": lambda fold, B: decide(fold.probabilities("bayes"), B).choice,
    "HCSKLR, beta/Delta": lambda fold, B: (
        beta_delta(fold.probabilities("kernel"), fold.majority, *fold.costs(B)).choice
    ),
    "hierarchical": lambda fold, B: hierarchical_rule(fold, "staged", B),
    "hierarchical, benefit LR": hierarchical_benefit_lr,
    "`logistic`, `expected_benefit`": lambda fold, B: (
        decide(fold.probabilities("calibrated"), B).choice
    ),
    "`gradient_boosting`, `expected_benefit`": lambda fold, B: (
        decide(fold.probabilities("boosted"), B).choice
    ),
    "+ `cost_naive_bayes`, `expected_benefit`": lambda fold, B: (
        decide(fold.probabilities("careful"), B).choice
    ),
    "+ `kernel_logistic`, `hierarchical`": lambda fold, B: hierarchical_rule(
        fold, "kernel", B
    ),
    "+ `kernel_logistic`, `expected_benefit`": lambda fold, B: (
        decide(fold.probabilities("kernel"), B).choice
    ),
    "+ `gradient_boosting`, `most_probable`": lambda fold, _B: fold.probabilities(
        "boosted"
    ).argmax(axis=1),
    "+ one action for all": lambda fold, B: np.full(
        len(fold.rows), int((fold.shares @ B).argmax())
    ),
}


def one_fold(
    X: np.ndarray,
    y: np.ndarray,
    inside: np.ndarray,
    categorical: tuple[int, ...],
    Bs: np.ndarray,
) -> np.ndarray:
    """Summed benefit (methods, matrices) on the rows outside."""
    fold, truth = Fold(X, y, inside, categorical), y[~inside]
    return np.array(
        [[B[truth, method(fold, B)].sum() for B in Bs] for method in METHODS.values()]
    )


def compare(name: str, repetitions: int) -> np.ndarray:
    """The share mu (methods, 2 MATRICES) on one data set, free matrices first."""
    X, y, categorical = load(name)
    number = SETS.index(name)
    K, majority = int(y.max()) + 1, int(np.bincount(y).argmax())
    Bs = np.concatenate(
        (random_benefits(K, seed=number), random_costs(K, majority, seed=100 + number))
    )
    splits = [stratified_folds(y, 2, seed) for seed in range(repetitions)]
    tasks = [
        delayed(one_fold)(X, y, split != part, categorical, Bs)
        for split in splits
        for part in (0, 1)
    ]
    with parallel_config("loky", inner_max_num_threads=1):
        found = Parallel(PROCESSES)(tasks)
    judged = sum(np.bincount(y[split >= 0], minlength=Bs.shape[1]) for split in splits)
    return sum(found) / (np.diagonal(Bs, axis1=1, axis2=2) @ judged)


def credit() -> None:
    X, y, categorical = load("german_credit")
    plain = make_pipeline(
        preparing(X.shape[1], categorical), LogisticRegression(max_iter=1000)
    )
    ways = (
        "logistic + expected benefit",
        "scikit-learn, cut at 1/6",
        "scikit-learn, cost-blind",
        "refuse everybody",
    )
    cost = np.zeros((len(X), len(ways)))
    for seed in range(3):
        for inside, outside in StratifiedKFold(
            10, shuffle=True, random_state=seed
        ).split(X, y):
            own = Logistic(categorical_features=categorical, random_state=0).fit(
                X[inside], y[inside]
            )
            P = plain.fit(X[inside], y[inside]).predict_proba(X[outside])
            first = decide(own.posterior(X[outside]), CREDIT).choice
            choices = np.column_stack(
                (first, P[:, 1] > 1 / 6, P.argmax(axis=1), np.ones(len(outside)))
            ).astype(int)
            cost[outside] -= CREDIT[y[outside][:, None], choices] / 3
    print(
        f"German credit, {len(X)} cases: mean cost per case (standard error over cases)"
    )
    for way, mean, error in zip(
        ways, cost.mean(axis=0), standard_error(cost), strict=True
    ):
        print(f"  {way:<28} {mean:.4f} ({error:.4f})")


def with_costs(name: str) -> tuple[np.ndarray, np.ndarray, list[int], np.ndarray]:
    """Rows, class codes, categorical columns, whose rare words are one, and the costs (n, 4) of each case."""
    loader, costs = CASES[name]
    found = getattr(importlib.import_module("empulse.datasets"), loader)(backend=pa)
    columns = [column.to_pylist() for column in found.data.columns]
    categorical = [
        j
        for j, column in enumerate(columns)
        if any(isinstance(value, str) for value in column)
    ]
    for j in categorical:
        _, codes, counts = np.unique(
            list(map(str, columns[j])), return_inverse=True, return_counts=True
        )
        columns[j] = np.where(counts < RARE, 0, np.cumsum(counts >= RARE))[codes]
    y = found.target.to_numpy().astype(int)
    C = np.stack(
        np.broadcast_arrays(*costs(found.instance_costs), y)[:4], axis=1
    ).astype(np.float64)
    return np.array(columns, dtype=np.float64).T.copy(), y, categorical, C


def cases(name: str) -> dict[str, np.ndarray]:
    """The benefit of each case (n,) by each method, fitted on the other half."""
    X, y, categorical, C = with_costs(name)
    B, fold, found = (
        -C.reshape(-1, 2, 2),
        stratified_folds(y, 2, 0),
        defaultdict(lambda: np.zeros(len(y))),
    )
    for part in (0, 1):
        inside, outside = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
        for way, choice in choices(X, y, categorical, C, inside, outside):
            found[way][outside] = B[outside, y[outside], choice]
    return found


def choices(
    X: np.ndarray,
    y: np.ndarray,
    categorical: list[int],
    C: np.ndarray,
    inside: np.ndarray,
    outside: np.ndarray,
) -> Iterator[tuple[str, np.ndarray]]:
    """What each method does with the rows outside, whose costs it knows."""
    rows, codes, new, B = X[inside], y[inside], X[outside], -C.reshape(-1, 2, 2)
    mean, common = (
        B[inside].mean(axis=0),
        {"categorical_features": categorical, "random_state": 0},
    )
    trained = BenefitLogistic(benefits=mean, **common)
    for model in (Logistic(**common), GradientBoosting(**common), trained):
        P = model.fit(rows, codes).posterior(new)
        yield f"`{model.name}`, mean matrix", decide(P, mean).choice
        yield f"`{model.name}`, own matrices", decide(P, B[outside]).choice
    at_stake = np.abs(np.diff(B[inside, codes])[:, 0] / np.diff(mean)[codes, 0])
    yield (
        "`benefit_logistic`, weighted rows",
        trained.fit(rows, codes, at_stake).predict(new),
    )
    yield "the same, own matrices", decide(trained.posterior(new), B[outside]).choice
    rivals, trees = (
        importlib.import_module("empulse.models"),
        importlib.import_module("lightgbm").LGBMClassifier,
    )
    ready = preparing(X.shape[1], categorical).fit(rows)
    Z, Z_new, boosting = (
        ready.transform(rows),
        ready.transform(new),
        trees(n_jobs=1, verbose=-1),
    )
    known, own = (
        dict(zip(COSTS, C[part].T.copy(), strict=True)) for part in (inside, outside)
    )
    for way, model in (
        ("logistic regression", LogisticRegression(max_iter=1000)),
        ("LightGBM", boosting),
    ):
        cut = rivals.CSThresholdClassifier(
            model, calibrator="isotonic", random_state=0
        ).fit(Z, codes, **known)
        yield f"CSThreshold, {way}", cut.predict(Z_new, **own)
    yield "CSLogit", rivals.CSLogitClassifier().fit(Z, codes, **known).predict(Z_new)
    yield (
        "CSBoost, LightGBM",
        rivals.CSBoostClassifier(boosting).fit(Z, codes, **known).predict(Z_new),
    )
    forest = rivals.CSForestClassifier(random_state=0).fit(Z, codes, **known)
    yield (
        "CSForest, cut by own costs",
        decide(forest.predict_proba(Z_new), B[outside]).choice,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--credit", action="store_true")
    parser.add_argument("--cases", action="store_true")
    chosen = parser.parse_args()
    if chosen.credit:
        credit()
        return
    if chosen.cases:
        tables = [cases(name) for name in CASES]
        print(
            "| |"
            + "".join(f" {name} |" for name in CASES)
            + "\n|---|"
            + "---:|" * len(CASES)
        )
        for way in tables[0]:
            values = [
                (table[way], table[way] - table["`logistic`, own matrices"])
                for table in tables
            ]
            cells = (
                f"{own.mean():.4g} ({gap.mean():+.2g} ± {standard_error(gap):.2g})"
                for own, gap in values
            )
            print(f"| {way} | {' | '.join(cells)} |")
        return
    table = np.stack(
        [compare(name, chosen.repetitions) for name in chosen.sets]
    )  # (sets, methods, 2 MATRICES)
    print("Free matrices\n")
    show(chosen.sets, table[:, :, :MATRICES])
    many = [i for i, name in enumerate(chosen.sets) if name not in TWO_CLASSES]
    print("\nMatrices of three costs\n")
    show([chosen.sets[i] for i in many], table[many, :, MATRICES:])


def show(names: Sequence[str], table: np.ndarray) -> None:
    """Print mu (sets, methods, matrices) as a table: means, and ranks among the methods of the comparison proper."""
    ranks = rankdata(-table[:, :PROPER].transpose(0, 2, 1), axis=2).mean(axis=(0, 1))
    print("| method | " + " | ".join(names) + " | mean mu | average rank |")
    print("|---|" + "---:|" * (len(names) + 2))
    for m, method in enumerate(METHODS):
        cells = [
            f"{value:.3f}" for value in (*table[:, m].mean(axis=1), table[:, m].mean())
        ]
        rank = f"{ranks[m]:.2f}" if m < PROPER else ""
        print(f"| {method} | {' | '.join(cells)} | {rank} |")


if __name__ == "__main__":
    main()
