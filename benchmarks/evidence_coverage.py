"""How often the intervals of the report on outcomes hold: 2,000 simulated streams of each world and size.

python -m benchmarks.evidence_coverage [streams]: prints, for each world and number of cases, the share of streams that
get an interval, the share of these intervals that hold the true mean difference, and the share of wrong ones in all.
Then the errors of the confidence sequence, which is looked at daily.
"""

from __future__ import annotations

import sys

import numpy as np

from app.evidence.sequence import Sequence
from tests.evidence.worlds import WORLDS, coverage

SIZES = (30, 100, 300, 1_000, 10_000)
DAYS, A_DAY = 200, 25
NULLS = {
    "even": ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1)),
    "rare losses": ((1.0, 0.0, -100.0), (0.1, 0.899, 0.001)),
    "rare gains": ((-1.0, 0.0, 200.0), (0.1, 0.8995, 0.0005)),
    "few that differ": ((-1.0, 0.0, 1.0), (0.005, 0.99, 0.005)),
}


def wrong_sequences(values, shares, streams, seed=0):
    """The share of null streams whose sequence excludes 0 on any of 200 days, and the mean half width at the end."""
    rng, wrong, width = np.random.default_rng(seed), 0, 0.0
    for _ in range(streams):
        sequence, failed = Sequence(), False
        for _ in range(DAYS):
            sequence.add(rng.choice(values, A_DAY, p=shares), 2 * max(map(abs, values)))
            _, low, high = sequence.interval()
            failed |= not low <= 0 <= high
        wrong += failed
        width += (high - low) / 2
    return wrong / streams, width / streams


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print(f"{streams} streams each\n| world | cases | with interval | held | wrong of all |\n|---|---|---|---|---|")
    for world in WORLDS:
        for n in SIZES:
            given, held = coverage(world, n, streams)
            share = f"{100 * held / given:.1f} %" if given else "-"
            wrong = 100 * (given - held) / streams
            print(f"| {world} | {n:,} | {100 * given / streams:.0f} % | {share} | {wrong:.1f} % |", flush=True)
    for name, (values, shares) in NULLS.items():
        wrong, width = wrong_sequences(values, shares, streams)
        deviation = np.sqrt(np.dot(shares, np.square(values)) / (DAYS * A_DAY))
        print(
            f"sequence, {name}: wrong {100 * wrong:.2f} %, width {width / (1.96 * deviation):.2f} of one look",
            flush=True,
        )


if __name__ == "__main__":
    main()
