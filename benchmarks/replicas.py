"""Requests per second of one replica and of two that share a database and a registry, on two cores.

Replicas are pinned to a core each. With one, the client (wrk, in C) has the other core; with two, it has to share their
cores. So two replicas cannot carry twice as much here: if a request costs the server s seconds of processor and the
client c, one replica carries up to 1/s and two up to 2/(s + c). Printed are the measured ratio, that ceiling, and the
ratio as far as two cores allow: the measured one for which the client's part is given back, from processor times.
Run: .venv/bin/python benchmarks/replicas.py [rounds]

The smallest work: `.venv/bin/python benchmarks/replicas.py 1`
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import two_class_rows
from tests.servers import postgres
from tests.servers.postgres import Postgres
from tests.servers.service import Replica

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = 3
CONNECTIONS = 16  # for each replica
CORES = sorted(os.sched_getaffinity(0))[:2]
GOAL = 1.8
BODY = {"model": "bench", "instances": [[52, 134, "mild"]], "benefits": [[0, -1], [-10, 5]]}


@dataclass(frozen=True)
class Round:
    """What was carried in a second, and what a request cost of a processor, in seconds."""

    rate: float
    server: float
    client: float


def main() -> int:
    if shutil.which("wrk") is None or len(CORES) < 2:
        print("this needs two cores and wrk (Debian: apt-get install wrk)")
        return 0
    with ExitStack() as stack:
        replicas = two_replicas(stack)
        script = replicas[0].folder / "request.lua"
        headers = 'wrk.headers["Content-Type"] = "application/json"'
        script.write_text(f'wrk.method = "POST"\nwrk.body = {json.dumps(json.dumps(BODY))}\n{headers}\n')
        rounds: dict[str, list[Round]] = {"first alone": [], "second alone": [], "both": []}
        for _ in range(ROUNDS + 1):  # the first warms up
            rounds["first alone"].append(measure(replicas[:1], {CORES[1]}, script))
            rounds["second alone"].append(measure(replicas[1:], {CORES[0]}, script))
            rounds["both"].append(measure(replicas, set(CORES), script))
    tell({name: [middle(found[1:], part) for part in ("rate", "server", "client")] for name, found in rounds.items()})
    return 0


def two_replicas(stack: ExitStack) -> list[Replica]:
    """Pinned to a core each, with one model in memory."""
    settings: dict[str, object] = {"access_log": False, "workers": 1}
    if postgres.installed():
        server = Postgres()
        stack.callback(server.close)
        server.start()
        settings["database"] = server.create_database()
    first = Replica(settings)
    stack.callback(first.close)
    shared = {"models": first.folder / "models", "datasets": first.folder / "datasets", "home": first.home}
    second = Replica({**settings, **shared})
    stack.callback(second.close)
    for core, replica in zip(CORES, (first, second), strict=True):
        replica.start()
        for process in (psutil.Process(replica.pid), *replica.descendants()):
            process.cpu_affinity([core])
    order = {"model": "bench", "learner": {"kind": "logistic", "calibration": "none"}, "data": two_class_rows()}
    job = first.client.post("/train", json=order, headers={"Prefer": "wait=60"}, timeout=90).json()
    assert job["status"] == "succeeded", job
    return [first, second]


def measure(replicas: list[Replica], cores: set[int], script: Path) -> Round:
    """Load for some seconds, a client for each replica, all clients on `cores`."""
    before = [processor(replica) for replica in replicas]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    pinned = ["taskset", "-c", ",".join(map(str, sorted(cores)))]
    clients = [
        subprocess.Popen(
            [*pinned, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script), f"{replica.url}/predict"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for replica in replicas
    ]
    texts = [client.communicate()[0] for client in clients]
    assert not any("Non-2xx" in text for text in texts), texts
    answered = sum(int(re.search(r"(\d+) requests in", text)[1]) for text in texts)
    rate = sum(float(re.search(r"Requests/sec: +([0-9.]+)", text)[1]) for text in texts)
    server = sum(processor(replica) for replica in replicas) - sum(before)
    then = resource.getrusage(resource.RUSAGE_CHILDREN)
    client = then.ru_utime + then.ru_stime - own.ru_utime - own.ru_stime
    return Round(rate, server / answered, client / answered)


def processor(replica: Replica) -> float:
    times = psutil.Process(replica.pid).cpu_times()
    return float(times.user + times.system)


def middle(rounds: list[Round], part: str) -> float:
    return statistics.median(getattr(found, part) for found in rounds)


def tell(found: dict[str, list[float]]) -> None:
    print(f"{'replicas':<16}{'requests/s':>12}{'server us':>12}{'client us':>12}")
    for name, (rate, server, client) in found.items():
        print(f"{name:<16}{rate:12.0f}{server * 1e6:12.1f}{client * 1e6:12.1f}")
    alone = (found["first alone"][0] + found["second alone"][0]) / 2
    rate, server, client = found["both"]
    ceiling = 2 * server / (server + client)
    print(f"\nmeasured ratio                     {rate / alone:6.2f}")
    print(f"ceiling on two cores               {ceiling:6.2f}   (the client takes its part of them)")
    print(f"as far as two cores allow          {2 * rate / alone / ceiling:6.2f}   goal >= {GOAL}")


if __name__ == "__main__":
    sys.exit(main())
