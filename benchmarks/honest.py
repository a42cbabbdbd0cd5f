"""What hold-outs promise, at random, by group and by time, beside what the model then earns on other groups or later rows.

The tables of benchmarks/honest.md: benefits in parts of the range from the best single action to perfect knowledge, where
1 is perfect; and how often the 95 % interval of the hold-out's benefit contains what the evaluated model earns for new
customers, and that of a cross-validated small table what the published model earns on new rows.

    .venv/bin/python benchmarks/honest.py [--seeds 5] [--coverage 200] [--folds 40]

The smallest work: `.venv/bin/python benchmarks/honest.py --seeds 1 --coverage 1 --folds 1`
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from common import cells, load, standard_error
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from app.training.splits import split_rows
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import Blocks, held_out, splits, stratified_folds
from payoff.decisions.rule_ranking import LabelledRows, contest
from payoff.learners.catalogue import resolve

PART = 0.25
CUSTOMERS, ROWS_OF_CUSTOMER = 300, 10
CUSTOMERS_OF_COVERAGE = 240
NEW_CUSTOMERS = 2_000
POOL, LATER = 4_000, 2_000  # rows of the electricity market
LEARNERS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic"},
    "random_forest": {"kind": "random_forest", "n_estimators": 50},
}
QUICK_LEARNERS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic", "calibration": "none"},
    "random_forest": {
        "kind": "random_forest",
        "n_estimators": 20,
        "min_samples_leaf": 2,
        "calibration": "none",
    },
}
TABLES = ("simulated", "covtype_20k", "electricity", "letter")
SMALL = (100, 200, 300)
NEW_ROWS = 10_000
CHEAP_LEARNERS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "naive Bayes": GaussianNB(),
    "15 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
}
MATRICES = (
    np.array([[0.0, -1], [-1, 0]]),
    np.array([[0.0, -1], [-5, 0]]),
    np.array([[1.0, -1], [-10, 5]]),
)


@dataclass(frozen=True)
class World:
    """Rows to train on, with the blocks that new cases do not share, and rows of other blocks."""

    X: np.ndarray
    y: np.ndarray
    blocks: Blocks
    new_rows: np.ndarray
    new_labels: np.ndarray

    @property
    def benefits(self) -> np.ndarray:
        """A matrix by which both actions earn 0 if they are taken for all rows to train on."""
        share = self.y.mean()
        return np.array([[0.0, -share], [0.0, 1 - share]])

    def part_of_range(self, P: np.ndarray, y: np.ndarray) -> float:
        """The benefit of decisions with probabilities P (n, 2) as a part of the range."""
        benefits = row_benefits(y, decide(P, self.benefits).choice, self.benefits)
        perfect = self.benefits.max(axis=1)[y].mean()
        single = max(0.0, float(self.benefits[y].mean(axis=0)[1]))
        return float((benefits.mean() - single) / (perfect - single))


def customers(seed: int, count: int = CUSTOMERS) -> World:
    """Simulated customers of ten rows each, who differ by more than their features say."""
    rng = np.random.default_rng(seed)

    def drawn(customers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes = np.repeat(np.arange(customers), ROWS_OF_CUSTOMER)
        traits = rng.normal(size=(customers, 4))
        effects = rng.normal(scale=1.5, size=customers)
        moods = rng.normal(size=(len(codes), 2))
        logit = 0.6 * traits[codes, 0] + 0.8 * moods[:, 0] + effects[codes]
        y = (rng.random(len(codes)) < 1 / (1 + np.exp(-logit))).astype(np.int64)
        return np.column_stack((traits[codes], moods)), y, codes

    X, y, codes = drawn(count)
    new_rows, new_labels, _ = drawn(NEW_CUSTOMERS)
    return World(X, y, Blocks.of(codes), new_rows, new_labels)


def patients(seed: int) -> World:
    """People of the German health survey, one to five years each: whether they see a doctor."""
    names, text = cells("rwm5yr")
    columns = dict(zip(names, text.T, strict=True))
    left_out = {"", "id", "docvis", "hospvis"}
    X = np.column_stack(
        [columns[name].astype(float) for name in names if name not in left_out]
    )
    y = (columns["docvis"].astype(float) > 0).astype(np.int64)
    people = np.unique(columns["id"], return_inverse=True)[1]
    is_new = (np.random.default_rng(seed).random(people.max() + 1) < 0.75)[people]
    blocks = Blocks.of(people[~is_new])
    return World(X[~is_new], y[~is_new], blocks, X[is_new], y[is_new])


def market(seed: int) -> World:
    """The electricity market of New South Wales in the order of time: whether the price rises."""
    _, text = cells("electricity")
    rows = text.astype(float)
    begin = np.random.default_rng(seed).integers(len(rows) - POOL - LATER)
    train = rows[begin : begin + POOL]
    later = rows[begin + POOL : begin + POOL + LATER]
    blocks = Blocks.of(np.arange(POOL), ordered=True)
    return World(
        train[:, :-1],
        train[:, -1].astype(np.int64),
        blocks,
        later[:, :-1],
        later[:, -1].astype(np.int64),
    )


WORLDS: dict[str, tuple[Callable[[int], World], str]] = {
    "simulated customers": (customers, "group"),
    "rwm5yr": (patients, "group"),
    "electricity": (market, "time"),
}


def held(world: World, blocks: Blocks | None, seed: int) -> np.ndarray:
    """The rows (n,) to hold out: at random without blocks."""
    if blocks is not None:
        return held_out(world.y, PART, seed, blocks)
    return np.isin(np.arange(len(world.y)), split_rows(world.y, PART, seed).holdout)


def drawn_groups(world: World, seed: int) -> np.ndarray:
    """The rows (n,) of groups drawn at random, without balancing the classes as hold-outs do."""
    count = int(world.blocks.codes.max()) + 1
    chosen = np.random.default_rng(seed).permutation(count)[: round(PART * count)]
    return np.isin(world.blocks.codes, chosen)


def fitted(
    world: World, rows: Any, blocks: Blocks | None, learner: dict, seed: int
) -> Any:
    """A model of some rows, whose inner splits follow the blocks."""
    model = resolve(learner).build(random_state=seed)
    of_rows = None if blocks is None else blocks.take(rows)
    return model.fit(world.X[rows], world.y[rows], blocks=of_rows)


def promises(seeds: int) -> None:
    """Print promised and realised benefits of each world, learner and split."""
    print("| world | learner | split | promised | earned | promised too much |")
    print("|---|---|---|---:|---:|---:|")
    for name, (make, kind) in WORLDS.items():
        figures = defaultdict(list)
        for seed in range(seeds):
            world = make(seed)
            for learner, request in LEARNERS.items():
                for split, blocks in (("random", None), (kind, world.blocks)):
                    is_held = held(world, blocks, seed)
                    model = fitted(world, ~is_held, blocks, request, seed)
                    P = model.posterior(world.X[is_held])
                    promised = world.part_of_range(P, world.y[is_held])
                    model.refit(world.X, world.y, blocks=blocks)
                    earned = world.part_of_range(
                        model.posterior(world.new_rows), world.new_labels
                    )
                    figures[learner, split].append(
                        (promised, earned, promised - earned)
                    )
        for (learner, split), values in figures.items():
            table = np.array(values)
            means = [f"{mean:.3f}" for mean in table.mean(axis=0)]
            error = standard_error(table)[2]
            print(
                f"| {name} | {learner} | {split} | {' | '.join(means)} ± {error:.3f} |",
                flush=True,
            )


def coverage(seeds: int) -> None:
    """Print how often the interval of a hold-out contains the benefit for new customers."""
    print(f"\n{seeds} seeds, {CUSTOMERS_OF_COVERAGE} simulated customers\n")
    print("| learner | split | 95 % intervals that contain the benefit | mean width |")
    print("|---|---|---:|---:|")
    inside = defaultdict(list)
    for seed in range(seeds):
        world = customers(1_000 + seed, CUSTOMERS_OF_COVERAGE)
        for learner, request in QUICK_LEARNERS.items():
            splits = {
                "random rows": (held(world, None, seed), None),
                "groups, balanced": (held(world, world.blocks, seed), world.blocks),
                "groups, drawn": (drawn_groups(world, seed), world.blocks),
            }
            for split, (is_held, blocks) in splits.items():
                model = fitted(world, ~is_held, blocks, request, seed)
                y = world.y[is_held]
                choice = decide(
                    model.posterior(world.X[is_held]), world.benefits
                ).choice
                groups = None if blocks is None else blocks.take(is_held).codes
                shares = np.bincount(y, minlength=2) / len(y)
                rows = LabelledRows(y, world.benefits, shares, groups=groups)
                choices = np.column_stack((choice, np.zeros_like(choice)))
                low, high = contest(choices, rows, fixed=[1]).standings[0].interval
                new_choice = decide(
                    model.posterior(world.new_rows), world.benefits
                ).choice
                truth = row_benefits(
                    world.new_labels, new_choice, world.benefits
                ).mean()
                inside[learner, split].append((low <= truth <= high, high - low))
    for (learner, split), values in inside.items():
        share, width = np.mean(values, axis=0)
        error = np.sqrt(share * (1 - share) / len(values))
        print(f"| {learner} | {split} | {share:.3f} ± {error:.3f} | {width:.3f} |")


def two_classes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and two classes: those below and from the median class; or simulated ones, 30 % of the second."""
    if name == "simulated":
        rng = np.random.default_rng(0)
        y = (rng.random(20_000) < 0.3).astype(np.intp)
        return rng.normal(size=(len(y), 8)) + 0.4 * y[:, None], y
    X, y, _ = load(name)
    return X, (y >= max(np.median(y), 1)).astype(np.intp)


