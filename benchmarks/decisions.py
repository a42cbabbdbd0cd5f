"""Which way to decide earns most: the comparison of the benefit paper, with today's strong learners beside it.

Six data sets; ten random benefit matrices each under the paper's sign convention (being right gains, being wrong costs,
all log-uniform from 1 to 100), and ten more that state three costs only; five times two folds. Every method decides the
same rows under the same matrix; mu is what it earned as a share of what someone who knows every class would have.

    .venv/bin/python benchmarks/decisions.py [--sets glass ecoli] [--repetitions 5]
    .venv/bin/python benchmarks/decisions.py --credit

What costs of three kinds cannot say, the rules that take them are given as means: C_HD, C_DH and C_DD are the mean
losses of the matrix, classes counting by their share in training.

`--credit`: the mean realised cost of a case of German credit, where a good customer refused costs 1 and a bad one
accepted 5, three times ten folds: `logistic` with its defaults and the expected benefit, a plain scikit-learn pipeline
cut at 1/6, the same blind to costs, and refusing everybody.

The smallest work: `.venv/bin/python benchmarks/decisions.py --sets glass --repetitions 1`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from common import load, standard_error
from joblib import Parallel, delayed, parallel_config
from scipy.stats import rankdata
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.decisions.benefit import decide
from app.decisions.folds import stratified_folds
from app.decisions.rules import beta_delta, equivalent_benefits, hierarchical
from app.learners.benefit_logistic import BenefitLogistic
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.gradient_boosting import GradientBoosting
from app.learners.hierarchical_logistic import HierarchicalLogistic
from app.learners.kernel_logistic import KernelLogistic
from app.learners.logistic import Logistic

SETS = ("glass", "ecoli", "thyroid_ann", "heart_cleveland", "german_credit", "pima_diabetes")
TWO_CLASSES = ("german_credit", "pima_diabetes")
MATRICES, PROCESSES = 10, 2
PROPER = 8  # methods of the comparison; those after them are for orientation
CREDIT = np.array([[0.0, -1.0], [-5.0, 0.0]])  # rows: good, bad; columns: accept, refuse


def random_benefits(n_classes: int, seed: int) -> np.ndarray:
    """(MATRICES, K, K): gains on the diagonal, costs off it, each log-uniform from 1 to 100."""
    sizes = 10 ** np.random.default_rng(seed).uniform(0, 2, (MATRICES, n_classes, n_classes))
    return np.where(np.eye(n_classes, dtype=bool), sizes, -sizes)


def random_costs(n_classes: int, majority: int, seed: int) -> np.ndarray:
    """(MATRICES, K, K) of three costs: one gain for being right, and C_DD, C_HD, C_DH above it, drawn as above."""
    drawn = 10 ** np.random.default_rng(seed).uniform(0, 2, (MATRICES, 4))
    return np.stack(
        [gain + equivalent_benefits(n_classes, majority, *(gain + cost for cost in costs)) for gain, *costs in drawn]
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

    def __init__(self, X: np.ndarray, y: np.ndarray, inside: np.ndarray, categorical: tuple[int, ...]) -> None:
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
        false_alarm, missed = losses[self.majority, others] @ weights, weights @ losses[others, self.majority]
        return float(weights @ among), float(false_alarm), float(missed)


def benefit_lr(fold: Fold, B: np.ndarray) -> np.ndarray:
    model = BenefitLogistic(benefits=B, calibration="none", **fold.common).fit(fold.X, fold.y)
    return model.predict(fold.rows)


def hierarchical_benefit_lr(fold: Fold, B: np.ndarray) -> np.ndarray:
    first, second = BenefitLogistic(calibration="none"), Logistic(calibration="none")
    model = HierarchicalLogistic(first=first, second=second, benefits=B, **fold.common).fit(fold.X, fold.y)
    return model.predict(fold.rows)


def hierarchical_rule(fold: Fold, model: str, B: np.ndarray) -> np.ndarray:
    return hierarchical(fold.probabilities(model), fold.majority, *fold.costs(B)[1:]).choice


METHODS: dict[str, Callable[[Fold, np.ndarray], np.ndarray]] = {
    "cost-blind LR": lambda fold, _B: fold.probabilities("plain").argmax(axis=1),
    "benefit LR": benefit_lr,
    "cost naive Bayes": lambda fold, B: decide(fold.probabilities("bayes"), B).choice,
    "HCSKLR, beta/Delta": lambda fold, B: (
        beta_delta(fold.probabilities("kernel"), fold.majority, *fold.costs(B)).choice
    ),
    "hierarchical": lambda fold, B: hierarchical_rule(fold, "staged", B),
    "hierarchical, benefit LR": hierarchical_benefit_lr,
    "`logistic`, `expected_benefit`": lambda fold, B: decide(fold.probabilities("calibrated"), B).choice,
    "`gradient_boosting`, `expected_benefit`": lambda fold, B: decide(fold.probabilities("boosted"), B).choice,
    "+ `cost_naive_bayes`, `expected_benefit`": lambda fold, B: decide(fold.probabilities("careful"), B).choice,
    "+ `kernel_logistic`, `hierarchical`": lambda fold, B: hierarchical_rule(fold, "kernel", B),
    "+ `kernel_logistic`, `expected_benefit`": lambda fold, B: decide(fold.probabilities("kernel"), B).choice,
    "+ `gradient_boosting`, `most_probable`": lambda fold, _B: fold.probabilities("boosted").argmax(axis=1),
    "+ one action for all": lambda fold, B: np.full(len(fold.rows), int((fold.shares @ B).argmax())),
}


def one_fold(
    X: np.ndarray, y: np.ndarray, inside: np.ndarray, categorical: tuple[int, ...], Bs: np.ndarray
) -> np.ndarray:
    """Summed benefit (methods, matrices) on the rows outside."""
    fold, truth = Fold(X, y, inside, categorical), y[~inside]
    return np.array([[B[truth, method(fold, B)].sum() for B in Bs] for method in METHODS.values()])


def compare(name: str, repetitions: int) -> np.ndarray:
    """The share mu (methods, 2 MATRICES) on one data set, free matrices first."""
    X, y, categorical = load(name)
    number = SETS.index(name)
    K, majority = int(y.max()) + 1, int(np.bincount(y).argmax())
    Bs = np.concatenate((random_benefits(K, seed=number), random_costs(K, majority, seed=100 + number)))
    splits = [stratified_folds(y, 2, seed) for seed in range(repetitions)]
    tasks = [delayed(one_fold)(X, y, split != part, categorical, Bs) for split in splits for part in (0, 1)]
    with parallel_config("loky", inner_max_num_threads=1):
        found = Parallel(PROCESSES)(tasks)
    judged = sum(np.bincount(y[split >= 0], minlength=Bs.shape[1]) for split in splits)
    return sum(found) / (np.diagonal(Bs, axis1=1, axis2=2) @ judged)


def credit() -> None:
    X, y, categorical = load("german_credit")
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    words = OneHotEncoder(handle_unknown="ignore"), list(categorical)
    plain = make_pipeline(
        make_column_transformer((StandardScaler(), numeric), words), LogisticRegression(max_iter=1000)
    )
    ways = "logistic + expected benefit", "scikit-learn, cut at 1/6", "scikit-learn, cost-blind", "refuse everybody"
    cost = np.zeros((len(X), len(ways)))
    for seed in range(3):
        for inside, outside in StratifiedKFold(10, shuffle=True, random_state=seed).split(X, y):
            own = Logistic(categorical_features=categorical, random_state=0).fit(X[inside], y[inside])
            P = plain.fit(X[inside], y[inside]).predict_proba(X[outside])
            first = decide(own.posterior(X[outside]), CREDIT).choice
            choices = np.column_stack((first, P[:, 1] > 1 / 6, P.argmax(axis=1), np.ones(len(outside)))).astype(int)
            cost[outside] -= CREDIT[y[outside][:, None], choices] / 3
    print(f"German credit, {len(X)} cases: mean cost per case (standard error over cases)")
    for way, mean, error in zip(ways, cost.mean(axis=0), standard_error(cost), strict=True):
        print(f"  {way:<28} {mean:.4f} ({error:.4f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--credit", action="store_true")
    chosen = parser.parse_args()
    if chosen.credit:
        credit()
        return
    table = np.stack([compare(name, chosen.repetitions) for name in chosen.sets])  # (sets, methods, 2 MATRICES)
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
        cells = [f"{value:.3f}" for value in (*table[:, m].mean(axis=1), table[:, m].mean())]
        rank = f"{ranks[m]:.2f}" if m < PROPER else ""
        print(f"| {method} | {' | '.join(cells)} | {rank} |")


if __name__ == "__main__":
    main()
