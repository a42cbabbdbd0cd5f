"""`/retrieve` with a million probabilities over HTTP, and what it does to those who ask `/predict` meanwhile.

The server has the first core, this client the last one; the big requests come from a process of their own. Growth is
the server's peak resident memory (VmHWM) above that before the first request. Run:
.venv/bin/python benchmarks/retrieve_http.py [items]

The smallest work: `.venv/bin/python benchmarks/retrieve_http.py 10000`
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import uvloop
from serving import BENEFITS, CORES, Server, load, memory_mb, request, server, train, uvicorn
from sklearn.datasets import load_breast_cancer

ITEMS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
LOSS = json.dumps({"name": "f_beta"}, separators=(",", ":"))
QUERY = f"/retrieve?setting=binary&loss={LOSS}"
NPY, JSON = "application/x-npy", "application/json"
_ASK_AGAIN = """
import pathlib, sys, httpx
url, kind, path = sys.argv[1:]
body = pathlib.Path(path).read_bytes()
with httpx.Client(timeout=60) as client:
    while True:
        client.post(url, content=body, headers={"Content-Type": kind, "Accept": kind}).raise_for_status()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        state = {"PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models")}
        began = time.perf_counter()
        with server(uvicorn("app.main:app"), state, "/health/ready") as payoff:
            seconds = time.perf_counter() - began
            print(f"start to ready {seconds:.2f} s (goal < 3), idle {memory_mb(payoff):.0f} MB (goal < 250)")
            os.sched_setaffinity(0, {CORES[-1]})
            measure(payoff, folder)


def measure(payoff: Server, folder: Path) -> None:
    bodies = make_bodies(folder)
    url = f"http://127.0.0.1:{payoff.port}"
    with httpx.Client(base_url=url, timeout=60) as client:
        small = {"probabilities": [0.9, 0.4], "setting": "binary", "loss": {"name": "f_beta"}}
        began = time.perf_counter()
        client.post("/retrieve", json=small).raise_for_status()
        print(f"first request {time.perf_counter() - began:.2f} s, after it {memory_mb(payoff):.0f} MB (PSS)")
        before = peak_mb(payoff)
        for what, (path, kind, file, goal) in bodies.items():
            times = [ask(client, path, kind, file) for _ in range(4)]
            growth = peak_mb(payoff) - before
            print(f"{what:<30} first {times[0]:.2f} s, then {min(times[1:]):.2f} s ({goal}); growth {growth:.0f} MB")
    data = load_breast_cancer()
    train(payoff, data)
    asked = {"model": "bench", "benefits": BENEFITS, "instances": data.data[:1].tolist()}
    message = request(payoff, "/predict", json.dumps(asked).encode())
    show("nobody asks /retrieve", uvloop.run(load(payoff.port, message, 1, seconds=5)))
    for what, (path, kind, file, _) in bodies.items():
        with asking(url + path, kind, file):
            time.sleep(1)
            show(what, uvloop.run(load(payoff.port, message, 1, seconds=8)))


def make_bodies(folder: Path) -> dict[str, tuple[str, str, Path, str]]:
    """What is asked: where, in which form, from which file, and how long it may take."""
    p = np.random.default_rng(0).beta(0.5, 4, ITEMS)
    buffer = io.BytesIO()
    np.save(buffer, p)
    (folder / "p.npy").write_bytes(buffer.getvalue())
    asked = {"probabilities": p.tolist(), "setting": "binary", "loss": {"name": "f_beta"}}
    (folder / "p.json").write_text(json.dumps(asked))
    ragged = {"probabilities": p.reshape(-1, 20).tolist(), "setting": "multilabel", "loss": {"name": "f_beta"}}
    (folder / "many.json").write_text(json.dumps(ragged))
    return {
        f"{ITEMS:,} items, npy": (QUERY, NPY, folder / "p.npy", "goal < 1.5"),
        f"{ITEMS:,} items, npy, with curve": (QUERY + "&curve=true", NPY, folder / "p.npy", "no goal"),
        f"{ITEMS:,} items, JSON": ("/retrieve", JSON, folder / "p.json", "goal < 4"),
        f"{ITEMS // 20:,} sets of 20 labels, JSON": ("/retrieve", JSON, folder / "many.json", "no goal"),
    }


def ask(client: httpx.Client, path: str, kind: str, file: Path) -> float:
    body = file.read_bytes()
    began = time.perf_counter()
    client.post(path, content=body, headers={"Content-Type": kind, "Accept": kind}).raise_for_status()
    return time.perf_counter() - began


@contextmanager
def asking(url: str, kind: str, file: Path) -> Iterator[None]:
    """Somebody else who sends the same request over and over."""
    process = subprocess.Popen([sys.executable, "-c", _ASK_AGAIN, url, kind, str(file)])
    try:
        yield
        if process.poll() is not None:
            raise SystemExit("the other client failed")
    finally:
        process.terminate()
        process.wait()


def peak_mb(server: Server) -> float:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def show(what: str, times: list[float]) -> None:
    p50, p99, most = np.quantile(times, [0.5, 0.99, 1]) * 1e3
    print(
        f"/predict meanwhile: {what:<30} p50 {p50:6.2f}  p99 {p99:6.2f} (goal < 50)  max {most:6.2f} ms of {len(times)}"
    )


if __name__ == "__main__":
    main()
