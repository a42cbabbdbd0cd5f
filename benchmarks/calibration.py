"""Which calibration helps at which size: log loss and benefit on new rows, by the rows of the smaller class.

Two classes. Each learner is fitted without calibration, on all training rows and, for the calibrators, on each four
fifths of them; the calibrators learn from the five parts that their model did not see. `sigmoid` and `isotonic` are
ours, `chosen` is one of them or none, as `auto` takes it, and `by rows` is isotonic from 1,000 rows. `beta` is Kull,
Silva Filho and Flach (2017): a logistic regression on ln p and -ln(1 - p) with slopes of at least 0. `venn-abers` is
Vovk and Petej (2014): p1 / (1 - p0 + p1) of two isotonic curves, each with the new row in one class, at 100 quantiles
of new scores. Benefit is the share of the range from the best single action to knowledge of every class, over 30 random
matrices (see defaults.py). Columns are differences to the sigmoid, ± their standard errors over sets and seeds.

With `--given` the learner is another system, trained on 30 % of the rows, at most 2,000, and `POST /calibrate` gets
what it says of other rows: as `probabilities`, or the probability of the second class as `scores`. Columns are
differences to its probabilities as they are.

    .venv/bin/python benchmarks/calibration.py [folder of data sets] [--given] [--learners logistic] [--sizes 10 20]

The smallest work: `.venv/bin/python benchmarks/calibration.py --learners logistic --sizes 10`
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from decisions import DATA, load
from defaults import FIRST_SEED, judge, random_matrices
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from app.decisions.calibration_fits import fit_calibrator
from app.learners.catalogue import resolve
from app.learners.score_calibrator import ScoreCalibrator
from app.learners.unseen import best_calibration

SETS = {"spambase": None, "pima_diabetes": None, "german_credit": None, "thyroid_ann": 2, "covtype_20k": 1}
LEARNERS = ("logistic", "cost_naive_bayes", "random_forest", "gradient_boosting")
SIZES = (10, 20, 50, 200, 1000, 2000)
LARGE = 1000  # rows of the smaller class
Curve = Callable[[np.ndarray], np.ndarray]


def beta(p: np.ndarray, y: np.ndarray) -> Curve:
    lowest = 1 / (len(p) + 2)

    def columns(q: np.ndarray) -> np.ndarray:
        q = np.clip(q, lowest, 1 - lowest)
        return np.column_stack([np.log(q), -np.log1p(-q)])

    used = [0, 1]
    model = LogisticRegression(C=1e6, max_iter=1000).fit(columns(p), y)
    if model.coef_.min() < 0:
        used = [int(model.coef_[0].argmax())]
        model = LogisticRegression(C=1e6, max_iter=1000).fit(columns(p)[:, used], y)
    return lambda q: model.predict_proba(columns(q)[:, used])[:, 1]


def venn_abers(p: np.ndarray, y: np.ndarray) -> Curve:
    def curve(q: np.ndarray) -> np.ndarray:
        grid = np.unique(np.quantile(q, np.linspace(0, 1, 100)))
        ends = [
            [IsotonicRegression().fit(np.append(p, s), np.append(y, label)).predict([s])[0] for s in grid]
            for label in (0, 1)
        ]
        p0, p1 = np.array(ends)
        return np.interp(q, grid, p1 / (1 - p0 + p1))

    return curve


def ours(method: str, resolution: float) -> Callable[[np.ndarray, np.ndarray], Curve]:
    def fit(p: np.ndarray, y: np.ndarray) -> Curve:
        P, weights = np.column_stack([1 - p, p]), np.ones(len(y))
        chosen = best_calibration(P, y, weights, resolution) if method == "chosen" else method
        if chosen == "by rows":
            chosen = "isotonic" if np.bincount(y).min() >= LARGE else "sigmoid"
        if chosen == "none":
            return lambda q: np.clip(q, 1 / (len(y) + 2), 1 - 1 / (len(y) + 2))
        made = fit_calibrator(chosen, P, y, weights, resolution)
        return lambda q: made.apply(np.column_stack([1 - q, q]))[:, 1]

    return fit


def measured(
    kind: str, X: np.ndarray, y: np.ndarray, categorical: list[int], n: int, seed: int
) -> dict[str, list[float]]:
    """Log loss and share of the benefit of each method, trained on n rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    inside, outside = order[:n], order[n : n + 4000]
    one, parameters = resolve({"kind": kind, "calibration": "none"})

    def fitted(rows: np.ndarray) -> Curve:
        model = one.build(parameters, categorical_features=categorical, random_state=seed).fit(X[rows], y[rows])
        return lambda Z: model.predict_proba(Z)[:, 1]

    p = np.empty(n)
    for some, others in StratifiedKFold(5, shuffle=True, random_state=seed).split(X[inside], y[inside]):
        p[others] = fitted(inside[some])(X[inside[others]])
    q = fitted(inside)(X[outside])
    resolution = 1 / 100 if kind == "random_forest" else 0.0
    methods = {name: ours(name, resolution) for name in ("sigmoid", "isotonic", "chosen", "by rows")}
    methods |= {"beta": beta, "venn-abers": venn_abers}
    answers = {"none": np.clip(q, 1 / (n + 2), 1 - 1 / (n + 2))}
    answers |= {name: fit(p, y[inside])(q) for name, fit in methods.items()}
    return compared(answers, y[inside], y[outside], seed)


