"""Coverage of the 95 % intervals of /benefit where rows were drawn unequally and have weights.

A population of two classes; a row is drawn with a chance that depends on its class and its score,
and has the weight 1 / chance. For each sample the interval of the benefit of a rule is compared
with the rule's mean benefit in the population, with the weights and without them. Run it with

    .venv/bin/python benchmarks/weights.py

which takes about three minutes. Printed, of 300 samples each (a standard error is .013):

    chance to be drawn       rows  effective  coverage  without weights  width
    by class, .2 and 1        150        104     0.980            0.000   0.63
    by class, .2 and 1        600        414     0.920            0.000   0.27
    by score, .1 to 1         150        116     0.953            0.360   0.86
    by score, .1 to 1         600        465     0.970            0.000   0.38
    by action, .02 and 1      150         24     0.957            0.527   4.31
    by action, .02 and 1      600         48     1.000            0.013   1.59

The classes are reweighed by .2 and 1, so that without weights nothing is covered. With fifty times
the weight, intervals are wide and cover too much: a row that no sample has may have such a weight.
"""

from __future__ import annotations

import numpy as np

from payoff.decisions.row_weights import effective_total
from payoff.decisions.rule_ranking import LabelledRows, contest

SAMPLES = 300
BENEFITS = np.array([[0.0, -1.0], [-10.0, 5.0]])
CHANCES = {
    "by class, .2 and 1": lambda p, y: np.where(y == 1, 1.0, 0.2),  # noqa: ARG005
    "by score, .1 to 1": lambda p, y: 0.1 + 0.9 * p,  # noqa: ARG005
    "by action, .02 and 1": lambda p, y: np.where(p > 1 / 16, 1.0, 0.02),  # noqa: ARG005
}


def population(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n,) of the second class, a little too low, and the classes (n,)."""
    p = random.beta(0.6, 4, n)
    return p, (random.random(n) < np.minimum(1.3 * p, 1)).astype(np.intp)


def main() -> None:
    random = np.random.default_rng(0)
    p, y = population(random, 1_000_000)
    truth = BENEFITS[y, (p > 1 / 16).astype(int)].mean()
    print("chance to be drawn       rows  effective  coverage  without weights  width")
    for name, chance in CHANCES.items():
        for drawn in (150, 600):
            inside = {"weights": 0, "none": 0}
            width = effective = 0.0
            for _ in range(SAMPLES):
                p, y = population(random, 20 * drawn)
                chances = chance(p, y)
                rows = np.flatnonzero(random.random(len(p)) < chances)[:drawn]
                p, y, w = p[rows], y[rows], 1 / chances[rows]
                choice = (p > 1 / 16).astype(np.intp)
                choices = np.column_stack((choice, np.zeros_like(choice)))
                for kind, weights in (("weights", w), ("none", None)):
                    shares = np.bincount(y, weights, 2)
                    labelled = LabelledRows(
                        y, BENEFITS, shares / shares.sum(), row_weights=weights
                    )
                    low, high = contest(choices, labelled).standings[0].interval
                    inside[kind] += low <= truth <= high
                    if kind == "weights":
                        width += (high - low) / SAMPLES
                        effective += effective_total(w) / SAMPLES
            with_weights, without = (count / SAMPLES for count in inside.values())
            print(
                f"{name:24s} {drawn:4d} {effective:10.0f} {with_weights:9.3f}"
                f" {without:16.3f} {width:6.2f}"
            )


if __name__ == "__main__":
    main()
