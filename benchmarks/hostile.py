"""What short hostile requests do to all other clients: how long they wait, and how much memory that takes.

Starts `payoff serve` on loopback with keys that have the scope `predict`. In each attack one key
sends its request over and over on some connections, while `/health/live` is asked every 50 ms, and
another key decides about a row and asks for a report. Prints the longest waits, the memory beyond
that before all attacks, and the status of the answers. Exits with 1 where a health check waited for
more than a second, or the service took more than 1 GB.
Run: .venv/bin/python benchmarks/hostile.py [seconds] [first words of attacks]

The smallest work: `.venv/bin/python benchmarks/hostile.py 1 names`
"""

import http.client
import io
import json
import os
import random
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

from tests.servers.program import PROJECT, run
from tests.servers.service import Replica

SECONDS = next((float(word) for word in sys.argv[1:] if word.isdigit()), 10.0)
WORDS = tuple(word for word in sys.argv[1:] if not word.isdigit())
MOST_SECONDS, MOST_MB = 1.0, 1024
PAUSE = 0.05
LETTERS = "abcdefghijklmnopqrstuvwxyzabcdef"
JSON, NPY, ARROW = (
    "application/json",
    "application/x-npy",
    "application/vnd.apache.arrow.stream",
)
RNG = np.random.default_rng(0)


class Attack(NamedTuple):
    """A request, and on how many connections it is sent."""

    path: str
    body: bytes
    kind: str = JSON
    connections: int = 40


@dataclass
class Figures:
    """Longest waits in seconds, memory in MB, and answers by status, while an attack runs."""

    waits: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("live", *OTHERS), 0.0)
    )
    memory: float = 0.0
    others: Counter[int] = field(default_factory=Counter)
    answers: Counter[int | str] = field(default_factory=Counter)


MATRIX = {"no": {"wait": 0, "treat": -1}, "yes": {"wait": -10, "treat": 5}}
OTHERS = {  # requests of another key
    "predict": (
        "/predict",
        {"model": "forest", "instances": [[1, 2, 3, 4]], "benefits": MATRIX},
    ),
    "report": ("/models/forest/benefit", {"benefits": MATRIX}),
}


def as_json(path: str, connections: int = 40, **document: object) -> Attack:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Attack(path, body, JSON, connections)


def as_npy(loss: str, p: np.ndarray) -> Attack:
    """Probabilities of a set, or of a set per row."""
    sink = io.BytesIO()
    np.save(sink, p)
    setting = "binary" if p.ndim == 1 else "multilabel"
    path = f"/retrieve?setting={setting}&loss=%7B%22name%22:%22{loss}%22%7D"
    return Attack(path, sink.getvalue(), NPY)


