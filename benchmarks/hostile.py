"""A replica of 1,536 MB behind nginx against requests that are made to exhaust it, while others go on with their work.

Each row starts `payoff serve` anew behind an nginx with deploy/nginx.conf, sends its requests, and meanwhile asks
`/health/live` and predicts single rows from a process and an address of its own. Where control groups of memory can be
made, the replica is in one of 1,536 MB; its peak is that of its resident memory in any case, helper processes included.
Prints a table; exits with 1 where a row misses a target: a peak below 1,000 MB, `/health/live` within 250 ms,
well-behaved clients served. Takes minutes, and shows little on a busy machine: the first row, in which nothing is sent,
shows how busy. Run:
.venv/bin/python benchmarks/hostile.py [row …]

The smallest work: `.venv/bin/python benchmarks/hostile.py nothing`
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.servers.nginx import balancing
from tests.servers.service import Replica

MEMORY = 1536 * 2**20
PEAK_MB, LIVE_MS = 1000, 250
KEY = "administrator-5d1b"
SETTINGS = {
    "admin_key": KEY,
    "workers": 0,
    "access_log": False,
    "log_level": "warning",
    "cache_mb": 128,
    "request_memory_mb": 400,
}
SECONDS = 60.0  # of a row, at the longest
JSON = {"Content-Type": "application/json"}
HEADING = "row                  s  peak MB  live ms  bad/asked  pred ms  bad/asked missed              answers"
GROUPS = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")  # version 1, version 2


@dataclass
class Seen:
    """What one row did."""

    statuses: Counter[str] = field(default_factory=Counter)
    peak_mb: float = 0.0
    died: bool = False

    def add(self, status: object) -> None:
        self.statuses[str(status)] += 1


@dataclass
class Target:
    """The balancer before the replica under attack."""

    port: int
    seen: Seen

    def send(self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None) -> int:
        """One request of a client that has a key; 0 where the connection breaks."""
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=SECONDS) as client:
                answer = client.request(method, path, content=content, headers={"X-API-Key": KEY, **(headers or {})})
                status = answer.status_code
        except httpx.HTTPError as error:
            status = 0
            self.seen.add(type(error).__name__)
        else:
            self.seen.add(status)
        return status

    def together(self, count: int, send: Callable[[int], object]) -> None:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(send, range(count)))

    def raw(self, *parts: bytes, times: int = 1, seconds: float = 5.0) -> None:
        """Bytes as they are, the last part over and over; the status line is what counts."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            with contextlib.suppress(OSError):
                for part in (*parts[:-1], *(parts[-1:] * times)):
                    connection.sendall(part)
            with contextlib.suppress(OSError):
                received = connection.recv(65536)
        self.seen.add(received[9:12].decode() or "closed")

    @contextmanager
    def connections(self, count: int, message: bytes) -> Iterator[list[socket.socket]]:
        """Many connections that have sent a message, and read nothing."""
        with ExitStack() as stack:
            opened = []
            for _ in range(count):
                with contextlib.suppress(OSError):
                    address = ("127.0.0.1", self.port)
                    opened.append(stack.enter_context(socket.create_connection(address, timeout=5)))
                    opened[-1].sendall(message)
            yield opened


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: a", f"X-API-Key: {KEY}", *lines, "", ""]).encode()


# The rows


def nothing(_target: Target) -> None:
    time.sleep(3)


def trailers(target: Target) -> None:
    flood = b"a" * 100_000
    for begin in (
        b"POST /predict HTTP/1.1\r\nHost: a\r\n",
        head("GET", "/health/live")[:-2],
        head("POST", "/predict")[:-2],
    ):
        for part in (b"0\r\nX-A: ", b"5;"):
            target.raw(begin + b"Transfer-Encoding: chunked\r\n\r\n" + part, flood, times=300)


