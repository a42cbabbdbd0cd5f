"""What recording costs a single-row `/predict`: `payoff serve` with and without `"record": true`, in one run.

On SQLite and on PostgreSQL (Debian's package, `fsync=on`), both beside the service on this machine. Rounds take turns;
the figures are medians of the rounds. `disk` is what the disk alone takes: 4 kB appended to a file, and fdatasync.
Run: .venv/bin/python benchmarks/recording.py [rounds]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import uvloop
from sklearn.datasets import load_breast_cancer

from benchmarks.serving import BENEFITS, CONNECTIONS, Server, load, made_key, payoff_command, request, server, train
from tests.servers.postgres import Postgres

REQUESTS = 1500
SECONDS = 2.0
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
GOALS = {"p50": "<= 1.5", "p99": "<= 2", "requests/s": ">= 0.6"}
CORES = ",".join(map(str, sorted(os.sched_getaffinity(0))))


class DurablePostgres(Postgres):
    """The tests' server, whose commits reach the disk."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "fsync=on"]


def main() -> None:
    data = load_breast_cancer()
    for kind in ("SQLite", "PostgreSQL"):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            state = {"PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models")}
            if kind == "PostgreSQL":
                database = DurablePostgres()
                stack.callback(database.close)
                database.start()
                state["PAYOFF_DATABASE"] = database.create_database()
            key = made_key(state)
            log = stack.enter_context((folder / "log").open("wb"))
            payoff = stack.enter_context(server(payoff_command(), state, "/health/ready", key=key, log=log))
            os.system(f"taskset -a -p -c {CORES} {payoff.process.pid} > /dev/null")  # as users start it: on all cores
            train(payoff, data)
            compare(kind, payoff, data, folder)


def compare(kind: str, payoff: Server, data: object, folder: Path) -> None:
    asked = {"model": "bench", "benefits": BENEFITS, "instances": data.data[:1].tolist()}
    messages = {
        name: request(payoff, "/predict", json.dumps(asked | more).encode())
        for name, more in (("plain", {}), ("recorded", {"record": True}))
    }
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in messages}
    for _ in range(ROUNDS + 1):  # the first round warms up and is left out
        for name, message in messages.items():
            times = uvloop.run(load(payoff.port, message, 1, requests=REQUESTS))
            crowd = uvloop.run(load(payoff.port, message, CONNECTIONS, seconds=SECONDS))
            found[name].append((np.median(times) * 1e6, np.quantile(times, 0.99) * 1e6, len(crowd) / SECONDS))
    middle = {name: np.median(rounds[1:], axis=0) for name, rounds in found.items()}
    p50, p99 = disk_microseconds(folder)
    print(f"\n{kind:<12}{'p50 us':>10}{'p99 us':>10}{f'requests/s, {CONNECTIONS} connections':>32}")
    for name, figures in middle.items():
        print(f"{name:<12}{figures[0]:10.0f}{figures[1]:10.0f}{figures[2]:32.0f}")
    print(f"{'disk':<12}{p50:10.0f}{p99:10.0f}")
    for name, goal, ratio in zip(GOALS, GOALS.values(), middle["recorded"] / middle["plain"], strict=True):
        print(f"recorded / plain, {name:<12}{ratio:8.2f}   {goal}")


def disk_microseconds(folder: Path) -> tuple[float, float]:
    """The median and the 99th percentile of an append with fdatasync."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(1000):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6, float(np.quantile(times, 0.99)) * 1e6


if __name__ == "__main__":
    main()
