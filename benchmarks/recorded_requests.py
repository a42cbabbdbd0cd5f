"""20,000 requests of a fixed seed and their answers, recorded; and what differs between two recordings.

    .venv/bin/python benchmarks/recorded_requests.py record OUT [--tree FOLDER] [--requests 20000] [--seconds 240]
    .venv/bin/python benchmarks/recorded_requests.py compare A B [--examples 1]

`record` starts the code in FOLDER (by default this one) twice, as `payoff serve` on loopback in a temporary folder:
three quarters of the requests go to a service without keys, the rest to one with keys. Both train their models first.
The list is that of `request_list.py`: all routes, all formats, valid requests and spoilt ones. An answer is kept as
status, media type and content, in which ids of jobs, times, durations and places become `*`. OUT is gzip, a line of
JSON for each request (about 3 MB: not for the repository). A service gets its requests one after the other, and no more
after `--seconds`: on a busy machine a recording is shorter, and exits with 1; `compare` takes the common part.

`compare` groups what differs by route, kind and model: status, media type, pointers of errors, fields, values, last
bits of values, sentences; it exits with 1 where anything does. Two recordings of the same code have no difference.
Compile the loops of a tree beforehand (`python -m app.kernels`). Decisions are recorded for September 2026, and reports
reach back 400 days: later, change DAYS in the list.

The smallest work: `.venv/bin/python benchmarks/recorded_requests.py record /dev/null --requests 20`
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from request_list import ARROW, BINARY, JSON, KEY_NAMES, LARGE, LENGTH, NPY, PARQUET, Sent, requests

NEAR, TINY = 1e-9, 1e-15  # relative, absolute: what a compiler or an order of sums may change
LONGEST = 20_000  # characters of an answer that are kept; of a longer one its digest
ADMIN = "administrator-26"
SETTINGS = {
    "max_body_mb": 2,
    "max_upload_mb": 2,
    "allow_pickles": 1,
    "job_seconds": 60,
    "access_log": 0,
    "log_level": "warning",
}
KEYS = dict(zip(KEY_NAMES, (
    "--scope predict",
    "--scope train",
    "--scope predict --scope train",
    "--scope predict --scope train --model w*",
    "--scope predict --rate 5/day",
), strict=True))  # fmt: skip


def record(out: Path, tree: Path, count: int, seconds: float) -> int:
    counts = {False: count * 3 // 4, True: count - count * 3 // 4}
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda keyed: list(served(tree, counts[keyed], seconds, keyed=keyed)), counts)
        lines = [line for part in parts for line in part]
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    seen = Counter((line["route"], line["status"]) for line in lines)
    for (route, status), number in sorted(seen.items()):
        print(f"{number:6} {status} {route}")
    print(f"{sum(seen.values())} of {count} requests, {out.stat().st_size // 1024} kB")
    return 0 if sum(seen.values()) == count else 1


def served(tree: Path, count: int, seconds: float, *, keyed: bool) -> Iterator[dict[str, Any]]:
    """Start the service of a tree; a line for each request."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        settings = {"home": f"{folder}/home", "models": f"{folder}/models", **SETTINGS} | (
            {"admin_key": ADMIN} if keyed else {}
        )
        environment = os.environ | {f"PAYOFF_{name.upper()}": str(value) for name, value in settings.items()}
        environment |= {
            "PYTHONPATH": str(tree),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "app.cli"]
        secrets = {"admin": ADMIN, "wrong": "wrong"}
        for name, told in KEYS.items() if keyed else ():
            make = [*command, "keys", "create", "--name", name, *told.split()]
            secrets[name] = subprocess.run(
                make, env=environment, cwd=folder, check=True, capture_output=True, text=True
            ).stdout.strip()
        log = stack.enter_context((Path(folder) / "log").open("wb"))
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port)], env=environment, cwd=folder, stdout=log, stderr=log
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        wire = Wire(port, secrets)
        ready = Sent("GET /health/ready", "/health/ready", headers={"Key": "admin"} if keyed else {})
        while wire.answer(ready)[0] != 200:
            if process.poll() is not None:
                raise SystemExit((Path(folder) / "log").read_text()[-3000:])
            time.sleep(0.2)
        until = time.monotonic() + seconds
        for sent in requests(count, keyed=keyed):
            if time.monotonic() > until:
                return
            status, kind, content = wire.answer(sent)
            named = {"key": sent.key, "route": sent.route, "about": sent.about}
            yield {**named, "status": status, "type": kind, "content": content}


