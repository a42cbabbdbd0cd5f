"""`/predict` with a benefit matrix beside its peers and its limit, in one run.

- `usual`: a FastAPI route as people usually write it (scaler and logistic regression on 30 features);
- `mlserver`: MLServer with the same pipeline, in an environment of its own: MLSERVER is the path of its command
  (`pip install mlserver mlserver-sklearn`, Python 3.11); left out where there is none;
- `bare`: one Starlette route with the arithmetic of Payoff's model and nothing else, see `bare_route.py`: the limit.

Payoff runs as `payoff serve` does, with a key that has a rate, request ids, metrics, and a log line for each request.
One process each, pinned to the first core; this client on the last one; all warm, the same data. Prints medians of
several rounds, in which they take turns, and each ratio with its goal. Everything goes over loopback.
Run: .venv/bin/python benchmarks/serving.py [rounds] [quick] [table]; `quick` leaves training out, `table` writes the
figures to benchmarks/serving.md.

The smallest work: `.venv/bin/python benchmarks/serving.py 1 quick`
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

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
ROUNDS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5)
BENEFITS = [[-40, 0], [100, -500]]
CONNECTIONS = 16
SECONDS = 2.0
SINGLE_REQUESTS = 1500
BATCH_REQUESTS = 12
CORES = sorted(os.sched_getaffinity(0))
PAGE = HERE / "serving.md"
shown: list[tuple[str, float, str]] = []


def main() -> None:
    data = load_breast_cancer()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(data.data, data.target)
        joblib.dump(pipeline, folder / "pipeline.joblib")
        state = {"PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models")}
        key = made_key(state)
        log = stack.enter_context((folder / "log").open("wb"))
        started = time.perf_counter()
        payoff = stack.enter_context(server(payoff_command(), state, "/health/ready", key=key, log=log))
        seconds = time.perf_counter() - started
        print(f"Payoff: start to ready {seconds:.2f} s, idle memory {memory_mb(payoff):.0f} MB (PSS)")
        train(payoff, data)
        servers = {"payoff": payoff}
        write_arrays(state, folder / "bare.npz")
        servers["bare"] = stack.enter_context(
            server(uvicorn("bare_route:app"), {"MODEL": str(folder / "bare.npz")}, "/health")
        )
        servers["usual"] = stack.enter_context(
            server(uvicorn("usual_route:app"), {"PIPELINE": str(folder / "pipeline.joblib")}, "/docs")
        )
        if (command := os.environ.get("MLSERVER") or shutil.which("mlserver")) is None:
            print("MLServer is left out: no command mlserver, and MLSERVER is not set")
        else:
            servers["mlserver"] = stack.enter_context(mlserver(command, folder))
        os.sched_setaffinity(0, {CORES[-1]})
        compare(servers, data)
        if "quick" not in sys.argv:
            while_training(payoff, data)
    if "table" in sys.argv:
        write_table()


class Server:
    """A process that listens; `key` is the API key that it wants."""

    def __init__(self, port: int, process: subprocess.Popen, key: str = "") -> None:
        self.port = port
        self.process = process
        self.key = key
        self.headers = {"X-API-Key": key} if key else {}


def uvicorn(application: str) -> list[str]:
    arguments = [application, "--app-dir", str(HERE), "--no-access-log", "--log-level", "warning"]
    return [sys.executable, "-m", "uvicorn", *arguments]


def payoff_command() -> list[str]:
    return [sys.executable, "-m", "app.cli", "serve"]


def made_key(state: dict[str, str]) -> str:
    command = [sys.executable, "-m", "app.cli", "keys", "create", "--name", "bench", "--rate", "1000000/second"]
    command += ["--scope", "predict", "--scope", "train"]
    made = subprocess.run(command, env=os.environ | state, cwd=HERE.parent, capture_output=True, check=True)
    return re.search(rb"payoff_\S+", made.stdout)[0].decode()


def write_arrays(state: dict[str, str], path: Path) -> None:
    """The arrays of Payoff's model, for the bare route."""
    sys.path.insert(0, str(HERE.parent))
    from app.settings import Settings  # noqa: PLC0415 - of Payoff alone
    from app.stores import make_ports  # noqa: PLC0415

    ports = make_ports(Settings(home=state["PAYOFF_HOME"], models=state["PAYOFF_MODELS"]))
    linear = ports.registry.load("bench").estimator.model_.linear
    ports.database.close()
    hinges = linear.hinges
    np.savez(
        path,
        columns=hinges.columns,
        uppers=hinges.uppers,
        knots=hinges.knots,
        coef=linear.coef,
        intercept=linear.intercept,
    )


