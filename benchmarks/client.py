"""What the Python client adds to the service's own time: one decision, a frame, and a file in bounded memory.

    .venv/bin/python benchmarks/client.py [rows] [url]

Without a URL it starts a service. It prints medians; a frame is compared with the same numbers sent by httpx alone.

The smallest work: `.venv/bin/python benchmarks/client.py 100`
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
import numpy as np
from payoff_client import Payoff, deciding
from serving import server, uvicorn

sys.path.append(str(Path(sys.prefix) / "pandas"))  # where `make install` puts it
import pandas as pd

COLUMNS = [f"f{j}" for j in range(30)]
STAKES = {"benefits": {"a": {"act": -1, "wait": 0}, "b": {"act": 5, "wait": -10}}}
TURNS = 2000
ROUNDS = 3


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(rows, len(COLUMNS))), columns=COLUMNS)


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def single(client: Payoff, url: str) -> None:
    row = frame(1).to_dict("records")[0]
    model = client.model("speed")
    with httpx.Client(base_url=url) as raw:
        document = {"model": "speed", "instances": [row], **STAKES}

        def bare():
            return raw.post("/predict", json=document).json()

        for _ in range(200):
            bare()
            model.decide(row, **STAKES)
        both = [(timed(bare), timed(lambda: model.decide(row, **STAKES))) for _ in range(TURNS)]
    alone, ours = (1000 * median(each) for each in zip(*both, strict=True))
    more = 1000 * median(b - a for a, b in both)
    print(f"one decision: httpx {alone:.3f} ms, client {ours:.3f} ms, difference {more:.3f} ms")


def whole(client: Payoff, url: str, rows: int) -> None:
    """The service's own time is that of the same parts, sent as NumPy bodies that are ready beforehand."""
    data, model = frame(rows), client.model("speed")
    size = deciding.PART_BYTES // (8 * len(COLUMNS))
    ready = []
    for start in range(0, rows, size):
        sink = io.BytesIO()
        np.save(sink, np.ascontiguousarray(data.to_numpy()[start : start + size]))
        ready.append(sink.getvalue())
    params = {"model": "speed:1", "benefits": json.dumps(STAKES["benefits"])}
    headers = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
    with httpx.Client(base_url=url, timeout=60) as raw:

        def bare():
            for body in ready:
                raw.post("/predict", params=params, content=body, headers=headers).raise_for_status()

        bare()
        both = [(timed(bare), timed(lambda: model.decide(data, **STAKES))) for _ in range(ROUNDS)]
    alone, ours = (median(each) for each in zip(*both, strict=True))
    print(f"{rows:,} x 30: service {alone:.2f} s, client {ours:.2f} s, {ours / alone:.2f} times")


def file(url: str, rows: int) -> None:
    """In a process of its own, whose memory is then that of the client alone."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.csv"
        block = frame(20_000).to_csv(index=False, header=False)
        with source.open("w") as out:
            out.write(",".join(COLUMNS) + "\n")
            for _ in range(max(rows // 20_000, 1)):
                out.write(block)
        code = (
            "from payoff_client import Payoff; model = Payoff("
            f"{url!r}).model('speed'); model.decide_file({str(source)!r}, {folder + '/out.csv'!r}, **{STAKES!r});"
            "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
        )
        began = time.perf_counter()
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, size = time.perf_counter() - began, source.stat().st_size / 2**20
    print(f"a file of {size:,.0f} MB: {seconds:.1f} s, {int(found.stdout) // 1024} MB of memory")


def run(url: str, rows: int) -> None:
    with Payoff(url, progress=False) as client:
        names = {each["name"] for each in client.models()}
        if "speed" not in names:
            training = frame(1000, 1)
            training["label"] = np.where(training["f0"] + training["f1"] > 0, "a", "b")
            client.train(training, label="label", learner="logistic", name="speed")
        single(client, url)
        whole(client, url, rows)
        file(url, rows)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        run(sys.argv[2], rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        state = {"PAYOFF_HOME": f"{folder}/home", "PAYOFF_MODELS": f"{folder}/models"}
        with server(uvicorn("app.main:app"), state, "/health/ready") as payoff:
            run(f"http://127.0.0.1:{payoff.port}", rows)


if __name__ == "__main__":
    main()