class Wire:
    """Sends requests over one connection; knows the ids of jobs by the models that they made."""

    def __init__(self, port: int, secrets: dict[str, str]) -> None:
        self._to = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._secrets = secrets
        self._jobs: dict[str, str] = {}

    def answer(self, sent: Sent) -> tuple[int, str, Any]:
        """Status, media type and plain content; 0 where the connection was closed instead."""
        for _ in range(2):  # a connection that was kept may have been closed since
            try:
                response = self._sent(sent)
                content = response.read()
            except (OSError, http.client.HTTPException):
                self._to.close()
                continue
            if response.will_close or len(sent.content) >= LARGE:
                self._to.close()
            kind = (response.headers["Content-Type"] or "").partition(";")[0]
            document = read(kind, content, response.headers)
            if isinstance(document, dict) and str(document.get("id")).startswith("job_"):
                self._jobs.setdefault(str(sent.about), document["id"])
            return response.status, kind, kept(plain(document))
        return 0, "", None

    def _sent(self, sent: Sent) -> http.client.HTTPResponse:
        target = re.sub(r"\{(\w+)\}", lambda found: self._jobs.get(found[1], "job_none"), sent.target)
        headers, content = dict(sent.headers), sent.content
        secret = self._secrets.get(headers.pop("Key", "none"))
        self._to.putrequest(sent.route.split()[0], target, skip_host="Host" in headers)
        for name, value in ({**headers, "X-API-Key": secret} if secret else headers).items():
            self._to.putheader(name, value.encode())
        if content:
            self._to.putheader("Content-Length", str(len(content)))
        self._to.endheaders()
        if (
            len(content) < LARGE or not select.select([self._to.sock], [], [], 0.2)[0]
        ):  # a large one may be refused before it is read
            self._to.send(content)
        return self._to.getresponse()


def read(kind: str, content: bytes, headers: http.client.HTTPMessage) -> Any:
    """What an answer says, whatever its format."""
    rest = {
        name: json.loads(headers[name]) if name == "Payoff-Answer" else headers[name]
        for name in ("Payoff-Answer", "Payoff-Matrix")
        if name in headers
    }
    if kind in (JSON, "application/problem+json"):
        said: Any = json.loads(content) if content else None
    elif kind == NPY:
        file, said = io.BytesIO(content), []
        while file.tell() < len(content):
            said.append(np.load(file).tolist())
    elif kind in (ARROW, PARQUET):
        table = pa.ipc.open_stream(content).read_all() if kind == ARROW else pq.read_table(io.BytesIO(content))
        said = {"types": [str(one.type) for one in table.schema], "columns": table.to_pydict()}
        said |= {k.decode(): json.loads(v) for k, v in (table.schema.metadata or {}).items() if k == b"payoff"}
    elif LENGTH in headers:
        length = int(headers[LENGTH])
        said = [json.loads(content[:length]), content[length:].hex()]
    elif kind == "text/plain" and b"# TYPE" in content:
        said = sorted(re.findall(r"^# TYPE (.*)$", content.decode(), re.MULTILINE))
    elif kind == BINARY:  # a model's file has its library's version and times
        said = "a file"
    else:
        said = content.decode("utf-8", "replace")
    return {"content": said, **rest} if rest else said


