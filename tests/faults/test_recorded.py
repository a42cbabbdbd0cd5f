"""SIGKILL to each part while decisions are recorded, outcomes sent, and a day is sealed: the report is the ledger."""

import random
import threading
import time
from collections import deque
from contextlib import ExitStack
from itertools import count, islice
from math import fsum
from zlib import crc32

import psycopg
import pytest

from tests.faults.life import model_of
from tests.jobs.waiting import eventually
from tests.servers.crowd import Caller, Crowd

pytestmark = pytest.mark.thorough

AWAY_SECONDS = 0.4
_DAY = 86_400
MATRIX = {
    "healthy": {"wait": 0.0, "treat": -1.25},
    "ill": {"wait": -10.5, "treat": 5.0},
}


class Ledger:
    """Decisions with ids of the client's, decided by `model`; each is sent again until it is acknowledged."""

    def __init__(self, model: str, *, seed: int = 0) -> None:
        self.model = model
        self.decided: dict[
            str, tuple[str, float]
        ] = {}  # the action, and the benefit that was expected of it
        self.truths: dict[str, str] = {}
        self.untold: deque[str] = deque()  # decisions whose outcomes wait to be sent
        self._numbers = count()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.telling = threading.Lock()  # held while outcomes are on their way

    def decide(self, caller: Caller, rows: int) -> None:
        """Decide for so many instances; some of the requests come twice."""
        with self._lock:
            ids = [
                f"{self.model} case {number}" for number in islice(self._numbers, rows)
            ]
            twice = self._chance.random() < 0.1
        rows_sent = [
            [round(30 + crc32(id_.encode()) % 500 / 10, 1), 70 + i % 7, "mild"]
            for i, id_ in enumerate(ids)
        ]
        sent = {"benefits": MATRIX} | {
            "model": f"{self.model}:1",
            "instances": rows_sent,
            "record": {"ids": ids},
        }
        for _ in range(1 + twice):
            answer = caller.insist("POST", "/predict", json=sent).json()
        assert answer["ids"] == ids
        with self._lock:
            for i, id_ in enumerate(ids):
                action = answer["actions"].index(answer["decisions"][i])
                self.decided[id_] = (
                    answer["decisions"][i],
                    answer["expected_benefits"][i][action],
                )
            self.untold += ids

    def tell(self, caller: Caller, most: int) -> None:
        """Send the outcomes of some decisions; some of them again with others."""
        with self._lock:
            ids = [self.untold.popleft() for _ in range(min(most, len(self.untold)))]
            told = self._chance.sample(sorted(self.truths), min(3, len(self.truths)))
            new = {id_: self._chance.choice(["healthy", "ill"]) for id_ in ids}
        if not ids:
            return
        outcomes = [{"id": id_, "truth": truth} for id_, truth in new.items()]
        outcomes += [{"id": id_, "truth": self.truths[id_]} for id_ in told]
        with self.telling:
            answer = caller.insist(
                "POST", "/outcomes", json={"outcomes": outcomes}
            ).json()
        assert answer["unknown"] == []
        assert answer["conflicts"] == []
        assert answer["accepted"] + answer["unchanged"] == len(outcomes)
        with self._lock:
            self.truths |= new

    def sums(self) -> dict[str, float]:
        """How many decisions and known outcomes there are, and what they were worth."""
        return {
            "decisions": len(self.decided),
            "known": len(self.truths),
            "expected": fsum(expected for _, expected in self.decided.values()),
            "realised": fsum(
                MATRIX[truth][self.decided[id_][0]]
                for id_, truth in self.truths.items()
            ),
        }


def reported(caller, model):
    """The same sums as the service reports them."""
    report = caller.insist("GET", f"/models/{model}/outcomes").json()
    sums = {
        "expected": report["expected"]["total"],
        "realised": report["realised"]["total"],
    }
    return {"decisions": report["decisions"], "known": report["known"], **sums}


def in_sql(system, *statements, **values):
    """Run statements in the database itself, in one transaction; the first value of the last one, if any."""
    with psycopg.connect(system.database.replace("+psycopg", "")) as connection:
        cursors = [connection.execute(each, values) for each in statements]
        return cursors[-1].fetchone()[0] if cursors[-1].description else None


def age(system, ledger, days):
    """Have the ledger's decisions of today been made so many days ago."""
    today = int(time.time() // _DAY)
    values = {
        "model": ledger.model,
        "days": days,
        "seconds": days * _DAY,
        "today": today,
        "began": today * _DAY,
    }
    with ledger.telling:
        in_sql(
            system,
            "UPDATE decisions SET at = at - %(seconds)s WHERE model = %(model)s AND at >= %(began)s",
            "UPDATE outcomes SET day = day - %(days)s WHERE model = %(model)s AND day >= %(today)s",
            **values,
        )


def sealed(system, model):
    """How many files have its decisions."""
    query = "SELECT count(*) FROM sealed_files WHERE model = %(model)s AND kind = 'decisions' AND is_current"
    return in_sql(system, query, model=model)


def test_what_was_acknowledged_is_stored_once(system):
    ledger = Ledger(model_of(system))
    with ExitStack() as stack, Crowd() as crowd:
        callers = [stack.enter_context(Caller(system.replicas)) for _ in range(3)]
        for deciding in callers[:2]:
            crowd.do(lambda caller=deciding: ledger.decide(caller, 20))
        crowd.do(lambda: ledger.tell(callers[2], 50))
        for program in (*system.replicas, system.postgres):
            down_and_up(program)
        age(system, ledger, days=3)
        for program in (
            system.worker,
            system.postgres,
            system.worker,
        ):  # which seals as soon as it is there
            down_and_up(program)
        down_and_up(system.to_store)
        system.heal()
    with Caller(system.replicas) as caller:
        while ledger.untold:
            ledger.tell(caller, 1_000)
        assert len(ledger.decided) > 200
        eventually(
            lambda: sealed(system, ledger.model) > 0, seconds=60
        )  # the worker has just started
        assert reported(caller, ledger.model) == pytest.approx(ledger.sums(), rel=1e-12)


def down_and_up(program):
    program.kill()
    time.sleep(AWAY_SECONDS)
    program.start()
    time.sleep(AWAY_SECONDS)
