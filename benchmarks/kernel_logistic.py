"""Kernel logistic regression: where exact ends, what landmarks cost and gain, the speed of a fit and of one row.

    .venv/bin/python benchmarks/kernel_logistic.py [path of covtype_20k.csv.gz]

Prints a line for each measurement; takes some two minutes. Without the file the data are synthetic.
"""

import csv
import gzip
import resource
import sys
import time
from pathlib import Path

import numpy as np

from app.learners.kernel_logistic import KernelLogistic

COVTYPE = Path(__file__).resolve().parents[2] / "shared" / "data" / "covtype_20k.csv.gz"


def covtype(path):
    with gzip.open(path, "rt") as lines:
        rows = list(csv.reader(lines))[1:]
    X = np.array([row[:-1] for row in rows], dtype=np.float64)
    y = np.array([row[-1] for row in rows])
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def synthetic(n=20_000, m=20, K=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, m))
    centres = rng.normal(size=(30, m))
    distances = ((X[:, None] - centres) ** 2).sum(axis=2)
    F = np.exp(-distances / m) @ rng.normal(size=(30, K)) * 3
    return X, (F + rng.gumbel(size=F.shape)).argmax(axis=1)


def fit(label, X, y, Xt, yt, **parameters):
    start = time.perf_counter()
    model = KernelLogistic(random_state=0, **parameters).fit(X, y)
    seconds = time.perf_counter() - start
    P = model.predict_proba(Xt)[np.arange(len(yt)), np.searchsorted(model.classes_, yt)]
    print(
        f"{label:>34}: fit {seconds:6.2f} s, {model.n_iter_:3d} steps, held-out log loss {-np.log(P).mean():.4f}",
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
        sep=", ",
        flush=True,
    )
    return model


def one_row(model, X, repeats=2000):
    row = np.ascontiguousarray(X[:1])
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        model.posterior(row)
        times.append(time.perf_counter() - start)
    p50, p99 = np.percentile(times, [50, 99]) * 1e6
    print(f"{'one row':>34}: p50 {p50:.0f} us, p99 {p99:.0f} us", flush=True)


def main():
    X, y = synthetic()
    model = fit("20,000 x 20, 5 classes, automatic", X, y, X[:2000], y[:2000])
    one_row(model, X)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else COVTYPE
    X, y = covtype(path) if path.exists() else (X, y)
    test = X[16_000:], y[16_000:]
    for n in (1000, 2000, 3000, 4000):
        model = fit(f"exact on {n} rows", X[:n], y[:n], *test, n_components=n)
    one_row(model, X)
    for m in (300, 1000, 2000):
        fit(f"{m} landmarks for 16,000 rows", X[:16_000], y[:16_000], *test, n_components=m)


if __name__ == "__main__":
    main()