def attacks() -> dict[str, Attack]:
    chance = random.Random(0)
    names = ["".join(chance.sample(LETTERS, len(LETTERS))) for _ in range(70)]
    matrix = {
        "classes": ["no", "yes"],
        "benefits": [[0] * 50] * 2,
        "actions": names[:50],
    }
    cells = [{"column": "a", "times": 1, "plus": i} for i in range(33)]
    by_case = {"benefits": [cells, [5] * 33], "actions": [f"a{i}" for i in range(33)]}
    rows = [[i % 7, i % 11, i % 13, i % 5] for i in range(480)]
    budgets = {"labels": ["no", "yes"] * 200, "budgets": list(range(1, 21))}
    amounts = {"model": "amount", "unit_costs": {"over": 1, "under": 4}}
    bands = {
        "bands": list(range(900)),
        "benefits": [[1, 0]] * 901,
        "actions": ["x", "y"],
    }
    word = pa.DictionaryArray.from_arrays(np.zeros(450_000, np.int8), ["word" * 250])
    table = pa.table({"a": np.zeros(len(word)), "word": word})
    keep = "/predict?model=single&keep=word&rule=most_probable"
    return {
        "names: 20 unknown of 50 actions, all anagrams": as_json(
            "/predict",
            16,
            probabilities=[[0.5, 0.5]],
            limits=dict.fromkeys(names[50:], 1),
            **matrix,
        ),
        "parquet: 450,000 times 1,000 letters, kept": Attack(
            keep,
            written(table, parquet.write_table),
            "application/vnd.apache.parquet",
            4,
        ),
        "arrow: the same": Attack(keep, written(table, write_stream), ARROW, 4),
        "shape: a million sets without items": as_npy("am", np.zeros((1_000_000, 0))),
        "cells: 500 cases, 33 actions by case": as_json(
            "/acquire",
            model="forest",
            instances=[{"a": i / 100} for i in range(500)],
            **by_case,
        ),
        "empty: 4,000 empty cases": as_json(
            "/acquire", model="forest", instances=[{}] * 4000
        ),
        "bands: 900 of 20 rows": as_json(
            "/predict", model="amount", instances=rows[:20], **bands
        ),
        "sum: 480 quantities, their sum limited": as_json(
            "/predict", instances=rows, sum_at_most=7_200, **amounts
        ),
        "all: 24,000 quantities, their sum limited": as_json(
            "/predict", instances=rows * 50, sum_at_most=360_000, **amounts
        ),
        "forms: 2,000 dates and amounts": as_json(
            "/predict",
            model="forms",
            rule="most_probable",
            instances=[["2024-03-05", "1.259,10 €"]] * 2000,
        ),
        "simulate: 400 rows, 20 budgets": as_json(
            "/acquire/simulate", 30, model="forest", rows=rows[:400], **budgets
        ),
        "mcc: 2 sets of 2,000": as_npy("mcc", RNG.random((2, 2000))),
        "g_mean: 100,000 items near .001": as_npy(
            "g_mean", RNG.uniform(5e-4, 15e-4, 100_000)
        ),
        "tiny: 100,000 items of 1e-310": as_npy("f_beta", np.full(100_000, 1e-310)),
    }


def written(
    table: pa.Table, write: Callable[[pa.Table, pa.BufferOutputStream], None]
) -> bytes:
    sink = pa.BufferOutputStream()
    write(table, sink)
    return sink.getvalue().to_pybytes()


def write_stream(table: pa.Table, sink: pa.BufferOutputStream) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def main() -> int:
    replica, wrong = Replica({"access_log": False, "log_level": "error"}), []
    try:
        hostile, other, trainer = (
            key_of(replica, name) for name in ("predict", "predict", "train")
        )
        replica.start()
        train(replica, trainer)
        process = psutil.Process(replica.pid)
        for name in OTHERS:  # the model is loaded, the kernels are
            send(
                replica,
                Attack(OTHERS[name][0], json.dumps(OTHERS[name][1]).encode()),
                other,
            )
        idle = process.memory_info().rss / 2**20
        print(
            f"{'attack':<45} {'live':>6} {'predict':>7} {'report':>6} {'MB':>6}  answers"
        )
        for name, attack in attacks().items():
            if WORDS and not name.startswith(WORDS):
                continue
            figures = measured(replica, process, attack, hostile, other)
            grown = figures.memory - idle
            waits = "{live:>6.2f} {predict:>7.2f} {report:>6.2f}".format(
                **figures.waits
            )
            told = f"{dict(figures.answers)}, others {dict(figures.others)}"
            print(f"{name:<45} {waits} {grown:>6.0f}  {told}", flush=True)
            if figures.waits["live"] > MOST_SECONDS or grown > MOST_MB:
                wrong.append(name)
    finally:
        replica.close()
    for name in wrong:
        print(f"WRONG: {name}")
    return 1 if wrong else 0


def key_of(replica: Replica, scope: str) -> str:
    """A new key."""
    arguments = ["keys", "create", "--name", f"key-{time.time_ns()}", "--scope", scope]
    made = run(arguments, env=os.environ | dict(replica.environment()), cwd=PROJECT)
    return re.search(r"payoff_\S+", made.stdout)[0]


