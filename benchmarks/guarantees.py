"""How often a guarantee is broken in simulated worlds, and how much it lets pass beside MAPIE's controller.

    .venv/bin/python benchmarks/guarantees.py            1,000 worlds of each kind
    .venv/bin/python benchmarks/guarantees.py --mapie    shares taken on three data sets, of 20 splits each

`--mapie` needs MAPIE 1.6: `pip install --no-deps --target FOLDER mapie`, and FOLDER in PYTHONPATH.

A world has scores, and at each score a probability of being wrong; the true risk above a cut is that of 200,000 draws.
Of the sets, half of the rows train gradient boosting, a quarter certifies how often a taken case is at most not of
the most frequent class, with 95 % confidence, and the last quarter is decided. `over` is the share of splits in which its wrong cases
exceed the limit, by chance also where the guarantee is kept: the quarter is a sample.
"""

import argparse
import importlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from common import load
from sklearn.ensemble import HistGradientBoostingClassifier

from payoff.evidence.guarantees import Limit, certify

CONFIDENCE = 0.95
SETS = {"german_credit": 0.2, "spambase": 0.03, "electricity": 0.1}
SPLITS = 20


class World(NamedTuple):
    """`n` cases with scores of so many `digits`; `wrong` is the probability of being wrong at a score."""

    n: int
    at_most: float
    wrong: Callable[[np.ndarray], np.ndarray]
    digits: int = 12
    of_money: bool = False


def falling(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """None is wrong at the highest score, `share` at the lowest."""
    return lambda score: share * (1 - score)


WORLDS = {
    "falling risk, 1,000 rows": World(1_000, 0.1, falling(0.3)),
    "100 rows": World(100, 0.1, falling(0.3)),
    "100 rows, hardly wrong": World(100, 0.1, falling(0.12)),
    "11 different scores": World(1_000, 0.1, falling(0.3), digits=1),
    "a rare class, 1 % at most": World(2_000, 0.01, falling(0.04)),
    "worst at the top": World(
        1_000, 0.1, lambda score: np.where(score > 0.98, 0.5, 0.03)
    ),
    "just above the limit everywhere": World(
        1_000, 0.1, lambda score: np.full_like(score, 0.1005)
    ),
    "the same, 100 rows": World(100, 0.1, lambda score: np.full_like(score, 0.1005)),
    "money, 1,000 rows": World(1_000, 0.1, falling(0.4), of_money=True),
    "money, just above the limit": World(
        1_000, 0.1, lambda score: np.full_like(score, 0.134), of_money=True
    ),
}


def draw(
    world: World, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and risks (n,); in money a wrong case loses from .5 to 1, .75 in the mean."""
    score = rng.random(n).round(world.digits)
    risk = (rng.random(n) < world.wrong(score)).astype(float)
    return score, risk * rng.uniform(0.5, 1.0, n) if world.of_money else risk


def broken(world: World, worlds: int) -> tuple[float, float, float]:
    """The shares of worlds in which the true risk exceeds the limit, and in which something is certified; and the
    mean share of cases that is taken.
    """
    limit = Limit(world.at_most, CONFIDENCE, of_money=world.of_money)
    many, _ = draw(world, 200_000, np.random.default_rng(2**31))
    many.sort()
    mean_loss = 0.75 if world.of_money else 1.0
    risks_above = (world.wrong(many) * mean_loss)[::-1].cumsum()[::-1] / np.arange(
        len(many), 0, -1
    )
    failures = certified = 0
    taken = 0.0
    for seed in range(worlds):
        score, risk = draw(world, world.n, np.random.default_rng(seed))
        certificate = certify(score, risk, np.ones(world.n), limit)
        if certificate is None:
            continue
        certified += 1
        taken += certificate.cases / world.n
        place = np.searchsorted(many, certificate.cut).clip(max=len(many) - 1)
        failures += risks_above[place] > world.at_most
    return failures / worlds, certified / worlds, taken / worlds


def cut_of_mapie(
    score: np.ndarray, right: np.ndarray, at_most: float, method: str
) -> float:
    """The cut of MAPIE's controller of the precision, with most cases; infinite where it finds none."""
    mapie = importlib.import_module("mapie.risk_control")
    cuts = np.linspace(0.99, 0, 100)
    controller = mapie.BinaryClassificationController(
        lambda column: np.column_stack((1 - column, column)),
        "precision",
        1 - at_most,
        CONFIDENCE,
        "recall",
        cuts,
        method,
    )
    controller.calibrate(score, right)
    best = controller.best_predict_param
    return np.inf if best is None else float(best)


def compare(name: str, at_most: float) -> dict[str, np.ndarray]:
    """For each method the share of the test rows that is taken, and the share of these that is wrong, by split."""
    X, codes, categorical = load(name)
    y = (codes == np.bincount(codes).argmax()).astype(int)
    methods: dict[str, list[tuple[float, float]]] = {
        "Payoff": [],
        "MAPIE, Bonferroni and Holm (its default)": [],
        "MAPIE, fixed sequence": [],
    }
    limit = Limit(at_most, CONFIDENCE)
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))[:8_000]
        train, certifying, test = np.split(
            order, [len(order) // 2, 3 * len(order) // 4]
        )
        model = HistGradientBoostingClassifier(
            categorical_features=list(categorical), random_state=0, max_iter=60
        ).fit(X[train], y[train])
        score, decided = (
            model.predict_proba(X[rows])[:, 1] for rows in (certifying, test)
        )
        wrong = 1.0 - y[certifying]
        certificate = certify(score, wrong, np.ones(len(wrong)), limit)
        cuts = [
            np.inf if certificate is None else certificate.cut,
            cut_of_mapie(score, y[certifying], at_most, "bonferroni_holm"),
            cut_of_mapie(score, y[certifying], at_most, "fixed_sequence"),
        ]
        for results, cut in zip(methods.values(), cuts, strict=True):
            taken = decided >= cut
            results.append(
                (taken.mean(), (1 - y[test][taken]).mean() if taken.any() else 0.0)
            )
    return {method: np.array(results) for method, results in methods.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1_000)
    parser.add_argument("--mapie", action="store_true")
    chosen = parser.parse_args()
    if chosen.mapie:
        print(
            "| data | method | share taken | something certified | over |\n|---|---|---|---|---|"
        )
        for name, at_most in SETS.items():
            for method, results in compare(name, at_most).items():
                taken, wrong = results.T
                print(
                    f"| {name}, {at_most:.0%} | {method} | {taken.mean():.3f} | {(taken > 0).mean():.2f}"
                    f" | {(wrong > at_most).mean():.2f} |"
                )
        return
    print("| world | broken | something certified | share taken |\n|---|---|---|---|")
    for name, world in WORLDS.items():
        failures, certified, taken = broken(world, chosen.worlds)
        print(f"| {name} | {failures:.3f} | {certified:.3f} | {taken:.3f} |")


if __name__ == "__main__":
    main()