@contextmanager
def mlserver(command: str, folder: Path) -> Iterator[Server]:
    """MLServer with the pipeline, in one process."""
    model = {
        "name": "bench",
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": str(folder / "pipeline.joblib")},
    }
    (folder / "model-settings.json").write_text(json.dumps(model))
    off = {"MLSERVER_PARALLEL_WORKERS": "0", "MLSERVER_DEBUG": "false"}
    ports = {"MLSERVER_GRPC_PORT": str(free_port()), "MLSERVER_METRICS_PORT": str(free_port())}
    with server([command, "start", str(folder)], off | ports, "/v2/models/bench/ready", "MLSERVER_HTTP_PORT") as peer:
        yield peer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(
    command: list[str],
    environment: dict[str, str],
    ready: str,
    port_variable: str = "",
    *,
    key: str = "",
    log: IO[bytes] | int = subprocess.DEVNULL,
) -> Iterator[Server]:
    """A server on the first core, as soon as it answers at `ready`; its port is the last argument, or a variable."""
    port = free_port()
    if port_variable:
        environment = {**environment, port_variable: str(port)}
    else:
        command = [*command, "--port", str(port)]
    command = ["taskset", "-c", str(CORES[0]), *command]
    process = subprocess.Popen(
        command, env=os.environ | environment, cwd=HERE.parent, stdout=log, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(6000):
            try:
                if httpx.get(f"http://127.0.0.1:{port}{ready}").status_code < 500:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.01)
        else:
            raise SystemExit(f"does not answer at {ready}: {' '.join(command)}")
        yield Server(port, process, key)
    finally:
        process.terminate()
        process.wait()


def memory_mb(server: Server) -> float:
    processes = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
    return sum(process.memory_full_info().pss for process in processes) / 1e6


def train(server: Server, data: object, **learner: object) -> None:
    inline = {"features": list(data.feature_names), "rows": data.data.tolist(), "labels": data.target.tolist()}
    order = {"model": "bench", "learner": {"kind": "logistic", "calibration": "none", **learner}, "data": inline}
    headers = {"Prefer": "wait=60", **server.headers}
    job = httpx.post(f"http://127.0.0.1:{server.port}/train", json=order, headers=headers, timeout=90).json()
    if job["status"] != "succeeded":
        raise SystemExit(job)