def inline_rows(target: Target) -> None:
    row = b"[1,2,3,4,5,6,7,8,9,10],"
    rows = row * (66_000_000 // len(row))
    labels = b'"a","b",' * (66_000_000 // len(row) // 2)
    features = json.dumps([f"f{j}" for j in range(10)]).encode()
    body = b'{"model":"big","learner":{"kind":"logistic"},"data":{"features":%b,"rows":[%b],"labels":[%b]}}'
    for share in (64, 9):
        part = rows[: len(row) * (len(rows) * share // 80 // len(row))]
        target.send("POST", "/train", body % (features, part[:-1], labels[:-1]), JSON)


def empty_lists(target: Target) -> None:
    begin = b'{"model":"ward","rule":"most_probable","instances":['
    for size in (64, 30, 8):
        target.send("POST", "/predict", begin + b"[]," * (size * 1_000_000 // 3 - 30) + b"[]]}", JSON)


def many_actions(target: Target) -> None:
    rows = ",".join("[" + ",".join(["1"] * 300_000) + "]" for _ in range(2))
    target.together(4, lambda _: target.send("POST", "/models/ward/benefit", f'{{"benefits":[{rows}]}}'.encode(), JSON))


def _wide_question(rows: int, actions: int) -> bytes:
    """A short body whose answer has a number for each row and action."""
    stakes = {"benefits": [[3] * actions, [7] * actions], "actions": [f"{i}" for i in range(actions)]}
    return json.dumps({"model": "ward", "instances": [[60, 5]] * rows, **stakes}, separators=(",", ":")).encode()


def long_answers(target: Target) -> None:
    body = _wide_question(1000, 3000)
    target.together(6, lambda _: target.send("POST", "/predict", body, JSON))


def unread_answers(target: Target) -> None:
    body = _wide_question(1000, 2000)
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    with target.connections(10, head("POST", "/predict", *lines) + body) as opened:
        time.sleep(12)
        for connection in opened:
            target.seen.add(_status(connection))


def _status(connection: socket.socket) -> str:
    try:
        return connection.recv(65536)[9:12].decode() or "closed"
    except OSError as error:
        return type(error).__name__


def punycode(target: Target) -> None:
    for charset in ("punycode", "utf-7", "undefined", "unicode_escape"):
        part = (
            b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\n' + b"a-" * 100_000 + b"9" * 800_000 + b"\r\n"
        )
        kind = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
        target.send("POST", "/datasets", part * 4 + b"--x--\r\n", kind)


def _parquet(words: int, length: int) -> bytes:
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(words, np.int32)), pa.array(["a" * length]))
    sink = io.BytesIO()
    table = pa.table({"word": word, "y": np.arange(words) % 2})
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    return sink.getvalue()


def parquet(target: Target) -> None:
    for words in (600, 3600):
        target.send(
            "POST", "/datasets?label=y", _parquet(words, 1_000_000), {"Content-Type": "application/octet-stream"}
        )


def wide_data(target: Target) -> None:
    """10,000 columns of 1,000 categories each, as CSV; then listings of data sets."""
    lines = [",".join(["y", *(f"c{j}" for j in range(10_000))])]
    cells = [f",w{i}" for i in range(1000)]
    lines += [f"{i % 2}" + cells[i] * 10_000 for i in range(1000)]
    target.send("POST", "/datasets?label=y", "\n".join(lines).encode(), {"Content-Type": "text/csv"})
    target.together(8, lambda _: target.send("GET", "/datasets"))


def long_names(target: Target) -> None:
    for i in range(30):
        question = {
            "model": "ward",
            "instances": [[50, 70]],
            "benefits": [[0, 1], [1, 0]],
            "actions": [f"{i}" + "a" * 8_000_000, "b"],
        }
        target.send("POST", "/predict", json.dumps(question).encode(), JSON)


def simulations(target: Target) -> None:
    rng = np.random.default_rng(0)
    order = {"model": "forest", "rows": rng.normal(60, 10, (20_000, 2)).round(1).tolist()}
    order |= {"labels": ["ill", "healthy"] * 10_000, "benefits": [[0, -1], [-10, 5]]}
    body = json.dumps(order).encode()
    target.together(44, lambda _: target.send("POST", "/acquire/simulate", body, JSON))


def silence(target: Target) -> None:
    """Silent connections, half a head, half a body."""
    halves = (b"", b"GET /health/live HTTP/1.1\r\nX-A: ", head("POST", "/predict", "Content-Length: 5000") + b"{")
    with ExitStack() as stack:
        opened = [stack.enter_context(target.connections(300, half)) for half in halves]
        time.sleep(24)
        for connections in opened:
            for connection in connections:
                connection.settimeout(0.01)
                target.seen.add(_status(connection))


def streams(target: Target) -> None:
    order = {"model": "waiting", "learner": {"kind": "logistic"}, "data": _table(40)}
    answer = httpx.post(f"http://127.0.0.1:{target.port}/train", json=order, headers={"X-API-Key": KEY}, timeout=30)
    with target.connections(400, head("GET", f"/train/{answer.json()['id']}/events")) as opened:
        time.sleep(6)
        for connection in opened:
            target.seen.add(_status(connection))


def long_bodies(target: Target) -> None:
    """Fifteen times 60 MB at once, which nothing is wrong with but their sum."""
    body = b'{"model":"ward","instances":[],"rule":"most_probable"' + b" " * 60_000_000 + b"}"
    target.together(15, lambda _: target.send("POST", "/predict", body, JSON))


ROWS = (
    nothing,
    trailers,
    inline_rows,
    empty_lists,
    many_actions,
    long_answers,
    unread_answers,
    punycode,
    parquet,
    wide_data,
    long_names,
    simulations,
    silence,
    streams,
    long_bodies,
)


# The well-behaved client, in a process of its own


def observe(port: int) -> None:
    """Ask until the input ends; print the slowest answers in ms, and how many were not as they should be."""
    stop = threading.Event()
    question = json.dumps({"model": "ward", "instances": [[50, 70]], "rule": "most_probable"}).encode()
    live, predict = Asked("GET", "/health/live", b""), Asked("POST", "/predict", question)
    asked = [live, predict]
    threads = [threading.Thread(target=one.go_on, args=(port, stop)) for one in asked]
    for thread in threads:
        thread.start()
    while not all(one.count for one in asked):
        time.sleep(0.01)
    for one in asked:
        one.slowest = 0.0  # the first opens the connection
    print("begun", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps([[one.slowest * 1e3, one.count, one.failed] for one in asked]))


class Asked:
    """The same request, some twenty times a second."""

    def __init__(self, method: str, path: str, body: bytes) -> None:
        self._request = (method, path, body)
        self.slowest, self.count, self.failed = 0.0, 0, 0

    def go_on(self, port: int, stop: threading.Event) -> None:
        method, path, body = self._request
        headers = {"X-API-Key": KEY, **JSON}
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")  # nginx bounds what one address may do
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, transport=elsewhere) as client:
            while not stop.is_set():
                began = time.perf_counter()
                try:
                    good = client.request(method, path, content=body, headers=headers).status_code == 200
                except httpx.HTTPError:
                    good = False
                self.slowest = max(self.slowest, time.perf_counter() - began)
                self.count += 1
                self.failed += not good
                stop.wait(0.05)


# The replica, and its memory


@contextmanager
def politely() -> Iterator[None]:
    """Leave the processor to the replica and its observer."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, before + 5)
    yield
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def limited(pid: int) -> Iterator[bool]:
    """Put a process into a group of `MEMORY` bytes, where that is possible."""
    for root in GROUPS:
        group = root / f"hostile-{pid}"
        try:
            group.mkdir()
            limit = next(path for name in ("memory.limit_in_bytes", "memory.max") if (path := group / name).exists())
            limit.write_text(str(MEMORY))
            (group / "cgroup.procs").write_text(str(pid))
        except (OSError, StopIteration):
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield True
        finally:
            psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], 10)
            with contextlib.suppress(OSError):
                group.rmdir()
        return
    yield False


def watch(pid: int, seen: Seen, stop: threading.Event) -> None:
    """Note the peak: the kernel's own of the replica, and what its helper processes have for themselves."""
    process = psutil.Process(pid)
    while not stop.wait(0.02):
        try:
            own = next(int(line.split()[1]) for line in _lines(pid) if line.startswith("VmHWM")) / 1024
            helpers = sum(_alone(child) for child in process.children(recursive=True)) / 2**20
        except (psutil.Error, OSError, StopIteration):
            seen.died = not stop.is_set()
            return
        seen.peak_mb = max(seen.peak_mb, own + helpers)


def _lines(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().splitlines()


def _alone(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0


def _table(rows: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    ill = rng.random(rows) < 0.5
    X = np.column_stack([rng.normal(50 + 10 * ill), rng.normal(70 + 10 * ill)]).round(2)
    labels = ["ill" if one else "healthy" for one in ill]
    return {"features": ["age", "pulse"], "rows": X.tolist(), "labels": labels}


def prepare(replica: Replica) -> None:
    """Train what the rows ask."""
    for name, kind in (("ward", "logistic"), ("forest", "random_forest")):
        order = {"model": name, "learner": {"kind": kind}, "data": _table(400)}
        job = replica.client.post(
            "/train", json=order, headers={"Prefer": "wait=60", "X-API-Key": KEY}, timeout=90
        ).json()
        if job["status"] != "succeeded":
            raise SystemExit(str(job))


def attack(replica: Replica, row: Callable[[Target], None]) -> list[str]:
    """Run one row; what it missed."""
    with tempfile.TemporaryDirectory() as folder, balancing(Path(folder), replica.port) as port:
        return _attack(replica, port, row)


def _attack(replica: Replica, port: int, row: Callable[[Target], None]) -> list[str]:
    replica.start()
    command = [sys.executable, "-m", "benchmarks.hostile", "--observe", str(port)]
    observer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    seen, stop = Seen(), threading.Event()
    replica.client.post(
        "/predict", json={"model": "ward", "instances": [], "rule": "most_probable"}, headers={"X-API-Key": KEY}
    )
    observer.stdout.readline()
    with ExitStack() as stack:
        stack.enter_context(limited(replica.pid))
        watching = threading.Thread(target=watch, args=(replica.pid, seen, stop))
        watching.start()
        began = time.monotonic()
        with politely():
            row(Target(port, seen))
        seconds = time.monotonic() - began
        time.sleep(0.5)
        stop.set()
        watching.join()
        out, _ = observer.communicate("", timeout=60)
        replica.stop()
    (live, lives, dead), (predict, predicts, failed) = json.loads(out.splitlines()[-1])
    missed = [
        text
        for text, is_missed in (
            ("killed", seen.died),
            ("memory", seen.peak_mb >= PEAK_MB),
            ("health", live > LIVE_MS or dead),
            ("service", failed or not predicts),
        )
        if is_missed
    ]
    told = ", ".join(f"{status} x{count}" for status, count in sorted(seen.statuses.items()))
    print(
        f"{row.__name__:<16}{seconds:6.1f}{seen.peak_mb:9.0f}{live:9.0f}{dead:5}/{lives:<5}{predict:9.0f}{failed:5}/{predicts:<6}"
        f"{' '.join(missed) or 'ok':<20}{told}",
        flush=True,
    )
    return missed


def main() -> int:
    chosen = [row for row in ROWS if not sys.argv[1:] or row.__name__ in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        settings = SETTINGS | {"home": f"{folder}/home", "models": f"{folder}/models"}
        trainer, replica = Replica(settings | {"workers": 1}), Replica(settings)
        try:
            trainer.start()
            prepare(trainer)
            trainer.stop()
            print(HEADING)
            missed = [attack(replica, row) for row in chosen]
        finally:
            trainer.close()
            replica.close()
    return int(any(missed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--observe"]:
        observe(int(sys.argv[2]))
    else:
        sys.exit(main())
