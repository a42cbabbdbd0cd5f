"""What many decisions a day need: a model of measured parts, and simulations of many replicas.

    .venv/bin/python benchmarks/capacity.py [--measure]

Prints how many processes, connections and cores of PostgreSQL a million and a billion decisions a day take, and which
part is full first; then simulates 10 to 1,000 processes behind a load balancer, some of which crash, and how long a
change of keys or aliases takes to reach all of them. --measure measures the parts on this machine first: it takes two
minutes, and needs PostgreSQL and wrk.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import os
import re
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import psutil
from sklearn.datasets import load_breast_cancer

from tests.servers.postgres import Postgres
from tests.servers.service import JobWorker, Replica

PEAK = 3.0  # the busiest second's rate as a multiple of the day's mean
BUSY = 0.6  # of a core that a process may use at the peak, so that queues stay short
BATCH = 1000  # rows
ROWS = 10_000  # of the batch that measures a row
HEAD_LINES = 400  # bytes of the head of a request with a key and of its answer
DOLLARS = 0.04  # of a core for an hour: an assumption, as clouds ask in 2026
DAY = 86_400.0


@dataclass(frozen=True)
class Parts:
    """What was measured: seconds of a processor, bytes, counts. Of one process unless said otherwise."""

    request: float = 250e-6  # a decision for one row
    row: float = 1.2e-6  # of a batch as JSON, its answer included
    heads: float = 600.0  # bytes of a request and its answer without their rows
    row_bytes: float = 400.0  # of a row as JSON, its answer included
    memory: float = 130e6
    looks: float = 4.2  # transactions a second with the database, idle
    look: float = 210e-6  # seconds of a processor of the database for one
    connections: float = 2.5
    idle: float = 8e-3  # share of a core


@dataclass(frozen=True)
class Found:
    """Seconds that requests took, and how many failed."""

    median: float
    p99: float
    failed: int


def needs(parts: Parts, daily: float, rows: int) -> dict[str, float]:
    """What `daily` decisions need if each request has so many rows."""
    requests = daily / rows / DAY * PEAK
    seconds = parts.request if rows == 1 else parts.request + rows * parts.row
    processes = max(2, math.ceil(requests * seconds / BUSY))  # two: one may fail
    return {
        "requests/s at the peak": requests,
        "processes": processes,
        "memory GB": processes * parts.memory / 1e9,
        "traffic MB/s": requests * (parts.heads + rows * parts.row_bytes) / 1e6,
        "connections": processes * parts.connections,
        "database cores": processes * parts.looks * parts.look,
        "dollars a day": 24 * DOLLARS * processes,  # a whole core for each
        "dollars per million": 24 * DOLLARS * processes / (daily / 1e6),
    }


def full_first(parts: Parts, connections: int = 100, database_cores: float = 2.0) -> dict[str, float]:
    """At how many processes each shared part is full."""
    return {
        f"{connections} connections of PostgreSQL": connections / parts.connections,
        f"{database_cores:g} cores of PostgreSQL, by looking for changes alone": database_cores
        / (parts.looks * parts.look),
    }


def crowd(parts: Parts, processes: int, load: float, crashed: int, requests: int = 400_000, seed: int = 0) -> Found:
    """Requests of one row to processes drawn at random, `crashed` of which die after a third of the time.

    They are not back before the end. What was in them then fails, later requests go to others. A request takes between
    half and one and a half of its mean. O(requests).
    """
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(parts.request / (load * processes), size=requests))
    works = parts.request * (0.5 + random.random(requests))
    crash = arrivals[requests // 3]
    left = np.where(arrivals < crash, processes, processes - crashed)  # the last ones die
    chosen = (random.random(requests) * left).astype(int)
    free, ends = [0.0] * processes, np.empty(requests)
    for number, (now, work, i) in enumerate(zip(arrivals.tolist(), works.tolist(), chosen.tolist(), strict=True)):
        free[i] = ends[number] = max(now, free[i]) + work
    died = (chosen >= processes - crashed) & (arrivals < crash) & (ends > crash)
    median, p99 = np.quantile((ends - arrivals)[requests // 3 :], [0.5, 0.99])
    return Found(float(median), float(p99), int(died.sum()))


def staleness(parts: Parts, processes: int, cores: int = 2, seed: int = 0) -> float:
    """Seconds until the last process knows of a change.

    Each looks every half second, and the database serves `cores` looks at a time.
    """
    random = np.random.default_rng(seed)
    looks = max(parts.looks / 2, 1.0)  # transactions of one look
    free = [0.0] * cores
    events = [(float(phase), i) for i, phase in enumerate(random.random(processes) * 0.5)]
    heapq.heapify(events)
    change, learned = 5.0, dict.fromkeys(range(processes), math.inf)
    while events and max(learned.values()) == math.inf and events[0][0] < 60.0:
        now, i = heapq.heappop(events)
        begun = max(now, heapq.heappop(free))
        end = begun + looks * parts.look
        heapq.heappush(free, end)
        if begun >= change:
            learned[i] = min(learned[i], end)
        heapq.heappush(events, (end + 0.5, i))
    return max(learned.values()) - change


class Served(Replica):
    """A process of its own, whose memory is counted as it would be."""

    forked = False


def measured(stack: ExitStack) -> Parts:
    """The parts on this machine, with PostgreSQL."""
    server = Postgres()
    stack.callback(server.close)
    server.start()
    url = server.create_database()
    replica = Served({"access_log": False, "workers": 0, "database": url})
    stack.callback(replica.close)
    replica.start()
    shared = {"database": url, "models": replica.folder / "models", "datasets": replica.home / "datasets"}
    worker = JobWorker(shared)
    worker.start()
    train(replica)
    worker.close()
    time.sleep(5)
    before, database = processor(replica.pid), processor(server.pid)
    counted, begun = transactions(server, url), time.monotonic()
    time.sleep(20)
    seconds, after = time.monotonic() - begun, transactions(server, url)
    looks = (after[0] - counted[0]) / seconds
    parts = Parts(
        looks=looks,
        look=(processor(server.pid) - database) / seconds / looks,
        connections=after[1],
        idle=(processor(replica.pid) - before) / seconds,
        memory=psutil.Process(replica.pid).memory_info().rss,
    )
    _, request, _ = load(replica, 16)
    single, many = exchanged(replica, 1), exchanged(replica, ROWS)  # the first long ones make buffers
    used, answers = processor(replica.pid), 10
    for _ in range(answers):
        exchanged(replica, ROWS)
    row, row_bytes = (processor(replica.pid) - used) / answers / ROWS, (many - single) / (ROWS - 1)
    return replace(parts, request=request, row=row, row_bytes=row_bytes, heads=single - row_bytes + HEAD_LINES)


def exchanged(replica: Replica, rows: int) -> int:
    """Bytes of the bodies of a request with so many rows and of its answer."""
    body = question(rows)
    answer = replica.client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    return len(body) + len(answer.raise_for_status().content)


def train(replica: Replica) -> None:
    """A model of 30 numeric features, as `benchmarks/serving.py` has it: the hot path answers requests to it."""
    found = load_breast_cancer()
    data = {"features": list(found.feature_names), "rows": found.data.tolist(), "labels": found.target.tolist()}
    order = {"model": "bench", "learner": {"kind": "logistic", "calibration": "none"}, "data": data}
    job = replica.client.post("/train", json=order, headers={"Prefer": "wait=60"}, timeout=90).json()
    assert job["status"] == "succeeded", job


def question(rows: int) -> str:
    """The body of a request with so many rows."""
    data = load_breast_cancer().data
    instances = data[np.arange(rows) % len(data)].tolist()
    return json.dumps({"model": "bench", "instances": instances, "benefits": [[0, -1], [-10, 5]]})


def processor(pid: int) -> float:
    """Seconds of a processor of a process and those below it."""
    total = 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def transactions(server: Postgres, url: str) -> tuple[float, int]:
    """Transactions of a database so far, and its connections."""
    name = url.rsplit("/", 1)[1]
    asked = "SELECT xact_commit + xact_rollback, numbackends FROM pg_stat_database WHERE datname = %s"
    with server.admin() as connection:
        row = connection.execute(asked, (name,)).fetchone()
    assert row is not None
    return row


def load(replica: Replica, connections: int, seconds: int = 4) -> tuple[float, float, float]:
    """Requests per second, and seconds of a processor that one costs the service, and the client."""
    body = question(1)
    script = replica.folder / "request.lua"
    headers = 'wrk.headers["Content-Type"] = "application/json"'
    script.write_text(f'wrk.method = "POST"\nwrk.body = {json.dumps(body)}\n{headers}\n')
    before, own = processor(replica.pid), os.times()
    line = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), f"{replica.url}/predict"]
    text = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    then = os.times()
    assert "Non-2xx" not in text, text
    count = int(re.search(r"(\d+) requests in", text)[1])
    client = then.children_user + then.children_system - own.children_user - own.children_system
    return count / seconds, (processor(replica.pid) - before) / count, client / count


def tell(parts: Parts) -> None:
    print("measured:", ", ".join(f"{name} {value:.3g}" for name, value in vars(parts).items()))
    asked = [(1e6, 1), (1e9, 1), (1e9, BATCH)]
    found = [needs(parts, *one) for one in asked]
    print(
        "\n" + " " * 24 + "".join(f"{daily:>12.0e} x {rows:<5}" for daily, rows in asked) + " (a day, rows a request)"
    )
    for name in found[0]:
        print(f"{name:<24}" + "".join(f"{one[name]:>20,.5g}" for one in found))
    print("\nfull at so many processes:")
    for name, number in full_first(parts).items():
        print(f"{number:8.0f}  {name}")
    print(f"\n{'processes':>10}{'load':>6}{'crashed':>9}{'median ms':>11}{'p99 ms':>8}{'failed':>8}")
    for processes, share, crashed in itertools.product((10, 100, 1000), (0.4, 0.6, 0.8), (0.0, 0.1)):
        run = crowd(parts, processes, share, int(crashed * processes))
        print(f"{processes:>10}{share:6.0%}{crashed:9.0%}{1e3 * run.median:11.2f}{1e3 * run.p99:8.2f}{run.failed:8}")
    print("\nseconds until the last process knows of a change, with two cores for the database:")
    for processes in (10, 100, 1000, 2000, 5000):
        print(f"{processes:8}  {staleness(parts, processes):6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        parts = measured(stack) if chosen.measure else Parts()
    tell(parts)


if __name__ == "__main__":
    main()