def covered(
    small: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
    model: Any,
    seed: int,
) -> np.ndarray:
    """Whether the intervals of a small table contain what the published model earns on new rows, (matrices, 2).

    The first as of held-out rows, the second as of cross-validated ones.
    """
    X, y = small
    P = np.empty((len(y), 2))
    for inside, outside in splits(stratified_folds(y, 4, seed)):
        P[outside] = model.fit(X[inside], y[inside]).predict_proba(X[outside])
    Q = model.fit(X, y).predict_proba(new[0])
    hits = np.empty((len(MATRICES), 2))
    for number, B in enumerate(MATRICES):
        choices = decide(P, B).choice[:, None]
        earned = row_benefits(new[1], decide(Q, B).choice, B).mean()
        for is_cv in (False, True):
            rows = LabelledRows(y, B, np.bincount(y) / len(y), cross_validated=is_cv)
            low, high = contest(choices, rows).standings[0].interval
            hits[number, int(is_cv)] = low <= earned <= high
    return hits


def folds(worlds: int) -> None:
    """Print the coverage of cross-validated small tables, and what it is with intervals as of held-out rows."""
    print(f"\n{worlds} small tables of each kind, four folds, three matrices\n")
    print("| table | learner | rows | as held out | cross-validated |")
    print("|---|---|---:|---:|---:|")
    every = []
    for name in TABLES:
        X, y = two_classes(name)
        for (learner, model), n in product(CHEAP_LEARNERS.items(), SMALL):
            hits = []
            for seed in range(worlds):
                order = np.random.default_rng((seed, n)).permutation(len(y))
                small = order[:n]
                new = order[n : n + NEW_ROWS]
                hits.append(
                    covered((X[small], y[small]), (X[new], y[new]), model, seed)
                )
            held, crossed = np.mean(hits, axis=(0, 1))
            print(
                f"| {name} | {learner} | {n} | {held:.3f} | {crossed:.3f} |", flush=True
            )
            every += hits
    shares = np.mean(every, axis=1)
    held, crossed = shares.mean(axis=0)
    errors = standard_error(shares)
    print(
        f"| all | | | {held:.3f} ± {errors[0]:.3f} | {crossed:.3f} ± {errors[1]:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--coverage", type=int, default=200)
    parser.add_argument("--folds", type=int, default=40)
    chosen = parser.parse_args()
    if chosen.seeds:
        promises(chosen.seeds)
    if chosen.coverage:
        coverage(chosen.coverage)
    if chosen.folds:
        folds(chosen.folds)


if __name__ == "__main__":
    main()
