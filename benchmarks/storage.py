"""Publishing, loading and listing models on a disk and in a bucket: seconds, the best of some runs.

The bucket is moto's, in a process on this machine: its figures are mostly moto's own time, and show that nothing is
asked for twice. Beside them what the same bytes take without us: one file written, and read.

    .venv/bin/python benchmarks/storage.py [largest megabytes]

The smallest work: `.venv/bin/python benchmarks/storage.py 1`
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np

from app.database import Database
from app.migrations import migrate
from app.registry.card import Card
from app.registry.files import Files
from app.registry.index import Index
from app.registry.loaded import Cache
from app.registry.registry import Registry

SIZES = (1, 100)
VERSIONS = 20


def best(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def card(name: str) -> Card:
    return Card.model_validate(
        {
            "name": name,
            "version": 1,
            "learner": {"kind": "logistic"},
            "features": [{"name": "a", "type": "numeric"}],
            "labels": ["y"],
            "classes": [0, 1],
            "data": {"digest": "00", "rows": 1},
        }
    )


def opened(url: str, file: Path) -> tuple[Database, Registry]:
    """A registry that keeps nothing in memory but the latest model."""
    database = Database(f"sqlite:///{file}")
    migrate(database)
    return database, Registry(Index(database), Files(url), Cache(1))


def publish(database: Database, registry: Registry, name: str, estimator: object) -> None:
    staged = registry.stage(card(name), estimator)
    with database.writing() as connection:
        registry.index.add(connection, staged)


def measure(url: str, folder: Path, largest: int) -> list[tuple[str, float]]:
    database, registry = opened(url, folder / "index.db")
    found = []
    for size in filter(lambda size: size <= largest, SIZES):
        runs = 5 if size < 10 else 2
        estimator = np.frombuffer(os.urandom(size * 2**20), dtype=np.uint8)
        found.append((f"publish {size} MB", best(lambda: publish(database, registry, f"m{size}", estimator), runs)))  # noqa: B023
        publish(database, registry, "other", 0)

        def load() -> None:
            registry.load("other")
            registry.load(f"m{size}")  # noqa: B023 - run at once

        found.append((f"load {size} MB", best(load, runs)))
    for _ in range(VERSIONS):
        publish(database, registry, "many", 0)
    found.append(("list", best(lambda: registry.index.models("", 100), 5)))
    new, rebuilt = opened(url, folder / "new.db")
    found.append((f"rebuild {VERSIONS + 10} versions", best(rebuilt.rebuild, 1)))
    for each in (database, new):
        each.close()
    return found


def plain(url: str, largest: int) -> list[tuple[str, float]]:
    """The same bytes without a registry: one file written, and read."""
    files, root = fsspec.core.url_to_fs(url)
    found = []
    for size in filter(lambda size: size <= largest, SIZES):
        content, path = os.urandom(size * 2**20), f"{root}/plain{size}"
        found.append((f"write {size} MB alone", best(lambda: files.pipe_file(path, content), 2)))  # noqa: B023
        found.append((f"read {size} MB alone", best(lambda: files.cat_file(path), 2)))  # noqa: B023
    return found


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else max(SIZES)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        fsspec.filesystem("s3").mkdir("bench")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("disk", "bucket"):
                place = Path(folder, name)
                place.mkdir()
                url = str(place / "models") if name == "disk" else "s3://bench/models"
                for what, seconds in [*measure(url, place, largest), *plain(url, largest)]:
                    print(f"{name:7} {what:22} {seconds * 1000:9.1f} ms")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
