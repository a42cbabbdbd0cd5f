"""What `auto` with prices of features earns, beside each learner that it compares: ten tables at three prices.

    .venv/bin/python benchmarks/automatic.py [--only TABLE …] [--seeds 2]

The table of benchmarks/acquisition.md, which describes it. Learners are fitted on some 300 rows, and as many new rows
are asked feature by feature while that is worth its price.

The smallest work: `.venv/bin/python benchmarks/automatic.py --only wine --seeds 1`
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from acquisition import CASES, priced
from common import load, standard_error
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import StratifiedShuffleSplit

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import Blocks
from payoff.learners.automatic import Automatic
from payoff.learners.base import Learner
from payoff.learners.candidates import PRICED_CANDIDATES
from payoff.learners.stepwise import while_worth

LEVELS = (0.1, 0.5, 2.0)
"""The price of all features together, as a part of what deciding by the class shares loses."""
ROWS = 300
RAREST = 12
"""Rows of a class that is kept: half of them are for training."""
PRICE = (1.0, 2.0, 5.0, 10.0)
"""Of a feature, at random, where a table has no prices."""
FREE = 3
"""Features of German credit that cost nothing."""


class Case(NamedTuple):
    """Rows, class codes, categorical columns, prices and benefits (K, K) of right and wrong classes."""

    X: np.ndarray
    y: np.ndarray
    categorical: tuple[int, ...]
    prices: Prices
    benefits: np.ndarray


def with_test_prices(name: str) -> Case:
    X, y, prices = priced(name)
    return Case(X, y, (), prices, np.array(CASES[name], dtype=float))


def with_random_prices(name: str, *, free: int = 0, misses: float = 1.0) -> Case:
    """A table of the project's, or of scikit-learn's, where every error costs 1, or of two classes a miss `misses`."""
    loaders: dict[str, Callable[..., Any]] = {
        "wdbc": load_breast_cancer,
        "wine": load_wine,
    }
    categorical: tuple[int, ...] = ()
    if name in loaders:
        X, y = loaders[name](return_X_y=True)
    else:
        X, y, categorical = load(name)
    random = np.random.default_rng(7)
    cost = random.choice(PRICE, size=X.shape[1])
    cost[random.permutation(X.shape[1])[:free]] = 0.0
    benefits = np.eye(int(y.max()) + 1) - 1.0
    benefits[1, 0] *= misses
    return Case(np.asarray(X, dtype=float), y, categorical, Prices.of(cost), benefits)


CASES_BY_NAME: dict[str, Callable[[], Case]] = {
    "german_credit": lambda: with_random_prices("german_credit", free=FREE, misses=5.0),
    "heart_cleveland": lambda: with_test_prices("heart_cleveland"),
    "pima_diabetes": lambda: with_test_prices("pima_diabetes"),
    "thyroid_ann": lambda: with_test_prices("thyroid_ann"),
    **{
        name: lambda name=name: with_random_prices(name)  # type: ignore[misc]
        for name in (
            "breast_cancer_wisconsin",
            "image_segmentation",
            "spambase",
            "covtype_20k",
            "wdbc",
            "wine",
        )
    },
}


@dataclass(kw_only=True, eq=False)
class Shared:
    """Fits that several choices have in common: a learner is the same at every price in this proportion."""

    fits: dict[tuple[str, bytes], Learner] = field(default_factory=dict)

    def choice(self, case: Case, seed: int) -> Automatic:
        """An `auto` that takes a fit from here where it is there."""
        shared = self

        class Choice(Automatic):
            def _fit_candidate(
                self,
                learner: Learner,
                X: np.ndarray,
                codes: np.ndarray,
                weights: np.ndarray,
                blocks: Blocks | None = None,
            ) -> Learner:
                key = learner.name, X.tobytes()
                if key not in shared.fits:
                    shared.fits[key] = super()._fit_candidate(
                        learner, X, codes, weights, blocks
                    )
                return shared.fits[key]

        return Choice(
            categorical_features=list(case.categorical),
            feature_costs=case.prices,
            random_state=seed,
        )


def drawn(case: Case, seed: int) -> tuple[Case, Case]:
    """Rows to learn from, and new ones, of the classes that have enough of them."""
    rows = np.random.default_rng(seed).permutation(len(case.X))[: 2 * ROWS]
    counts = np.bincount(case.y[rows], minlength=len(case.benefits))
    kept = np.flatnonzero(counts >= RAREST)
    rows = rows[np.isin(case.y[rows], kept)]
    X, y = case.X[rows], np.searchsorted(kept, case.y[rows])
    benefits = case.benefits[np.ix_(kept, kept)]
    halves = next(
        StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(X, y)
    )
    inside, outside = (
        case._replace(X=X[half], y=y[half], benefits=benefits) for half in halves
    )
    return inside, outside


def earned(case: Case, seed: int) -> tuple[np.ndarray, list[str]]:
    """The net benefit of each learner, and of `auto` last, at each level (learners, levels), in percent of what
    deciding by the class shares loses; and what `auto` chose.
    """
    inside, outside = drawn(case, seed)
    shared, chosen = Shared(), []
    lost = -float((np.bincount(inside.y) / len(inside.y) @ inside.benefits).max())
    values = np.empty((len(PRICED_CANDIDATES) + 1, len(LEVELS)))
    for level, part in enumerate(LEVELS):
        benefits = inside.benefits * case.prices.cost.sum() / (part * lost)
        unit = part / case.prices.cost.sum()
        model = shared.choice(inside, seed)
        model.benefits = benefits
        model.fit(inside.X, inside.y)
        for number, (name, (learner, _)) in enumerate(PRICED_CANDIDATES.items()):
            weights = np.ones(len(inside.y))
            fit = model._fit_candidate(learner, inside.X, inside.y, weights)  # noqa: SLF001
            P, paid = while_worth(fit, outside.X, case.prices, benefits)
            gains = row_benefits(outside.y, decide(P, benefits).choice, benefits) - paid
            values[number, level] = 100 * unit * gains.mean()
            if name == model.chosen_:
                values[-1, level] = values[number, level]
        chosen.append(model.chosen_)
    return values, chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES_BY_NAME), default=None)
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    learners = [*PRICED_CANDIDATES, "auto"]
    print(
        f"{'':24}{'price':>6}"
        + "".join(f"{name:>15}" for name in learners)
        + "   chosen"
    )
    every = []
    for name in asked.only or CASES_BY_NAME:
        case = CASES_BY_NAME[name]()
        runs = [earned(case, seed) for seed in range(asked.seeds)]
        means = np.mean([values for values, _ in runs], axis=0)
        every.append(means)
        for level, part in enumerate(LEVELS):
            figures = "".join(f"{value:15.1f}" for value in means[:, level])
            chosen = ", ".join(names[level] for _, names in runs)
            print(f"{name:24}{part:6}{figures}   {chosen}", flush=True)
    gaps = np.array(every)[:, -1:] - np.array(every)[:, :-1]
    for level, part in enumerate(LEVELS):
        lead = gaps[:, :, level]
        figures = zip(
            np.median(lead, axis=0),
            lead.mean(axis=0),
            standard_error(lead),
            strict=True,
        )
        told = "".join(
            f"{median:9.1f} {mean:5.1f}±{error:4.1f}" for median, mean, error in figures
        )
        print(f"{'auto ahead: median, mean':24}{part:6}{told}")


if __name__ == "__main__":
    main()
