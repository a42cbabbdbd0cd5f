"""How often 95 % intervals of benefits cover the true benefit, and how wide they are: before and now.

   .venv/bin/python benchmarks/intervals.py [seeds, default 400] [share of positives] [cost of a missed positive]

Each seed draws a population and a hold-out from it. Four learners of nearly equal quality have normal scores in either
class, with a correlation of 0.8; the distance between the classes is uniform in 1 to 3. Contenders: the
expected-benefit rule of each learner, the most probable class of the first, and the best action for all. A false alarm
costs 1, a missed positive costs the stated ratio. So the true benefit of each contender is known exactly. With priors,
positives are three times as frequent in use as in the hold-out, at most 50 %, and the hold-out has a row of each class
at least.

"benefit": the interval of the first contender. "behind": the intervals of the distances of all others from the best
contender, which is chosen on the same rows. "before" are percentiles of multinomial resamples. Each entry: coverage,
mean width. "false" is how often a lead is called significant although the contender in the lead is not better; it must
be at most .05.

The smallest work: `.venv/bin/python benchmarks/intervals.py 2 .5 1`
"""

from __future__ import annotations

import itertools
import sys
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from app.decisions.benefit import row_benefits
from app.decisions.ranking import Judged, contest
from app.decisions.rules import same_for_all
from tests.reference.bootstrap import percentile_intervals

SHARES = (0.015, 0.1, 0.5)
RATIOS = (1, 10, 100)
SIZES = (100, 400, 1600)
LEARNERS = 4
CORRELATION = 0.8
SPREAD = 0.1  # standard deviation of the learners' quality


class Case(NamedTuple):
    """A hold-out with the actions of each contender (n, c), and their true benefits (c,)."""

    judged: Judged
    choices: np.ndarray
    truth: np.ndarray


def draw(rng: np.random.Generator, n: int, share: float, ratio: float, priors: bool) -> Case:
    positives = int(rng.binomial(n, share))
    if priors:
        positives = min(max(positives, 1), n - 1)
    y = np.repeat([0, 1], [n - positives, positives])
    distance = rng.uniform(1, 3) + SPREAD * rng.normal(size=LEARNERS)
    noise = CORRELATION**0.5 * rng.normal(size=(n, 1)) + (1 - CORRELATION) ** 0.5 * rng.normal(size=(n, LEARNERS))
    scores = y[:, None] * distance + noise
    used = min(3 * share, 0.5) if priors else share
    cuts = [cut(distance, used, 1 / (1 + ratio)), cut(distance[:1], used, 0.5)]
    which = np.concatenate((np.arange(LEARNERS), [0]))
    cut_at, apart = np.concatenate(cuts), distance[which]
    B = np.array([[0.0, -1.0], [-ratio, 0.0]])
    shares = np.array([1 - used, used])
    constant = same_for_all(n, B, shares)
    choices = np.column_stack(((scores[:, which] > cut_at).astype(int), constant.choice))
    truth = -(1 - used) * norm.sf(cut_at) - used * ratio * norm.cdf(cut_at - apart)
    return Case(Judged(y, B, shares, known=priors), choices, np.append(truth, shares @ B[:, constant.choice[0]]))


def cut(distance: np.ndarray, share: float, posterior: float) -> np.ndarray:
    """The score where the posterior has this value."""
    odds = np.log(posterior / (1 - posterior)) - np.log(share / (1 - share))
    return odds / distance + distance / 2


def covers(interval: np.ndarray, truth: np.ndarray) -> np.ndarray:
    slack = 1e-9
    return (interval[:, 0] - slack <= truth) & (truth <= interval[:, 1] + slack)


def measure(case: Case) -> list[float]:
    """Coverage and width of benefit and behind, before and now, and whether a lead was falsely called significant."""
    judged, choices, truth = case
    ranking = contest(choices, judged, fixed=[choices.shape[1] - 1])
    values = np.column_stack([row_benefits(judged.y, choice, judged.B) for choice in choices.T])
    before = percentile_intervals(values, judged.weights, judged.y if judged.known else None)
    now = (
        np.array([one.interval for one in ranking.standings]),
        np.array([one.behind_interval for one in ranking.standings]),
    )
    others = np.arange(len(truth)) != ranking.best
    lead = truth[ranking.best] - truth
    found: list[float] = []
    for benefit, behind in (before, now):
        found += [float(covers(benefit, truth)[0]), float(np.ptp(benefit[0]))]
        found += [float(covers(behind, lead)[others].mean()), float(np.ptp(behind[others], axis=1).mean())]
    false = ranking.runner_up is not None and ranking.significant and lead[ranking.runner_up] <= 0
    return [*found, float(false)]


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    shares = [float(sys.argv[2])] if len(sys.argv) > 2 else SHARES
    ratios = [float(sys.argv[3])] if len(sys.argv) > 3 else RATIOS
    print(f"{seeds} seeds")
    print("| priors | share | ratio | rows | benefit before | benefit | behind before | behind | false |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for priors, share, ratio, n in itertools.product((False, True), shares, ratios, SIZES):
        seeding = np.random.SeedSequence([int(share * 1000), int(ratio), n, priors])
        cases = (draw(np.random.default_rng(one), n, share, ratio, priors) for one in seeding.spawn(seeds))
        row = np.mean([measure(case) for case in cases], axis=0)
        rows.append(row)
        pairs = [f"{row[2 * i]:.3f}, {row[2 * i + 1]:.3g}" for i in (0, 2, 1, 3)]
        print(
            f"| {'yes' if priors else 'no'} | {share:g} | 1:{ratio:g} | {n} | {' | '.join(pairs)} | {row[8]:.3f} |",
            flush=True,
        )
    table = np.array(rows)
    for name, place in (("benefit before", 0), ("benefit", 4), ("behind before", 2), ("behind", 6)):
        column = table[:, place]
        inside = ((column >= 0.94) & (column <= 0.97)).mean()
        print(f"{name}: {column.min():.3f} to {column.max():.3f}, mean {column.mean():.3f}; in .94-.97: {inside:.0%}")


if __name__ == "__main__":
    main()
