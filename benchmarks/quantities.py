"""Quantities: what 90 % intervals cover, and what newsvendor decisions cost, beside quantile-forest and LightGBM.

    .venv/bin/python -m pip install --target /tmp/rivals --no-deps quantile-forest==1.4.2 lightgbm==4.7.0
    PYTHONPATH=.:/tmp/rivals OMP_NUM_THREADS=1 .venv/bin/python benchmarks/quantities.py 200 20 /tmp/quantities.jsonl

The numbers are seeds of our models and of the rivals: each draws 300 training rows and up to 500 others, which choose
nothing. A line of the file is a seed on a data set; a file that is there is continued.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from common import cells, standard_error
from lightgbm import LGBMRegressor
from quantile_forest import RandomForestQuantileRegressor
from sklearn.datasets import load_diabetes, make_friedman1

from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.random_forest import RandomForest

TAUS = np.array([0.1, 0.5, 0.8, 0.95])
LEVELS = np.append(TAUS, 0.05)
TRAINING, OTHERS = 300, 500
OURS = {"random_forest": RandomForest, "gradient_boosting": GradientBoosting}
RIVALS = ("quantile-forest", "LightGBM")
DRAWS = ("friedman", "demand", "diabetes", "elevation")


def drawn(data: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows first. `demand` is positive and skew: its deviation is .7 of its mean, which varies twentyfold."""
    n = TRAINING + OTHERS
    if data == "friedman":
        return make_friedman1(n, noise=1.0, random_state=int(rng.integers(2**31)))
    if data == "demand":
        X = rng.uniform(size=(n, 6))
        return X, rng.gamma(2.0, np.exp(2 * X[:, 0] + np.sin(4 * X[:, 1])) / 2)
    if data == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    else:  # of Covertype, from the other numbers
        numbers = cells("covtype_20k")[1][:, :10].astype(np.float64)
        X, y = numbers[:, 1:], numbers[:, 0]
    some = rng.permutation(len(y))[:n]
    return X[some], y[some]


def quantiles(
    name: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int
) -> np.ndarray:
    """What a model with its defaults says at the levels, (n, levels)."""
    if name in OURS:
        return (
            OURS[name](task="regression", random_state=seed)
            .fit(X, y)
            .distribution(new)
            .quantiles(LEVELS)
        )
    if name == "quantile-forest":
        model = RandomForestQuantileRegressor(random_state=seed).fit(X, y)
        return np.asarray(model.predict(new, quantiles=LEVELS.tolist()))
    kind = {"objective": "quantile", "verbose": -1, "n_jobs": 1, "random_state": seed}
    return np.column_stack(
        [LGBMRegressor(alpha=level, **kind).fit(X, y).predict(new) for level in LEVELS]
    )


def judged(name: str, data: str, seed: int) -> list[float]:
    """The mean cost of decisions for each tau, where a unit too few costs tau and one too much 1 - tau; coverage."""
    X, y = drawn(data, np.random.default_rng([DRAWS.index(data), seed]))
    truth = y[TRAINING:, None]
    said = quantiles(
        name, X[:TRAINING], y[:TRAINING], np.ascontiguousarray(X[TRAINING:]), seed
    )
    short = truth - said[:, :-1]
    covered = (said[:, -1:] <= truth) & (truth <= said[:, -2:-1])
    return [
        *np.maximum(short * TAUS, short * (TAUS - 1)).mean(axis=0).tolist(),
        float(covered.mean()),
    ]


def show(found: dict[tuple[str, str], dict[int, Any]]) -> None:
    """Coverage, and costs as parts of the rivals', with standard errors over seeds."""
    print("| data | model | seeds | covers |", *(f"{tau:g} |" for tau in TAUS))
    print("|---|---|---|---|", "---|" * len(TAUS), sep="")
    for (data, name), seeds in found.items():
        covers = np.array([values[-1] for values in seeds.values()])
        said = f"| {data} | {name} | {len(seeds)} | {covers.mean():.3f} ± {standard_error(covers):.3f} |"
        print(
            said,
            *(f"{mean:.4g} |" for mean in np.mean(list(seeds.values()), axis=0)[:-1]),
        )
        for rival in RIVALS if name in OURS else ():
            both = sorted(seeds.keys() & found[data, rival].keys())
            own, other = (
                np.array([one[seed][:-1] for seed in both])
                for one in (seeds, found[data, rival])
            )
            ratio = own.mean(axis=0) / other.mean(axis=0)
            error = standard_error(own - ratio * other) / other.mean(axis=0)
            parts = (f"{r:.3f} ± {e:.3f} |" for r, e in zip(ratio, error, strict=True))
            print(f"| | of {rival} | {len(both)} | |", *parts)


def main(ours: int, rivals: int, path: Path) -> None:
    """Continue the file, then show it."""
    found: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    for line in path.read_text().splitlines() if path.exists() else ():
        data, name, seed, values = json.loads(line)
        found[data, name][seed] = values
    with path.open("a") as file:
        for name, count in [
            *((name, rivals) for name in RIVALS),
            *((name, ours) for name in OURS),
        ]:
            for seed, data in ((seed, data) for seed in range(count) for data in DRAWS):
                if seed not in found[data, name]:
                    found[data, name][seed] = judged(name, data, seed)
                    file.write(
                        json.dumps([data, name, seed, found[data, name][seed]]) + "\n"
                    )
                    file.flush()
    show(dict(sorted(found.items(), key=lambda one: DRAWS.index(one[0][0]))))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
