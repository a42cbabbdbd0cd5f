"""Speed and regret of the best-set search: .venv/bin/python benchmarks/retrieval_speed.py [--quick]

Prints, as medians of several runs on one thread unless said otherwise:

- the targets the project sets itself, with what was measured;
- F1 for n = 1e2 … 1e6 against Algorithm 1 of Natarajan et al. (ICML 2016), against the O(n²) algorithm for F (Ye et
  al., ICML 2012), each as far as it gets in about a minute, and against the plug-in rule (the best k for the expected
  counts) and the cut at 1/2, with their regrets: how much more expected loss their sets have;
- what Algorithm 1's stop at the first rise costs, and the plug-in rule on small sets;
- where the methods change over.

The smallest work: `.venv/bin/python benchmarks/retrieval_speed.py --quick`
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import resource
import statistics
import time

import numpy as np
from numba import njit

from app.kernels import CALLS
from app.retrieval import selection
from app.retrieval.losses import Terms
from app.retrieval.selection import BATCH_DP_LIMIT, expected_losses, select, select_many
from tests.reference.losses import am, auc, f_beta, g_mean, g_tp_pr, h_mean, jaccard

LIMIT_SECONDS = 60.0


def median(task, runs):
    """Median wall seconds of some runs."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        task()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def timed(task, runs):
    """Median wall seconds and mean processor seconds, which other processes disturb less."""
    begun = time.process_time()
    wall = median(task, runs)
    return wall, (time.process_time() - begun) / runs


def logistic(n, seed=0):
    """Probabilities of a calibrated classifier with about 7 % relevant items, most likely first."""
    scores = np.random.default_rng(seed).normal(-4, 2, n)
    return np.sort(1 / (1 + np.exp(-scores)))[::-1].copy()


@njit(cache=True, nogil=True)
def algorithm_1(p):
    """The paper's Algorithm 1 for F1: both laws anew for every k, and their double sum; O(n³)."""
    n = p.size
    best, best_k = 1.0, 0
    front, back = np.empty(n + 1), np.empty(n + 1)
    for k in range(1, n + 1):
        for law, lo, hi in ((front, 0, k), (back, k, n)):
            law[:] = 0.0
            law[0] = 1.0
            for i in range(lo, hi):
                for j in range(i - lo + 1, 0, -1):
                    law[j] = law[j] * (1 - p[i]) + law[j - 1] * p[i]
                law[0] *= 1 - p[i]
        loss = 1.0
        for t in range(1, k + 1):
            for m in range(n - k + 1):
                loss -= front[t] * back[m] * 2 * t / (t + m + k)
        if loss < best:
            best, best_k = loss, k
    return best, best_k


