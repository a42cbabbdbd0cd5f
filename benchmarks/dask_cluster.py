"""How much faster two Dask workers fit a forest than one, and what the cluster costs beside plain threads.

    .venv/bin/python benchmarks/dask_cluster.py [--rounds N] [covtype_20k.csv.gz, by default that of ../shared/data]

Starts its own schedulers and workers on loopback: one cluster with one worker, one with two, each worker with one
thread. The three ways (two joblib threads, one worker, two workers) take turns, so that what else the machine does
falls on all alike; ratios are medians over the rounds of ratios within a round. CPU seconds are those of all processes
of a fit, and say what the cluster costs also where the machine is busy. On a machine of two
cores the client and the scheduler compete with the workers, as threads do not.

The smallest work: `.venv/bin/python benchmarks/dask_cluster.py --rounds 1 --only random_forest`
"""

# ruff: noqa: E402 - the threads have to be set before numpy loads

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

os.environ["OMP_NUM_THREADS"] = "1"
HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

import numpy as np
import psutil

from app.jobs.parallel import pieces_run_on
from app.learners.budget_forest import BudgetForest
from app.learners.random_forest import RandomForest
from tests.servers.dask import DaskCluster

TREES = 64
LEARNERS = {
    "budget_forest": lambda: BudgetForest(n_estimators=TREES, random_state=0),
    "random_forest": lambda: RandomForest(n_estimators=TREES, random_state=0),
}


def cpu(clusters):
    """Seconds that this process and the servers have computed so far."""
    pids = [program.pid for cluster in clusters for program in cluster.programs]
    times = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), *pids)]
    return sum(time.user + time.system for time in times)


def fit(build, place, X, y, clusters):
    """Wall and CPU seconds of a fit, with connecting to the cluster and leaving it, and what it answers.

    Clusters that are not asked stand still meanwhile: their beat is another machine's business.
    """
    others = [program for cluster in clusters if cluster.address != place[0] for program in cluster.programs]
    for program in others:
        program.pause()
    before, began = cpu(clusters), perf_counter()
    with pieces_run_on(*place):
        model = build().fit(X, y)
    spent = perf_counter() - began, cpu(clusters) - before
    for program in others:
        program.resume()
    return *spent, model.posterior(X[:2000])


def compare(name, places, X, y, clusters, rounds):
    build = LEARNERS[name]
    answers = [fit(build, place, X, y, clusters)[2] for place in places.values()]  # and everything is loaded
    assert all(np.array_equal(answers[0], answer) for answer in answers), "the place must not change the result"
    times = {label: [] for label in places}
    for number in range(rounds):
        order = list(places.items())
        for label, place in order[number % 3 :] + order[: number % 3]:
            times[label].append(fit(build, place, X, y, clusters)[:2])
    print(f"\n{name}, {TREES} trees, {X.shape[0]} x {X.shape[1]}: medians of {rounds} rounds")
    for label, spent in times.items():
        wall, computed = (median(one) for one in zip(*spent, strict=True))
        print(f"  {label:<12} {wall:6.2f} s, {computed:6.2f} CPU s")
    ratios("one worker / two workers", times["one worker"], times["two workers"], 0)
    ratios("two workers / two threads", times["two workers"], times["two threads"], 0)
    ratios("two workers / two threads, CPU", times["two workers"], times["two threads"], 1)


def ratios(what, above, below, which):
    found = [one[which] / other[which] for one, other in zip(above, below, strict=True)]
    print(f"  {what:<31} {median(found):5.2f}   ({min(found):.2f} … {max(found):.2f})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path", nargs="?", type=Path, default=HERE.parent / "shared" / "data" / "covtype_20k.csv.gz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=LEARNERS)
    chosen = parser.parse_args()
    table = np.loadtxt(chosen.path, delimiter=",", skiprows=1)
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(int)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    clusters = [DaskCluster(1), DaskCluster(2)]
    try:
        for cluster in clusters:
            cluster.start()
        one, two = (cluster.address for cluster in clusters)
        places = {"two threads": ("", 2), "one worker": (one, 1), "two workers": (two, 1)}
        for name in [chosen.only] if chosen.only else LEARNERS:
            compare(name, places, X, y, clusters, chosen.rounds)
    finally:
        for cluster in clusters:
            cluster.close()


if __name__ == "__main__":
    main()
