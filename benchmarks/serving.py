"""`/predict` with a benefit matrix against a FastAPI route as people usually write it, side by side in one run.

One uvicorn worker each, pinned to the first core; this client on the last one; both warm; the same data and the same
kind of fitted pipeline (scaler and logistic regression on 30 features). Prints medians of several rounds, in which the
two take turns, and the ratios. Everything goes over loopback. Run: python benchmarks/serving.py [rounds]
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import joblib
import numpy as np
import psutil
import pyarrow as pa
import uvloop
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = Path(__file__).parent
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
BENEFITS = [[-40, 0], [100, -500]]
CONNECTIONS = 16
SECONDS = 2.0
SINGLE_REQUESTS = 1500
BATCH_REQUESTS = 12
CORES = sorted(os.sched_getaffinity(0))


def main() -> None:
    data = load_breast_cancer()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(data.data, data.target)
        joblib.dump(pipeline, folder / "pipeline.joblib")
        usual = stack.enter_context(
            server(
                ["usual_route:app", "--app-dir", str(HERE), "--no-access-log"],
                {"PIPELINE": str(folder / "pipeline.joblib")},
                "/docs",
            )
        )
        state = {"PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models")}
        started = time.perf_counter()
        payoff = stack.enter_context(server(["app.main:app", "--app-dir", str(HERE.parent)], state, "/health/ready"))
        seconds = time.perf_counter() - started
        print(f"Payoff: start to ready {seconds:.2f} s, idle memory {memory_mb(payoff):.0f} MB (PSS)")
        train(payoff, data)
        os.sched_setaffinity(0, {CORES[-1]})
        compare(usual.port, payoff.port, data)
        while_training(payoff, data)


class Server:
    def __init__(self, port: int, process: subprocess.Popen) -> None:
        self.port = port
        self.process = process


@contextmanager
def server(arguments: list[str], environment: dict[str, str], ready: str) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", *arguments, "--port", str(port), "--log-level", "warning"]
    command = ["taskset", "-c", str(CORES[0]), *command]
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            try:
                httpx.get(f"http://127.0.0.1:{port}{ready}").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.01)
        yield Server(port, process)
    finally:
        process.terminate()
        process.wait()


def memory_mb(server: Server) -> float:
    processes = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
    return sum(process.memory_full_info().pss for process in processes) / 1e6


def train(server: Server, data: object, **learner: object) -> None:
    inline = {"features": list(data.feature_names), "rows": data.data.tolist(), "labels": data.target.tolist()}
    order = {"model": "bench", "learner": {"kind": "logistic", "calibration": "none", **learner}, "data": inline}
    headers = {"Prefer": "wait=60"}
    job = httpx.post(f"http://127.0.0.1:{server.port}/train", json=order, headers=headers, timeout=90).json()
    if job["status"] != "succeeded":
        raise SystemExit(job)


def request(port: int, path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\nAccept: {kind}\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def compare(usual: int, payoff: int, data: object) -> None:
    rng = np.random.default_rng(0)
    X = data.data[rng.integers(0, len(data.data), 10_000)] * rng.normal(1, 0.01, (10_000, 30))
    one, many = X[:1].tolist(), X.tolist()
    asked = {"model": "bench", "benefits": BENEFITS}
    query = f"/predict?model=bench&benefits={json.dumps(BENEFITS, separators=(',', ':'))}"
    buffer = io.BytesIO()
    np.save(buffer, X)
    sink = pa.BufferOutputStream()
    table = pa.table(dict(zip(map(str, data.feature_names), X.T.copy(), strict=True)))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    requests = {
        "usual, 1 row": request(usual, "/predict", json.dumps({"instances": one}).encode()),
        "payoff, 1 row": request(payoff, "/predict", json.dumps(asked | {"instances": one}).encode()),
        "usual, 10000 rows": request(usual, "/predict", json.dumps({"instances": many}).encode()),
        "payoff, 10000 rows": request(payoff, "/predict", json.dumps(asked | {"instances": many}).encode()),
        "payoff, 10000 rows npy": request(payoff, query, buffer.getvalue(), "application/x-npy"),
        "payoff, 10000 rows arrow": request(
            payoff, query, sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"
        ),
    }
    port = {name: usual if name.startswith("usual") else payoff for name in requests}
    single = {name: [] for name in requests}
    crowd: dict[str, list[tuple[float, float]]] = {"usual, 1 row": [], "payoff, 1 row": []}
    for _ in range(ROUNDS + 1):  # the first round warms up and is left out
        for name, message in requests.items():
            count = SINGLE_REQUESTS if "1 row" in name else BATCH_REQUESTS
            single[name].append(uvloop.run(load(port[name], message, 1, requests=count)))
        for name, rounds in crowd.items():
            rounds.append(rate(uvloop.run(load(port[name], requests[name], CONNECTIONS, seconds=SECONDS))))
    p50 = {name: statistics.median(np.median(times) for times in rounds[1:]) for name, rounds in single.items()}
    p99 = {name: statistics.median(np.quantile(times, 0.99) for times in rounds[1:]) for name, rounds in single.items()}
    print(f"\n{'one connection':<28}{'p50 ms':>9}{'p99 ms':>9}")
    for name in requests:
        print(f"{name:<28}{p50[name] * 1e3:9.3f}{p99[name] * 1e3:9.3f}")
    print(f"\n{CONNECTIONS} connections{'':<14}{'req/s':>9}{'p99 ms':>9}")
    middle = {name: np.median(np.array(rounds[1:]), axis=0) for name, rounds in crowd.items()}
    for name, (per_second, slow) in middle.items():
        print(f"{name:<28}{per_second:9.0f}{slow * 1e3:9.3f}")
    print("\nratio to the usual route                    measured   goal")
    show("single row, p50", p50["payoff, 1 row"] / p50["usual, 1 row"], "<= 0.6")
    show("16 connections, requests per second", middle["payoff, 1 row"][0] / middle["usual, 1 row"][0], ">= 2.5")
    show("16 connections, p99", middle["payoff, 1 row"][1] / middle["usual, 1 row"][1], "<= 0.3")
    for form, goal in (("", "<= 0.6"), (" npy", "<= 0.1"), (" arrow", "<= 0.1")):
        ratio = p50[f"payoff, 10000 rows{form}"] / p50["usual, 10000 rows"]
        show(f"10,000 x 30 as{form or ' JSON'}, p50", ratio, goal)


def while_training(payoff: Server, data: object) -> None:
    """Single rows while a job trains, against without; the job may use any core."""
    for process in [psutil.Process(payoff.process.pid), *psutil.Process(payoff.process.pid).children(recursive=True)]:
        process.cpu_affinity(CORES)
    message = request(
        payoff.port,
        "/predict",
        json.dumps({"model": "bench", "benefits": BENEFITS, "instances": data.data[:1].tolist()}).encode(),
    )
    quiet, busy = [], []
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60_000, 30)).round(3)
    inline = {
        "features": [f"f{j}" for j in range(30)],
        "rows": X.tolist(),
        "labels": (X @ rng.normal(size=30) + rng.normal(size=len(X)) > 0).astype(int).tolist(),
    }
    order = json.dumps({"model": "big", "learner": {"kind": "logistic"}, "data": inline}).encode()
    base = f"http://127.0.0.1:{payoff.port}"
    for _ in range(ROUNDS):
        quiet.append(np.quantile(uvloop.run(load(payoff.port, message, 1, requests=SINGLE_REQUESTS)), 0.99))
        job = httpx.post(
            f"{base}/train", content=order, headers={"Content-Type": "application/json"}, timeout=90
        ).json()
        times: list[float] = []
        while httpx.get(f"{base}/train/{job['id']}").json()["status"] in ("queued", "running"):
            times += uvloop.run(load(payoff.port, message, 1, requests=200))
        busy.append(np.quantile(times, 0.99))
    ratio = statistics.median(busy) / statistics.median(quiet)
    print(f"\nsingle rows, p99 ms {statistics.median(quiet) * 1e3:10.3f}")
    print(f"while a job trains  {statistics.median(busy) * 1e3:10.3f}")
    show("p99 while training", ratio, "<= 3")


def show(what: str, ratio: float, goal: str) -> None:
    print(f"{what:<42}{ratio:10.3f}   {goal}")


def rate(times: list[float]) -> tuple[float, float]:
    return len(times) / SECONDS, float(np.quantile(times, 0.99))


async def load(
    port: int, message: bytes, connections: int, *, requests: int | None = None, seconds: float = 60.0
) -> list[float]:
    """Send `message` over and over on keep-alive connections; seconds from sending to the answer's last byte."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    times: list[float] = []
    done = [loop.create_future() for _ in range(connections)]
    for future in done:
        await loop.create_connection(
            lambda future=future: Caller(message, times, until, requests, future), "127.0.0.1", port
        )
    await asyncio.gather(*done)
    return times


class Caller(asyncio.Protocol):
    """One keep-alive connection that asks again as soon as it is answered."""

    def __init__(
        self, message: bytes, times: list[float], until: float, requests: int | None, done: asyncio.Future
    ) -> None:
        self._message, self._times, self._until, self._left, self._done = message, times, until, requests, done
        self._buffer = b""
        self._needed = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._message)

    def data_received(self, part: bytes) -> None:
        self._buffer += part
        if not self._needed:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            if not head.startswith(b"http/1.1 200"):
                self._done.set_exception(RuntimeError(self._buffer[:500]))
                return
            length = head.index(b"content-length:") + 15
            self._needed = end + 4 + int(head[length:].split(b"\r\n", 1)[0])
        if len(self._buffer) >= self._needed:
            now = time.perf_counter()
            self._times.append(now - self._began)
            self._buffer, self._needed = b"", 0
            self._left = None if self._left is None else self._left - 1
            if self._left == 0 or now > self._until:
                self._transport.close()
                self._done.set_result(None)
            else:
                self._send()


if __name__ == "__main__":
    main()
