"""`/predict` with a benefit matrix beside its peers and its limit, in one run; and what recording adds to it.

Payoff runs as `payoff serve` does, with a key that has a rate, request ids, metrics, and a log line for each request.
One process each, pinned to the first core; this client on the last one. Prints medians of several rounds, in which they
take turns, and the table of benchmarks/serving.md. MLSERVER is the path of MLServer's command (`pip install mlserver
mlserver-sklearn`, Python 3.11), if it is to take part. Run: .venv/bin/python benchmarks/serving.py [rounds]

`.venv/bin/python benchmarks/serving.py recording [rounds]`: single rows with and without `"record": true`, on SQLite
and on PostgreSQL (Debian's package, `fsync=on`) beside the service on all cores of this machine. `disk` is what the
disk alone takes: 4 kB appended to a file, and fdatasync.

The smallest work: `.venv/bin/python benchmarks/serving.py 1`
"""

import asyncio
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import httpx
import joblib
import numpy as np
import orjson
import pyarrow as pa
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, Field
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.opening import prepare_stores
from app.settings import Settings
from tests.servers.postgres import Postgres
from tests.servers.program import Program, free_port, listening
from tests.servers.service import Replica

HERE = Path(__file__).parent
ROUNDS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5)
ASKED = {"model": "bench", "benefits": [[-40, 0], [100, -500]]}
CONNECTIONS = 16
SECONDS = 2.0
SINGLE_REQUESTS = 1500
BATCH_REQUESTS = 12
CORES = sorted(os.sched_getaffinity(0))
PINNED = ["taskset", "-c", str(CORES[0])]
DATA = load_breast_cancer()


def bare() -> Starlette:
    """One route that does the arithmetic of Payoff's `/predict` for the arrays in the file MODEL, and nothing else.

    It reads the same body and writes the same answer, with orjson. It checks nothing: no names, no types, no keys, no
    limits, no metrics, no log.
    """
    arrays = np.load(os.environ["MODEL"])
    columns, uppers, knots, coef, intercept = (
        arrays[name] for name in ("columns", "uppers", "knots", "coef", "intercept")
    )

    async def predict(request: Request) -> Response:
        asked = orjson.loads(await request.body())
        H = np.array(asked["instances"]).take(columns, axis=1)
        np.minimum(H, uppers, out=H)
        H -= knots
        np.maximum(H, 0.0, out=H)
        z = H.dot(coef)
        z += intercept
        P = expit(np.concatenate((-z, z), axis=1))
        E = P.dot(np.array(asked["benefits"], dtype=np.float64))
        answer = {
            "model": {"name": "bench", "version": 1},
            "rule": "expected_benefit",
            "classes": [0, 1],
            "actions": [0, 1],
            "decisions": E.argmax(axis=1),
            "probabilities": P,
            "expected_benefits": E,
            "warnings": [],
        }
        return Response(
            orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY),
            media_type="application/json",
        )

    return Starlette(routes=[Route("/predict", predict, methods=["POST"])])


class Instances(BaseModel):
    instances: Annotated[list[list[float]], Field(min_length=1)]


class Predicted(BaseModel):
    predictions: list[int]
    probabilities: list[list[float]]


def usual() -> FastAPI:
    pipeline = joblib.load(os.environ["PIPELINE"])
    app = FastAPI()

    @app.post("/predict")
    def predict(request: Instances) -> Predicted:
        P = pipeline.predict_proba(np.array(request.instances))
        return Predicted(
            predictions=P.argmax(axis=1).tolist(), probabilities=P.tolist()
        )

    return app


