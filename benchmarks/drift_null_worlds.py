"""How often scores are called drifted where nothing changed: every learner, in worlds like a bank's campaign.

Each world draws rows of which one in nine is of the second class: 2,000 to train on, as `/train` does (a first fit
without a quarter, a second one on all), and ten days of 500 cases. Their scores are compared with those of the days
before, as the report does for a model that was fitted again; with the hold-out, as it does for one that was not; and
for comparison scores of the second fit with the hold-out of the first one.

    .venv/bin/python benchmarks/drift_null_worlds.py [--worlds 100] [--rows 2000] [--learners logistic]

Prints the share of worlds with a false alarm in percent, ± its standard error.

The smallest work: `.venv/bin/python benchmarks/drift_null_worlds.py --worlds 1 --rows 400 --learners logistic`
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from app.learners.catalogue import KINDS, resolve
from app.usecases.outcome_report.changes import compared, drift, histogram

DAYS, A_DAY, COLUMNS = 10, 500, 8
BENEFITS = np.array([[0.0, -1.0], [-8.0, 4.0]])


def population(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 8) of weak and skewed features, the last one a category, and classes of which one in nine is 1."""
    X = rng.normal(size=(n, COLUMNS))
    X[:, 4:7] = np.exp(X[:, 4:7])
    X[:, 7] = rng.integers(0, 6, n)
    score = 0.9 * X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * np.log(X[:, 4]) + 0.4 * (X[:, 7] == 2) - 2.7
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)


def alarmed(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether the report calls scores (n, 2) drifted."""
    return any(line["drifted"] for line in drift([({}, compared(histogram(before[:, 1]), histogram(after[:, 1])))]))


def alarms(name: str, seed: int, rows: int) -> tuple[bool, bool, bool]:
    """Of a world: refitted against earlier days, not refitted against its hold-out, refitted against that hold-out."""
    rng = np.random.default_rng(seed)
    X, y = population(rng, rows)
    live, _ = population(rng, DAYS * A_DAY)
    one, parameters = resolve({"kind": name})
    benefits = BENEFITS if one.uses_benefits(parameters) else None
    model = one.build(parameters, categorical_features=[COLUMNS - 1], benefits=benefits, random_state=seed)
    held_out = rows // 4
    model.fit(X[held_out:], y[held_out:])
    first, plain = model.posterior(X[:held_out]), model.posterior(live)
    model.refit(X, y)
    again = model.posterior(live)
    return alarmed(*np.split(again, 2)), alarmed(first, plain), alarmed(first, again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--learners", default=",".join(name for name, kind in KINDS.items() if kind.labels == "one"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| learner | refitted, earlier days | not refitted, hold-out | refitted, hold-out of the first fit |")
    print("|---|---|---|---|")
    for name in chosen.learners.split(","):
        found = np.array([alarms(name, seed, chosen.rows) for seed in range(chosen.worlds)])
        cells = (f"{100 * p:.0f} ± {100 * np.sqrt(p * (1 - p) / len(found)):.1f}" for p in found.mean(axis=0))
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