def train(replica: Replica, key: str) -> None:
    """The models `single`, `forest`, `amount` and `forms`."""
    X = RNG.integers(0, 12, (2000, 4)).astype(float)
    y = np.where(X[:, 0] + X[:, 1] + RNG.normal(size=len(X)) > 11, "yes", "no").tolist()
    plain = {"features": list("abcd"), "rows": X.tolist(), "labels": y}
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(len(X))]
    lines = (
        f"{day};1.{100 + i % 900},50 €;{word}"
        for i, (day, word) in enumerate(zip(days, y, strict=True))
    )
    headers = {"X-API-Key": key, "Prefer": "wait=60"}
    table = replica.client.post(
        "/datasets?label=y&delimiter=;", content="\n".join(["day;sum;y", *lines]).encode(),
        headers=headers | {"Content-Type": "text/csv"},
    ).json()  # fmt: skip
    quantity = plain | {
        "labels": (3 * X[:, 0] + X[:, 1] + RNG.normal(size=len(X))).tolist()
    }
    costs = {"feature_costs": dict.fromkeys("abcd", 1), "benefits": MATRIX}
    learner = {"kind": "random_forest", "n_estimators": 50}
    orders = [
        {
            "model": "single",
            "data": plain | {"features": ["a"], "rows": X[:, :1].tolist()},
        },
        {"model": "forest", "learner": learner, "data": plain, **costs},
        {
            "model": "amount",
            "learner": learner | {"task": "regression"},
            "data": quantity,
        },
        {"model": "forms", "data": {"dataset": table["id"]}},
    ]
    for order in orders:
        document = {"learner": {"kind": "logistic"}, **order}
        job = replica.client.post(
            "/train", json=document, headers=headers, timeout=90
        ).json()
        if job.get("status") != "succeeded":
            raise SystemExit(job)


def measured(
    replica: Replica, process: psutil.Process, attack: Attack, hostile: str, other: str
) -> Figures:
    figures, over = Figures(), threading.Event()
    strikes: set[http.client.HTTPConnection] = set()

    def strike() -> None:
        while not over.is_set():
            with suppress(OSError, http.client.HTTPException):  # cut off at the end
                figures.answers[send(replica, attack, hostile, strikes)[0]] += 1

    def wait(name: str, request: Attack) -> None:
        while not over.is_set():
            status, seconds = send(replica, request, other)
            figures.waits[name] = max(figures.waits[name], seconds)
            figures.others[status] += 1
            time.sleep(PAUSE)

    live = Attack("/health/live", b"")
    requests = {"live": live} | {
        name: as_json(path, **body) for name, (path, body) in OTHERS.items()
    }
    threads = [threading.Thread(target=strike) for _ in range(attack.connections)]
    threads += [
        threading.Thread(target=wait, args=request) for request in requests.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + SECONDS
    while any(thread.is_alive() for thread in threads):
        if time.monotonic() > until:
            over.set()
            for connection in strikes.copy():
                with suppress(OSError, AttributeError):  # it is closed by now
                    connection.sock.shutdown(socket.SHUT_RDWR)
        figures.memory = max(figures.memory, process.memory_info().rss / 2**20)
        time.sleep(PAUSE)
    return figures


def send(
    replica: Replica,
    attack: Attack,
    key: str,
    connections: set[http.client.HTTPConnection] | None = None,
) -> tuple[int, float]:
    """The status of the answer, and how long all of it took; among the `connections` meanwhile."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=300)
    opened = set() if connections is None else connections
    opened.add(connection)
    headers = {"X-API-Key": key, "Content-Type": attack.kind, "Accept": attack.kind}
    try:
        connection.request(
            "POST" if attack.body else "GET", attack.path, attack.body, headers
        )
        answer = connection.getresponse()
        while answer.read(1 << 20):
            pass
    finally:
        connection.close()
        opened.discard(connection)
    return answer.status, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