class Peer(Program):
    """A server of this file, by the name of its function."""

    module = "uvicorn"

    def __init__(self, name: str, **environment: str) -> None:
        super().__init__()
        self.name, self.port, self.own = name, free_port(), environment
        self.wrapper = PINNED

    def arguments(self) -> list[str]:
        options = ["--app-dir", str(HERE), "--no-access-log", "--log-level", "warning"]
        return ["--factory", f"serving:{self.name}", *options, "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        return self.own

    def ready(self) -> bool:
        return listening(self.port)


class MLServer(Peer):
    """MLServer with the pipeline, in one process."""

    def __init__(self, command: str, pipeline: str) -> None:
        super().__init__(
            "mlserver", MLSERVER_PARALLEL_WORKERS="0", MLSERVER_DEBUG="false"
        )
        self.own |= {
            f"MLSERVER_{kind}_PORT": str(free_port()) for kind in ("GRPC", "METRICS")
        }
        self.own["MLSERVER_HTTP_PORT"] = str(self.port)
        self.line = [command, "start", str(self.folder)]
        model = {
            "name": "bench",
            "implementation": "mlserver_sklearn.SKLearnModel",
            "parameters": {"uri": pipeline},
        }
        (self.folder / "model-settings.json").write_text(json.dumps(model))

    def command(self) -> list[str]:
        return [*self.wrapper, *self.line]

    def ready(self) -> bool:
        ready = f"http://127.0.0.1:{self.port}/v2/models/bench/ready"
        return super().ready() and httpx.get(ready).status_code < 500


class DurablePostgres(Postgres):
    """The tests' server, whose commits reach the disk."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "fsync=on"]


def beside_peers() -> None:
    with ExitStack() as stack:
        payoff = service(stack, PINNED)
        model, pipeline = (
            str(payoff.folder / "bare.npz"),
            str(payoff.folder / "pipeline.joblib"),
        )
        joblib.dump(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
                DATA.data, DATA.target
            ),
            pipeline,
        )
        write_arrays(payoff, model)
        peers = [Peer("bare", MODEL=model), Peer("usual", PIPELINE=pipeline)]
        if (command := os.environ.get("MLSERVER") or shutil.which("mlserver")) is None:
            print("MLServer is left out: no command mlserver, and MLSERVER is not set")
        else:
            peers.append(MLServer(command, pipeline))
        for peer in peers:
            stack.callback(peer.close)
            peer.start()
        os.sched_setaffinity(0, {CORES[-1]})
        compare({"payoff": payoff} | {peer.name: peer for peer in peers})


def service(stack: ExitStack, wrapper: list[str], **settings: str) -> Replica:
    """`payoff serve` with a key and the model `bench`."""
    payoff = Replica(settings)
    stack.callback(payoff.close)
    payoff.wrapper = wrapper
    key = [
        "--name",
        "bench",
        "--rate",
        "1000000/second",
        "--scope",
        "predict",
        "--scope",
        "train",
    ]
    create = [sys.executable, "-m", "app.cli", "keys", "create", *key]
    made = subprocess.run(
        create,
        env=os.environ | dict(payoff.environment()),
        cwd=HERE.parent,
        capture_output=True,
        check=True,
    )
    payoff.client.headers["X-API-Key"] = re.search(rb"payoff_\S+", made.stdout)[
        0
    ].decode()
    payoff.start()
    rows = {
        "features": list(DATA.feature_names),
        "rows": DATA.data.tolist(),
        "labels": DATA.target.tolist(),
    }
    order = {
        "model": "bench",
        "learner": {"kind": "logistic", "calibration": "none"},
        "data": rows,
    }
    job = payoff.client.post(
        "/train", json=order, headers={"Prefer": "wait=60"}, timeout=90
    ).json()
    if job["status"] != "succeeded":
        raise SystemExit(job)
    return payoff


def write_arrays(payoff: Replica, path: str) -> None:
    stores = prepare_stores(
        Settings(home=payoff.home, models=payoff.environment()["PAYOFF_MODELS"])
    )
    linear = stores.registry.load("bench").estimator.model_.linear
    stores.database.close()
    columns = {
        name: getattr(linear.hinges, name) for name in ("columns", "uppers", "knots")
    }
    np.savez(path, **columns, coef=linear.coef, intercept=linear.intercept)


def request(
    server: Peer | Replica,
    path: str,
    body: bytes | dict[str, Any],
    kind: str = "application/json",
) -> bytes:
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: {kind}\r\nAccept: {kind}\r\n"
    if isinstance(server, Replica):
        head += f"X-API-Key: {server.client.headers['X-API-Key']}\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def requests_of(servers: dict[str, Peer | Replica]) -> dict[str, bytes]:
    """What is sent, by the name of the server and of the request."""
    rng = np.random.default_rng(0)
    X = DATA.data[rng.integers(0, len(DATA.data), 10_000)] * rng.normal(
        1, 0.01, (10_000, 30)
    )
    found = {}
    for count, rows in (("1 row", X[:1]), ("10000 rows", X)):
        instances = rows.tolist()
        for name in ("bare", "payoff"):
            found[f"{name}, {count}"] = request(
                servers[name], "/predict", ASKED | {"instances": instances}
            )
        found[f"usual, {count}"] = request(
            servers["usual"], "/predict", {"instances": instances}
        )
        if "mlserver" in servers:
            tensor = {
                "name": "x",
                "shape": list(rows.shape),
                "datatype": "FP64",
                "data": rows.ravel().tolist(),
            }
            body = {"inputs": [tensor], "outputs": [{"name": "predict_proba"}]}
            found[f"mlserver, {count}"] = request(
                servers["mlserver"], "/v2/models/bench/infer", body
            )
    buffer = io.BytesIO()
    np.save(buffer, X)
    sink = pa.BufferOutputStream()
    table = pa.table(dict(zip(map(str, DATA.feature_names), X.T.copy(), strict=True)))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    query = f"/predict?model=bench&benefits={json.dumps(ASKED['benefits'], separators=(',', ':'))}"
    npy, arrow = "application/x-npy", "application/vnd.apache.arrow.stream"
    found["payoff, 10000 rows npy"] = request(
        servers["payoff"], query, buffer.getvalue(), npy
    )
    found["payoff, 10000 rows arrow"] = request(
        servers["payoff"], query, sink.getvalue().to_pybytes(), arrow
    )
    found["payoff, 10000 rows npy, JSON out"] = found["payoff, 10000 rows npy"].replace(
        b"Accept: " + npy.encode(), b"Accept: application/json"
    )
    return found


def compare(servers: dict[str, Peer | Replica]) -> None:
    requests = requests_of(servers)
    port = {name: servers[name.partition(",")[0]].port for name in requests}
    single = {name: [] for name in requests}
    crowd: dict[str, list[tuple[float, float]]] = {
        name: [] for name in requests if name.endswith(", 1 row")
    }
    for _ in range(ROUNDS + 1):  # the first round warms up and is left out
        for name, message in requests.items():
            count = SINGLE_REQUESTS if name in crowd else BATCH_REQUESTS
            single[name].append(
                uvloop.run(load(port[name], message, 1, requests=count))
            )
        for name, rounds in crowd.items():
            times = uvloop.run(
                load(port[name], requests[name], CONNECTIONS, seconds=SECONDS)
            )
            rounds.append((len(times) / SECONDS, float(np.quantile(times, 0.99))))
    p50 = {
        name: statistics.median(np.median(times) for times in rounds[1:])
        for name, rounds in single.items()
    }
    print(f"\n{'one connection':<34}{'p50 ms':>9}")
    for name in requests:
        print(f"{name:<34}{p50[name] * 1e3:9.3f}")
    print(f"\n{CONNECTIONS} connections{'':<20}{'req/s':>9}{'p99 ms':>9}")
    middle = {
        name: np.median(np.array(rounds[1:]), axis=0) for name, rounds in crowd.items()
    }
    for name, (per_second, slow) in middle.items():
        print(f"{name:<34}{per_second:9.0f}{slow * 1e3:9.3f}")
    print(
        "\n| Payoff, as a multiple of another server, or in ms | measured | goal |\n|---|---|---|"
    )
    goals = {
        "bare": ("<= 1.0", ">= 0.8", ""),
        "usual": ("<= 0.6", ">= 2.5", "<= 0.6"),
        "mlserver": ("<= 1.0", ">= 1.0", "<= 0.5"),
    }
    for name, (one, many, batch) in goals.items():
        if name in servers:
            show(
                f"{name}: single row, p50",
                p50["payoff, 1 row"] / p50[f"{name}, 1 row"],
                one,
            )
            show(
                f"{name}: 16 connections, requests/s",
                middle["payoff, 1 row"][0] / middle[f"{name}, 1 row"][0],
                many,
            )
            show(
                f"{name}: 10,000 x 30 as JSON, p50",
                p50["payoff, 10000 rows"] / p50[f"{name}, 10000 rows"],
                batch,
            )
    for form in ("npy", "arrow"):
        ratio = p50[f"payoff, 10000 rows {form}"] / p50["usual, 10000 rows"]
        show(f"usual: 10,000 x 30 as {form}, p50", ratio, "<= 0.1")
    show(
        "usual: 16 connections, p99",
        middle["payoff, 1 row"][1] / middle["usual, 1 row"][1],
        "<= 0.3",
    )
    npy = p50["payoff, 10000 rows npy"]
    show("10,000 x 30, npy in and out, ms", npy * 1e3, "<= 1.2")
    show(
        "10,000 decisions as JSON, ms",
        (p50["payoff, 10000 rows npy, JSON out"] - npy) * 1e3,
        "<= 3",
    )


def show(what: str, ratio: float, goal: str) -> None:
    sign, _, bound = goal.partition(" ")
    if goal and (ratio > float(bound) if sign == "<=" else ratio < float(bound)):
        goal += ", missed"
    print(f"| {what} | {ratio:.3f} | {goal} |")


def recording() -> None:
    for kind in ("SQLite", "PostgreSQL"):
        with ExitStack() as stack:
            settings = {}
            if kind == "PostgreSQL":
                database = DurablePostgres()
                stack.callback(database.close)
                database.start()
                settings["database"] = database.create_database()
            payoff = service(stack, [], **settings)
            compare_recorded(kind, payoff)
            p50, p99 = disk_microseconds(payoff.folder)
            print(f"{'disk':<12}{p50:10.0f}{p99:10.0f}")


def compare_recorded(kind: str, payoff: Replica) -> None:
    asked = ASKED | {"instances": DATA.data[:1].tolist()}
    messages = {
        "plain": request(payoff, "/predict", asked),
        "recorded": request(payoff, "/predict", asked | {"record": True}),
    }
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in messages}
    for _ in range(ROUNDS + 1):  # the first round warms up and is left out
        for name, message in messages.items():
            times = uvloop.run(load(payoff.port, message, 1, requests=SINGLE_REQUESTS))
            crowd = uvloop.run(load(payoff.port, message, CONNECTIONS, seconds=SECONDS))
            found[name].append(
                (
                    np.median(times) * 1e6,
                    np.quantile(times, 0.99) * 1e6,
                    len(crowd) / SECONDS,
                )
            )
    middle = {name: np.median(rounds[1:], axis=0) for name, rounds in found.items()}
    print(
        f"\n{kind:<12}{'p50 us':>10}{'p99 us':>10}{f'requests/s, {CONNECTIONS} connections':>32}"
    )
    for name, figures in middle.items():
        print(f"{name:<12}{figures[0]:10.0f}{figures[1]:10.0f}{figures[2]:32.0f}")
    goals = {"p50": "<= 1.5", "p99": "<= 2", "requests/s": ">= 0.6"}
    for (name, goal), ratio in zip(
        goals.items(), middle["recorded"] / middle["plain"], strict=True
    ):
        show(f"recorded / plain, {name}", ratio, goal)


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


async def load(
    port: int,
    message: bytes,
    connections: int,
    *,
    requests: int | None = None,
    seconds: float = 60.0,
) -> list[float]:
    """Send `message` over and over on keep-alive connections; seconds from sending to the answer's last byte."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    times: list[float] = []
    done = [loop.create_future() for _ in range(connections)]
    for future in done:
        await loop.create_connection(
            lambda future=future: Caller(message, times, until, requests, future),
            "127.0.0.1",
            port,
        )
    await asyncio.gather(*done)
    return times


class Caller(asyncio.Protocol):
    """One keep-alive connection that asks again as soon as it is answered."""

    def __init__(
        self,
        message: bytes,
        times: list[float],
        until: float,
        requests: int | None,
        done: asyncio.Future,
    ) -> None:
        self._message, self._times, self._until, self._left, self._done = (
            message,
            times,
            until,
            requests,
            done,
        )
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
    recording() if "recording" in sys.argv else beside_peers()