def request(server: Server, path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: {kind}\r\nAccept: {kind}\r\n"
    head += f"X-API-Key: {server.key}\r\n" if server.key else ""
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def requests_of(servers: dict[str, Server], data: object) -> dict[str, bytes]:
    """What is sent, by the name of the server and of the request."""
    rng = np.random.default_rng(0)
    X = data.data[rng.integers(0, len(data.data), 10_000)] * rng.normal(1, 0.01, (10_000, 30))
    asked = {"model": "bench", "benefits": BENEFITS}
    query = f"/predict?model=bench&benefits={json.dumps(BENEFITS, separators=(',', ':'))}"
    buffer = io.BytesIO()
    np.save(buffer, X)
    sink = pa.BufferOutputStream()
    table = pa.table(dict(zip(map(str, data.feature_names), X.T.copy(), strict=True)))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = sink.getvalue().to_pybytes()
    found = {}
    for count, rows in (("1 row", X[:1]), ("10000 rows", X)):
        instances = rows.tolist()
        for name in ("bare", "payoff"):
            body = json.dumps(asked | {"instances": instances}).encode()
            found[f"{name}, {count}"] = request(servers[name], "/predict", body)
        body = json.dumps({"instances": instances}).encode()
        found[f"usual, {count}"] = request(servers["usual"], "/predict", body)
        if "mlserver" in servers:
            tensor = {"name": "x", "shape": list(rows.shape), "datatype": "FP64", "data": rows.ravel().tolist()}
            body = json.dumps({"inputs": [tensor], "outputs": [{"name": "predict_proba"}]}).encode()
            found[f"mlserver, {count}"] = request(servers["mlserver"], "/v2/models/bench/infer", body)
    payoff = servers["payoff"]
    npy, stream = "application/x-npy", "application/vnd.apache.arrow.stream"
    found["payoff, 10000 rows npy"] = request(payoff, query, buffer.getvalue(), npy)
    found["payoff, 10000 rows arrow"] = request(payoff, query, arrow, stream)
    found["payoff, 10000 rows npy, JSON out"] = found["payoff, 10000 rows npy"].replace(
        b"Accept: " + npy.encode(), b"Accept: application/json"
    )
    return found


def compare(servers: dict[str, Server], data: object) -> None:
    requests = requests_of(servers, data)
    port = {name: servers[name.partition(",")[0]].port for name in requests}
    single = {name: [] for name in requests}
    crowd: dict[str, list[tuple[float, float]]] = {name: [] for name in requests if name.endswith(", 1 row")}
    for _ in range(ROUNDS + 1):  # the first round warms up and is left out
        for name, message in requests.items():
            count = SINGLE_REQUESTS if name in crowd else BATCH_REQUESTS
            single[name].append(uvloop.run(load(port[name], message, 1, requests=count)))
        for name, rounds in crowd.items():
            rounds.append(rate(uvloop.run(load(port[name], requests[name], CONNECTIONS, seconds=SECONDS))))
    p50 = {name: statistics.median(np.median(times) for times in rounds[1:]) for name, rounds in single.items()}
    p99 = {name: statistics.median(np.quantile(times, 0.99) for times in rounds[1:]) for name, rounds in single.items()}
    print(f"\n{'one connection':<34}{'p50 ms':>9}{'p99 ms':>9}")
    for name in requests:
        print(f"{name:<34}{p50[name] * 1e3:9.3f}{p99[name] * 1e3:9.3f}")
    print(f"\n{CONNECTIONS} connections{'':<20}{'req/s':>9}{'p99 ms':>9}")
    middle = {name: np.median(np.array(rounds[1:]), axis=0) for name, rounds in crowd.items()}
    for name, (per_second, slow) in middle.items():
        print(f"{name:<34}{per_second:9.0f}{slow * 1e3:9.3f}")
    show_ratios(p50, {name: figures[0] for name, figures in middle.items()}, "mlserver" in servers)
    ratio = middle["payoff, 1 row"][1] / middle["usual, 1 row"][1]
    show("usual: 16 connections, p99", ratio, "<= 0.3")


def show_ratios(p50: dict[str, float], per_second: dict[str, float], with_mlserver: bool) -> None:
    """Payoff's figures divided by those of the server that is named first."""
    print(f"\n{'ratio of Payoff to':<42}{'measured':>10}   goal")
    goals = [("bare", "<= 1.0", ">= 0.9", ""), ("usual", "<= 0.6", ">= 2.5", "<= 0.6")]
    goals += [("mlserver", "<= 1.0", ">= 1.0", "<= 0.5")] if with_mlserver else []
    for name, single, many, batch in goals:
        show(f"{name}: single row, p50", p50["payoff, 1 row"] / p50[f"{name}, 1 row"], single)
        show(f"{name}: 16 connections, requests/s", per_second["payoff, 1 row"] / per_second[f"{name}, 1 row"], many)
        show(f"{name}: 10,000 x 30 as JSON, p50", p50["payoff, 10000 rows"] / p50[f"{name}, 10000 rows"], batch)
    for form in ("npy", "arrow"):
        ratio = p50[f"payoff, 10000 rows {form}"] / p50["usual, 10000 rows"]
        show(f"usual: 10,000 x 30 as {form}, p50", ratio, "<= 0.1")
    print(f"\n{'milliseconds':<42}{'measured':>10}   goal")
    npy = p50["payoff, 10000 rows npy"]
    show("10,000 x 30, npy in and out", npy * 1e3, "<= 1.2")
    show("10,000 decisions as JSON", (p50["payoff, 10000 rows npy, JSON out"] - npy) * 1e3, "<= 3")


def while_training(payoff: Server, data: object) -> None:
    """Single rows while a job trains, against without; the job may use any core."""
    for process in [psutil.Process(payoff.process.pid), *psutil.Process(payoff.process.pid).children(recursive=True)]:
        process.cpu_affinity(CORES)
    message = request(
        payoff,
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
    headers = {"Content-Type": "application/json", **payoff.headers}
    order = json.dumps({"model": "big", "learner": {"kind": "logistic"}, "data": inline}).encode()
    base = f"http://127.0.0.1:{payoff.port}"
    for _ in range(ROUNDS):
        quiet.append(np.quantile(uvloop.run(load(payoff.port, message, 1, requests=SINGLE_REQUESTS)), 0.99))
        job = httpx.post(f"{base}/train", content=order, headers=headers, timeout=90).json()
        times: list[float] = []
        while httpx.get(f"{base}/train/{job['id']}", headers=payoff.headers).json()["status"] in ("queued", "running"):
            times += uvloop.run(load(payoff.port, message, 1, requests=200))
        busy.append(np.quantile(times, 0.99))
    ratio = statistics.median(busy) / statistics.median(quiet)
    print(f"\nsingle rows, p99 ms {statistics.median(quiet) * 1e3:10.3f}")
    print(f"while a job trains  {statistics.median(busy) * 1e3:10.3f}")
    show("p99 while training", ratio, "<= 3")


def show(what: str, ratio: float, goal: str) -> None:
    sign, _, bound = goal.partition(" ")
    if goal and (ratio > float(bound) if sign == "<=" else ratio < float(bound)):
        goal += ", missed"
    print(f"{what:<42}{ratio:10.3f}   {goal}")
    shown.append((what, ratio, goal))


def write_table() -> None:
    """Put the figures between the marks on the page."""
    rows = [f"| {what} | {ratio:.3f} | {goal} |" for what, ratio, goal in shown]
    table = "\n".join(
        ["| Payoff, as a multiple of another server, or in ms | measured | goal |", "|---|---|---|", *rows]
    )
    begin, end = "<!-- serving -->\n", "<!-- end -->\n"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(before + begin + table + "\n" + end + rest.partition(end)[2])


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
