"""How often the intervals of the report on outcomes hold: 2,000 simulated streams of each world and size, of 30 days.

    .venv/bin/python benchmarks/evidence_coverage.py [streams]

Prints, for each world and number of cases, the share of streams that get an interval, the share of these intervals that
hold the true mean difference, the share of wrong ones in all, and of those that exclude 0: false alarms where the
promise is kept, else what the verdict finds. Then the same for fewer days, the false alarms of gains, which are paired
differences, and the errors of the confidence sequence, which is looked at daily.

The smallest work: `.venv/bin/python benchmarks/evidence_coverage.py 2`
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import ndtr, ndtri

from app.evidence.intervals import FEWEST, MeanSums
from app.evidence.sequence import Sequence
from tests.evidence.worlds import WORLDS, coverage

SIZES = (100, 300, 1_000, 5_000, 20_000)
MONTH, FEWER_DAYS = 30, (1, 2, 3, 5, 8, 15)
DAYS, A_DAY = 200, 25
NULLS = {
    "even": ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1), 0.0),
    "rare losses": ((1.0, 0.0, -100.0), (0.1, 0.899, 0.001), 0.0),
    "rare gains": ((-1.0, 0.0, 200.0), (0.1, 0.8995, 0.0005), 0.0),
    "few that differ": ((-1.0, 0.0, 1.0), (0.005, 0.99, 0.005), 0.0),
    "an amount for each case": ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1), 1.0),
    "rare losses of any amount": ((1.0, 0.0, -20.0), (0.1, 0.895, 0.005), 1.0),
}  # values, their shares, and the log-normal spread of the amounts that they are multiples of

GAINS = {"even": (1.0, 0.0), "one in eleven": (10.0, 0.0), "one in eleven, an amount for each case": (10.0, 1.0)}


def wrong_gains(loss, spread, moves, n, days, streams, seed=0):
    """The shares of null streams in which the interval of a gain by days, and by independent cases, excludes 0.

    One way risks `loss` where the other pays 1, at odds that are even on average and move with the days (probit).
    """
    rng, wrong = np.random.default_rng(seed), np.zeros(2)
    for _ in range(streams):
        move = moves * rng.normal(size=days)[np.arange(n) * days // n]
        lost = rng.random(n) < ndtr(ndtri(1 / (1 + loss)) * np.sqrt(1 + moves**2) + move)
        gains = np.exp(spread * rng.normal(size=n)) * np.where(lost, -loss, 1.0)
        if min(lost.sum(), n - lost.sum()) < FEWEST:
            continue
        by_days, together = MeanSums(), MeanSums()
        for day, own in enumerate(np.array_split(gains, days)):
            by_days.add(own, day)
            together.add(own)
        wrong += [not mean.low <= 0 <= mean.high for mean in (by_days.mean(), together.mean())]
    return wrong / streams


def wrong_sequences(values, shares, spread, streams, seed=0):
    """The share of null streams whose sequence excludes 0 on any of 200 days, and the mean half width at the end."""
    rng, wrong, width = np.random.default_rng(seed), 0, 0.0
    for _ in range(streams):
        sequence, failed = Sequence(), False
        for day in range(DAYS):
            amounts = np.exp(spread * rng.normal(size=A_DAY))
            gains = amounts * rng.choice(values, A_DAY, p=shares)
            sequence.add(gains, amounts * min(values), amounts * max(values), day)
            found = sequence.interval()
            failed |= not found.low <= 0 <= found.high
        wrong += failed
        width += (found.high - found.low) / 2
    return wrong / streams, width / streams


def percent(count, streams):
    """With its standard error."""
    share = count / streams
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / streams):.1f} %"


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print(f"{streams} streams each\n| world | days | cases | with interval | held | wrong of all | excludes 0 |")
    print("|---|---|---|---|---|---|---|")
    cells = [(world, MONTH, n) for world in WORLDS for n in SIZES]
    cells += [(world, days, 1_000) for world in WORLDS if "days" in world for days in FEWER_DAYS]
    for world, days, n in cells:
        given, held, found = coverage(world, n, streams, days)
        share = f"{100 * held / given:.1f} %" if given else "-"
        rest = f"{share} | {percent(given - held, streams)} | {percent(found, streams)}"
        print(f"| {world} | {days} | {n:,} | {100 * given / streams:.0f} % | {rest} |", flush=True)
    print("| gains | days move by | days | cases | wrong by days | wrong by cases |\n|---|---|---|---|---|---|")
    for name, (loss, spread) in GAINS.items():
        for moves, days, n in ((0.0, 8, 1_000), (0.0, 30, 5_000), (0.25, 8, 1_000), (0.25, 30, 5_000)):
            own = wrong_gains(loss, spread, moves, n, days, streams) * streams
            shares = " | ".join(percent(count, streams) for count in own)
            print(f"| {name} | {moves} | {days} | {n:,} | {shares} |", flush=True)
    for name, (values, shares, spread) in NULLS.items():
        wrong, width = wrong_sequences(values, shares, spread, streams)
        deviation = np.sqrt(np.dot(shares, np.square(values)) * np.exp(2 * spread**2) / (DAYS * A_DAY))
        print(
            f"sequence, {name}: wrong {100 * wrong:.2f} %, width {width / (1.96 * deviation):.2f} of one look",
            flush=True,
        )


if __name__ == "__main__":
    main()
