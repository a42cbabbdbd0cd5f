"""What clients know of the decisions that they had recorded, to be compared with what the service says of them."""

from __future__ import annotations

import random
import threading
from collections import deque
from itertools import count, islice
from math import fsum
from time import time
from typing import Any
from zlib import crc32

from sqlalchemy import create_engine, text

from tests.servers.crowd import Caller
from tests.servers.system import System

MATRIX = {"healthy": {"wait": 0.0, "treat": -1.25}, "ill": {"wait": -10.5, "treat": 5.0}}
QUESTION = {"benefits": MATRIX}
_DAY = 86_400


class Ledger:
    """Decisions with ids of the client's, decided by `model`; each is sent again until it is acknowledged."""

    def __init__(self, model: str, *, seed: int = 0) -> None:
        self.model = model
        self.decided: dict[str, tuple[str, float]] = {}  # the action, and the benefit that was expected of it
        self.truths: dict[str, str] = {}
        self._untold: deque[str] = deque()
        self._numbers = count()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.telling = threading.Lock()  # held while outcomes are on their way

    def decide(self, caller: Caller, rows: int) -> None:
        """Decide for so many instances; some of the requests come twice."""
        with self._lock:
            ids = [f"{self.model} case {number}" for number in islice(self._numbers, rows)]
            twice = self._chance.random() < 0.1
        rows_sent = [[round(30 + crc32(id_.encode()) % 500 / 10, 1), 70 + i % 7, "mild"] for i, id_ in enumerate(ids)]
        sent = QUESTION | {"model": f"{self.model}:1", "instances": rows_sent, "record": {"ids": ids}}
        for _ in range(1 + twice):
            answer = caller.insist("POST", "/predict", json=sent).json()
        assert answer["ids"] == ids
        with self._lock:
            for i, id_ in enumerate(ids):
                action = answer["actions"].index(answer["decisions"][i])
                self.decided[id_] = (answer["decisions"][i], answer["expected_benefits"][i][action])
            self._untold += ids

    def tell(self, caller: Caller, most: int) -> None:
        """Send the outcomes of some decisions; some of them again with others."""
        with self._lock:
            ids = [self._untold.popleft() for _ in range(min(most, len(self._untold)))]
            told = self._chance.sample(sorted(self.truths), min(3, len(self.truths)))
            new = {id_: self._chance.choice(["healthy", "ill"]) for id_ in ids}
        if not ids:
            return
        outcomes = [{"id": id_, "truth": truth} for id_, truth in new.items()]
        outcomes += [{"id": id_, "truth": self.truths[id_]} for id_ in told]
        with self.telling:
            answer = caller.insist("POST", "/outcomes", json={"outcomes": outcomes}).json()
        assert answer["unknown"] == []
        assert answer["conflicts"] == []
        assert answer["accepted"] + answer["unchanged"] == len(outcomes)
        with self._lock:
            self.truths |= new

    @property
    def untold(self) -> int:
        """How many decisions wait for their outcomes to be sent."""
        return len(self._untold)

    def sums(self) -> dict[str, float]:
        """How many decisions and known outcomes there are, and what they were worth."""
        return {
            "decisions": len(self.decided),
            "known": len(self.truths),
            "expected": fsum(expected for _, expected in self.decided.values()),
            "realised": fsum(MATRIX[truth][self.decided[id_][0]] for id_, truth in self.truths.items()),
        }


def reported(caller: Caller, model: str) -> dict[str, float]:
    """The same sums as the service reports them."""
    report = caller.insist("GET", f"/models/{model}/outcomes").json()
    sums = {"expected": report["expected"]["total"], "realised": report["realised"]["total"]}
    return {"decisions": report["decisions"], "known": report["known"], **sums}


def sealed(system: System, model: str) -> int:
    """How many files have its decisions."""
    query = "SELECT count(*) FROM sealed_files WHERE model = :model AND kind = 'decisions' AND is_current"
    return sum(_asked(system, query, model))


def _asked(system: System, query: str, model: str) -> list[Any]:
    engine = create_engine(system.database)
    with engine.connect() as connection:
        found = list(connection.execute(text(query), {"model": model}).scalars())
    engine.dispose()
    return found


def age(system: System, ledger: Ledger, days: int) -> None:
    """Have the ledger's decisions of today been made so many days ago."""
    engine = create_engine(system.database)
    today = int(time() // _DAY)
    values = {"model": ledger.model, "days": days, "seconds": days * _DAY, "today": today, "began": today * _DAY}
    with ledger.telling, engine.begin() as connection:
        for change in (
            "UPDATE decisions SET at = at - :seconds WHERE model = :model AND at >= :began",
            "UPDATE outcomes SET day = day - :days WHERE model = :model AND day >= :today",
        ):
            connection.execute(text(change), values)
    engine.dispose()
