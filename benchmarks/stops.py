"""How often a service that is stopped (SIGSTOP, a frozen container) holds the write lock of SQLite.

Starts a service on loopback and stops it with its jobs at random moments, idle and while it trains; then a connection
of this script asks for the lock, which nobody can give back meanwhile.

Run: `.venv/bin/python benchmarks/stops.py [stops]`. The smallest work: `.venv/bin/python benchmarks/stops.py 2`
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conftest import two_class_rows
from tests.servers.service import Replica

STOPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
ORDER = {"model": "ward", "learner": {"kind": "random_forest", "n_estimators": 100}, "data": two_class_rows(2000)}
SETTLED_SECONDS = 0.02  # a signal reaches every thread meanwhile


def main() -> None:
    replica = Replica({"access_log": False})
    try:
        replica.start()
        print(share(replica, "idle"))
        print(share(replica, "training"))
    finally:
        replica.close()


def share(replica: Replica, doing: str) -> str:
    database = sqlite3.connect(replica.home / "payoff.db", timeout=0, isolation_level=None)
    draw, held = random.Random(0), 0
    for _ in range(STOPS):
        if doing == "training" and not running(database):
            replica.client.post("/train", json=ORDER).raise_for_status()
            while not running(database):
                time.sleep(0.05)
        time.sleep(draw.uniform(0.05, 0.25))
        replica.pause()
        time.sleep(SETTLED_SECONDS)
        held += is_locked(database)
        replica.resume()
    database.close()
    return f"{doing}: {held} of {STOPS} stops held the lock"


def running(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM jobs WHERE status = 'running'").fetchone() is not None


def is_locked(database: sqlite3.Connection) -> bool:
    try:
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return True
    database.execute("ROLLBACK")
    return False


if __name__ == "__main__":
    main()