@njit(cache=True, nogil=True, fastmath={"contract"})
def grow(law, size, p, out):
    """The law of one more label; out may not be law."""
    out[0] = law[0] * (1 - p)
    for j in range(1, size):
        out[j] = law[j] * (1 - p) + law[j - 1] * p
    out[size] = law[size - 1] * p


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def quadratic(p):
    """Ye et al.'s algorithm for F1, O(n²); prefix laws are kept every sqrt(n) items and redone between."""
    n = p.size
    block = int(np.sqrt(n)) + 1
    kept = np.zeros(((n + block - 1) // block, n + 1))
    laws = np.zeros((block + 1, n + 1))
    laws[0, 0] = 1.0
    for i in range(n):
        if i % block == 0:
            kept[i // block] = laws[i % 2]
        grow(laws[i % 2], i + 1, p[i], laws[(i + 1) % 2])
    values = 1.0 / np.arange(1.0, 2 * n + 2)  # values[a - 1] = E[1 / (a + number of relevant items behind k)]
    best, best_k = 1.0, 0
    for lo in range((n - 1) // block * block, -1, -block):
        hi = min(lo + block, n)
        laws[0] = kept[lo // block]
        for i in range(lo, hi):
            grow(laws[i - lo], i + 1, p[i], laws[i - lo + 1])
        for k in range(hi, lo, -1):
            law, loss, one = laws[k - lo], 1.0, p[k - 1]
            for t in range(1, k + 1):
                loss -= 2 * t * law[t] * values[k + t - 1]
            if loss < best:
                best, best_k = loss, k
            for a in range(2 * k):
                values[a] = one * values[a + 1] + (1 - one) * values[a]
    return best, best_k


def plug_in(p, score):
    """The k whose set is best at the expected counts."""
    k = np.arange(1, len(p) + 1)
    return int(k[np.argmax(score(np.cumsum(p), k, p.sum()))])


def first_rise(curve):
    """Where Algorithm 1 stops: the first k with L_k <= L_(k + 1), from k = 1."""
    rises = np.flatnonzero(curve[1:-1] <= curve[2:])
    return int(rises[0]) + 1 if len(rises) else len(curve) - 1


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def targets(n, runs):
    print(f"\nTargets at n = {n:,}: one thread, items in order")
    print(f"{'what':<34}{'loss':<10}{'seconds':>9}{'of CPU':>9}{'target':>9}{'process MB':>12}")
    p = logistic(n)
    for loss in (f_beta(), f_beta(2.5), jaccard(), am(), g_tp_pr()):
        target("whole curve", loss, timed(lambda loss=loss: expected_losses(p, loss), runs), "1")
    shuffled = np.random.default_rng(1).permutation(p)
    for loss in (f_beta(), g_mean(), h_mean(), auc()):
        target("optimum, with sorting", loss, timed(lambda loss=loss: select(shuffled, Terms(loss)), runs), "3")
    flat = np.full(n, 1e-6)  # no item better than another: the certificate excludes hardly any k
    for loss in (g_mean(), h_mean()):
        target("optimum, all equal and rare", loss, timed(lambda loss=loss: select(flat, Terms(loss)), 1), "3")
    groups = n // 10
    labels = np.random.default_rng(2).random((groups, 20)).ravel() ** 4
    offsets = np.arange(groups + 1) * 20
    for threads in (1, 2):
        spent = timed(lambda threads=threads: select_many(labels, offsets, Terms(f_beta()), threads=threads), 2 * runs)
        what = f"{groups:,} sets x 20, {threads} thread{'s' * (threads > 1)}"
        target(what, f_beta(), spent, "0.1" if threads == 2 else "")


def target(what, loss, spent, limit):
    print(f"{what:<34}{loss.name:<10}{spent[0]:>9.3f}{spent[1]:>9.3f}{limit:>9}{peak():>12.0f}")


def against_others(sizes, runs):
    print("\nF1: seconds, and regret of the simple rules (expected loss beyond the optimum)")
    print(
        f"{'n':>9}{'select':>10}{'Alg. 1':>10}{'O(n²)':>10}{'O(n²)/ours':>12}{'agree':>9}{'plug-in':>10}{'cut 1/2':>10}"
    )
    spent = {"cubic": 0.0, "square": 0.0}
    for n in sizes:
        p = logistic(n)
        ours = median(lambda p=p: select(p, Terms(f_beta())), runs)
        curve = expected_losses(p, f_beta()).values
        cells, best = [], select(p, Terms(f_beta())).expected_loss
        off = 0.0
        for key, growth, other in (("cubic", 1000, algorithm_1), ("square", 100, quadratic)):
            if spent[key] * growth > LIMIT_SECONDS:
                cells.append(None)
                continue
            begun = time.perf_counter()
            loss, _ = other(p)
            spent[key] = time.perf_counter() - begun
            cells.append(spent[key])
            off = max(off, abs(loss - best))
        for key, missing in zip(spent, cells, strict=True):
            if missing is None:
                spent[key] = float("inf")
        regrets = [
            curve[plug_in(p, lambda tp, k, positives: 2 * tp / (k + positives))] - best,
            curve[int((p >= 0.5).sum())] - best,
        ]
        shown = "".join(f"{'-' if cell is None else f'{cell:.4f}':>10}" for cell in cells)
        ratio = "-" if cells[1] is None else f"{cells[1] / ours:.0f}"
        agree = "-" if cells[1] is None else f"{off:.0e}"
        print(f"{n:>9,}{ours:>10.5f}{shown}{ratio:>12}{agree:>9}{regrets[0]:>10.1e}{regrets[1]:>10.1e}")


def early_stops(sets, n):
    print(f"\nStopping at the first rise, {sets} sets of {n} labels (some certain, the others equal)")
    rng = np.random.default_rng(3)
    for loss in (f_beta(), jaccard(), g_tp_pr()):
        regrets = []
        for _ in range(sets):
            certain = rng.integers(0, n // 2)
            p = np.concatenate([np.ones(certain), np.full(n - certain, rng.uniform(0.2, 0.7))])
            curve = expected_losses(p, loss).values
            regrets.append(curve[first_rise(curve)] - curve.min())
        wrong = np.mean(np.array(regrets) > 1e-12)
        print(
            f"{loss.name:<10} wrong on {wrong:6.1%}, mean regret {np.mean(regrets):.1e}, largest {np.max(regrets):.1e}"
        )


def small_plug_ins(sets):
    print(f"\nThe plug-in rule for F1 on {sets} small sets, and the cut at 1/2")
    rng = np.random.default_rng(4)
    for n in (10, 20, 50):
        regrets = []
        for _ in range(sets):
            p = np.sort(rng.random(n) ** 4)[::-1].copy()
            curve = expected_losses(p, f_beta()).values
            chosen = plug_in(p, lambda tp, k, positives: 2 * tp / (k + positives)), int((p >= 0.5).sum())
            regrets.append(curve[list(chosen)] - curve.min())
        wrong = np.mean(np.array(regrets)[:, 0] > 1e-12)
        means = np.mean(regrets, axis=0)
        print(f"n = {n:<6} wrong on {wrong:6.1%}, mean regret {means[0]:.1e}, of the cut {means[1]:.1e}")


def change_over(runs):
    limits = f"one set: DP up to {selection.DP_LIMIT} items, batch: up to {BATCH_DP_LIMIT}"
    print(f"\nChange-over, microseconds per set ({limits})")
    print(f"{'n':>5}{'DP, one set':>13}{'quadrature':>12}{'G-Mean sums':>13}{'DP in a batch':>15}")
    for n in (8, 16, 24, 32, 40, 48, 64):
        p = logistic(n)
        many, offsets = np.tile(p, 2000), np.arange(2001) * n
        cells = [
            median(lambda p=p: selection.tabled_curve(p, f_beta(), 0), 100 * runs),
            median(lambda p=p: selection.BY_QUADRATURE["f_beta"](p, f_beta(), 0), 100 * runs),
            median(lambda p=p: selection.MeanOfRates(p, harmonic=False).curve(), 100 * runs),
            median(lambda many=many, offsets=offsets: select_many(many, offsets, Terms(f_beta()), threads=1), runs)
            / 2000,
        ]
        print(f"{n:>5}{1e6 * cells[0]:>13.1f}{1e6 * cells[1]:>12.1f}{1e6 * cells[2]:>13.1f}{1e6 * cells[3]:>15.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer runs")
    quick = parser.parse_args().quick
    begun = time.perf_counter()
    for call in CALLS.values():
        call()
    algorithm_1(logistic(3))
    quadratic(logistic(3))
    print(f"compiled or loaded in {time.perf_counter() - begun:.1f} s")
    runs = 3 if quick else 7
    targets(100_000 if quick else 1_000_000, runs)
    against_others((100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000, 1_000_000), runs)
    early_stops(50 if quick else 500, 12)
    small_plug_ins(50 if quick else 2000)
    change_over(1 if quick else runs)


if __name__ == "__main__":
    main()
