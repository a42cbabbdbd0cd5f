"""How long `/acquire` takes over HTTP: one case, and 10,000 in one call, beside an empty FastAPI route.

   .venv/bin/python benchmarks/acquire_http.py [folder of covtype_20k.csv.gz, default ../shared/data]

A forest of 40 trees on 12,000 rows of Covertype (54 features, 7 classes) is published by a service in a process of its
own; the empty route is served by the same server in another one. One client, one connection, loopback. Also the time
from start to ready and the memory then, after the first question, and after the batches.
"""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import psutil

EMPTY = """
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
async def empty():
    return {}
"""
UVICORN = (
    sys.executable,
    "-m",
    "uvicorn",
    "--loop",
    "uvloop",
    "--http",
    "httptools",
    "--no-access-log",
    "--log-level",
    "error",
)
TRAINED = 12_000


def quantiles(call: Any, repeats: int) -> str:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return f"median {np.median(times):8.2f} ms   99 % {np.quantile(times, 0.99):8.2f} ms"


@contextmanager
def served(command: tuple[str, ...], folder: Path, ready: str) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models"),
                   "PAYOFF_ACCESS_LOG": "false", "PAYOFF_LOG_LEVEL": "error",
                   "PYTHONPATH": f"{folder}:{Path(__file__).parents[1]}"}  # fmt: skip
    began = time.perf_counter()
    server = subprocess.Popen([*command, "--port", str(port)], env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
            while True:
                try:
                    if client.get(ready).status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.01)
            print(f"ready after {time.perf_counter() - began:.2f} s")
            yield client, psutil.Process(server.pid)
    finally:
        server.terminate()
        server.wait()


def memory(process: psutil.Process, when: str) -> None:
    print(f"{process.memory_info().rss / 1e6:.0f} MB {when}")


def case(names: list[str], x: np.ndarray, known: np.ndarray) -> dict[str, float]:
    return {names[j]: float(x[j]) for j in known}


def ask(client: httpx.Client, **question: Any) -> dict[str, Any]:
    response = client.post("/acquire", content=orjson.dumps({"model": "cover", **question}))
    assert response.status_code == 200, response.text
    return orjson.loads(response.content)


def train(client: httpx.Client, folder: Path, data: Path) -> None:
    table = gzip.decompress(data.read_bytes()).splitlines(keepends=True)
    (folder / "some.csv").write_bytes(b"".join(table[: TRAINED + 1]))
    label = table[0].strip().split(b",")[-1].decode()
    with (folder / "some.csv").open("rb") as file:
        kept = client.post("/datasets", files={"file": file}, data={"label": label}).json()
    order = {"model": "cover", "learner": {"kind": "budget_forest", "alpha": 0, "n_estimators": 40},
             "data": {"dataset": kept["id"]}, "holdout": 0}  # fmt: skip
    job = client.post("/train", json=order, headers={"Prefer": "wait=60"}).json()
    while job["status"] in ("queued", "running"):
        time.sleep(0.2)
        job = client.get(f"/train/{job['id']}").json()
    assert job["status"] == "succeeded", job


def measure(client: httpx.Client, process: psutil.Process, data: Path) -> None:
    names = gzip.decompress(data.read_bytes()).split(b"\n", 1)[0].decode().split(",")[:-1]
    X = np.loadtxt(data, delimiter=",", skiprows=TRAINED + 1, max_rows=5000)[:, :-1]
    random = np.random.default_rng(0)
    some = np.arange(10)
    start = time.perf_counter()
    ask(client, known={})
    print(f"first question {1e3 * (time.perf_counter() - start):.0f} ms (loads numba and the model)")
    memory(process, "after the first question")
    benefits = (10 * np.eye(7)).tolist()
    for words, extra in (("", {}), (", benefits", {"benefits": benefits})):
        known = iter([random.choice(some, random.integers(0, 8), replace=False) for _ in range(4000)])
        rows = iter(random.integers(0, len(X), 4000))

        def one(known: Any = known, rows: Any = rows, extra: Any = extra) -> None:
            ask(client, known=case(names, X[next(rows)], next(known)), **extra)

        one()
        print(f"one case{words:12} {quantiles(one, 500)}")
        cases = [case(names, X[i % len(X)], random.choice(some, 5, replace=False)) for i in range(10_000)]
        body = orjson.dumps({"model": "cover", "instances": cases, **extra})
        print(f"10,000 cases{words:8} {quantiles(lambda body=body: client.post('/acquire', content=body).read(), 10)}")
    memory(process, "after batches")


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "empty.py").write_text(EMPTY)
        with served((*UVICORN, "empty:app"), folder, "/") as (client, process):
            client.get("/")
            print(f"empty route          {quantiles(lambda: client.get('/'), 2000)}")
        with served((*UVICORN, "app.main:app"), folder, "/health/ready") as (client, process):
            time.sleep(1)
            memory(process, "when ready")
            train(client, folder, data)
            measure(client, process, data)


if __name__ == "__main__":
    shared = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared" / "data"
    main(shared / "covtype_20k.csv.gz")