PASSING = re.compile(
    r"job_[0-9a-f]{10,}|payoff_[0-9a-f]{8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\b2\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|127\.0\.0\.1:\d+|/tmp/\w+"
    r"|\b\d+(\.\d+)? (s|ms|seconds)\b|\b17\d{8}(\.\d+)?\b"
)
PASSING_FIELDS = re.compile(r"_at$|seconds$|_ms$|^(next_page_token|sha256|digest|bytes|size|uptime)$")


def plain(value: Any, name: str = "") -> Any:
    """The value without what differs each time."""
    if isinstance(value, dict):
        return {PASSING.sub("*", key): plain(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, name) for inner in value]
    if value is not None and PASSING_FIELDS.search(name):
        return "*"
    return PASSING.sub("*", value) if isinstance(value, str) else value


def kept(document: Any) -> Any:
    written = json.dumps(document)
    return (
        document
        if len(written) < LONGEST
        else {"digest": hashlib.sha256(written.encode()).hexdigest()[:16], "length": len(written)}
    )


# --- comparing


def compare(a: Path, b: Path, examples: int) -> int:
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    ours, theirs = (load(path) for path in (a, b))
    common = sum(key in theirs for key in ours)
    for key, (old, new) in ((key, (ours[key], theirs[key])) for key in ours if key in theirs):
        for kind, what in differences(old, new):
            groups[old["route"], kind, old["about"] if "values" in kind else ""].append(f"{key[0]} {what}")
    for (route, kind, about), found in sorted(groups.items()):
        print(f"{len(found):6} {route} {about} {kind}")
        print("".join(f"         {one[:300]}\n" for one in found[:examples]), end="")
    print(f"{common} requests compared, {sum(map(len, groups.values()))} differences in {len(groups)} groups")
    return 1 if groups else 0


def load(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """By the digest of a request, and which of its kind it is."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    often: Counter[str] = Counter()
    for line in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
        often[line["key"]] += 1
        found[line["key"], often[line["key"]]] = line | {"content": plain(line["content"])}  # by today's rules
    return found


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if old["status"] != new["status"]:
        yield (
            f"status {old['status']} → {new['status']}",
            f"{json.dumps(old['content'])[:120]} → {json.dumps(new['content'])[:120]}",
        )
    elif old["type"] != new["type"]:
        yield f"media type {old['type']} → {new['type']}", ""
    elif old["content"] != new["content"]:
        was, now = (dict(leaves(one["content"])) for one in (old, new))
        for kind in ("pointers", "fields", "values", "last bits of values", "sentences"):
            changed = [place for place in was.keys() | now.keys() if kind == kind_of(place, was, now)]
            if changed:
                place = min(changed)
                yield kind, f"{place}: {was.get(place, 'absent')!r} → {now.get(place, 'absent')!r}"


def kind_of(place: str, was: dict[str, Any], now: dict[str, Any]) -> str:
    if place in was and place in now and repr(was[place]) == repr(now[place]):
        return ""
    if re.fullmatch(r"/errors/\d+/(loc|pointer)", place):
        return "pointers"
    if all(isinstance(one.get(place, " "), str) and " " in one.get(place, " ") for one in (was, now)):
        return "sentences"
    if place not in was or place not in now:
        return "fields"
    a, b = was[place], now[place]
    near = isinstance(a, float) and isinstance(b, float) and abs(a - b) <= NEAR * max(abs(a), abs(b)) + TINY
    return "last bits of values" if near else "values"


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{place}/{key}")
    else:
        yield place, float(value) if type(value) is int and abs(value) < 2**53 else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    recording.add_argument("--requests", type=int, default=20_000)
    recording.add_argument("--seconds", type=float, default=240.0)
    comparing = actions.add_parser("compare")
    comparing.add_argument("a", type=Path)
    comparing.add_argument("b", type=Path)
    comparing.add_argument("--examples", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.action == "compare":
        return compare(chosen.a, chosen.b, chosen.examples)
    return record(chosen.out, chosen.tree.resolve(), chosen.requests, chosen.seconds)


if __name__ == "__main__":
    sys.exit(main())