def given(kind: str, X: np.ndarray, y: np.ndarray, categorical: list[int], n: int, seed: int) -> dict[str, list[float]]:
    """The same of another system's probabilities, calibrated on n rows."""
    first = min(2000, int(0.3 * len(y)))
    known, inside, outside = np.split(np.random.default_rng(seed).permutation(len(y)), [first, first + n])
    one, parameters = resolve({"kind": kind, "calibration": "none"})
    model = one.build(parameters, categorical_features=categorical, random_state=seed).fit(X[known], y[known])
    P, Q = model.predict_proba(X[inside]), model.predict_proba(X[outside[:4000]])
    answers = {"raw": Q[:, 1]}
    for name, form in (("probabilities", slice(None)), ("scores", slice(1, None))):
        calibrator = ScoreCalibrator(input=name, random_state=seed).fit(P[:, form], y[inside])
        answers[name] = calibrator.predict_proba(Q[:, form])[:, 1]
    return compared(answers, y[inside], y[outside[:4000]], seed)


def compared(answers: dict[str, np.ndarray], y_in: np.ndarray, y: np.ndarray, seed: int) -> dict[str, list[float]]:
    shares = np.bincount(y_in) / len(y_in)
    matrices = random_matrices(shares, seed, 30, (2, 3, 5), square=False)
    found = {}
    for name, unbounded in answers.items():
        answer = np.clip(unbounded, 1e-12, 1 - 1e-12)
        P = np.column_stack([1 - answer, answer])
        loss = float(np.mean(np.logaddexp(0, np.where(y == 1, -1, 1) * logit(answer))))
        found[name] = [loss, float(np.nanmean([judge(P, y, B)[0] for B in matrices]))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--given", action="store_true")
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    measure, base = (given, "raw") if chosen.given else (measured, "sigmoid")
    for kind in chosen.learners:
        rows: dict[int, list[np.ndarray]] = {size: [] for size in chosen.sizes}
        names: list[str] = []
        for name, positive in SETS.items():
            X, labels, categorical = load(chosen.folder, name)
            codes = np.unique(labels, return_inverse=True)[1]
            y = codes if positive is None else (codes == positive).astype(int)
            share = min(y.mean(), 1 - y.mean())
            for size in chosen.sizes:
                if (n := int(size / share)) <= (0.5 if chosen.given else 0.7) * len(y):
                    for seed in range(FIRST_SEED, FIRST_SEED + (5 if size < LARGE else 3)):
                        found = measure(kind, X, y, list(categorical), n, seed)
                        names = list(found)
                        rows[size].append(np.array(list(found.values())))
        print(f"\n{kind}: rows of the smaller class; of {base!r} log loss and share, then the differences to them")
        others = [name for name in names if name != base]
        print(f"{'':>6}{base:>16}" + "".join(f"{name:>34}" for name in others))
        for size, tables in rows.items():
            if not tables:
                continue
            every = np.array(tables)
            loss, share = every[:, names.index(base)].mean(axis=0)
            line = f"{size:>6}{loss:>9.4f}{share:>7.3f}"
            for name in others:
                gaps = every[:, names.index(name)] - every[:, names.index(base)]
                errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
                line += "".join(
                    f"{gap:>+9.4f} ±{error:.4f}" for gap, error in zip(gaps.mean(axis=0), errors, strict=True)
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
