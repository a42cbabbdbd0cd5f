"""SIGKILL to each part while decisions are recorded, outcomes sent, and a day is sealed: the report is the ledger."""

import time
from contextlib import ExitStack

import pytest

from tests.faults.ledger import Ledger, age, reported, sealed
from tests.faults.life import model_of
from tests.jobs.waiting import eventually
from tests.servers.crowd import Caller, Crowd

pytestmark = pytest.mark.thorough

AWAY_SECONDS = 0.4


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
        for program in (system.worker, system.postgres, system.worker):  # which seals as soon as it is there
            down_and_up(program)
        down_and_up(system.to_store)
        system.heal()
    with Caller(system.replicas) as caller:
        while ledger.untold:
            ledger.tell(caller, 1_000)
        assert len(ledger.decided) > 200
        eventually(lambda: sealed(system, ledger.model) > 0, seconds=60)  # the worker has just started
        assert reported(caller, ledger.model) == pytest.approx(ledger.sums(), rel=1e-12)


def down_and_up(program):
    program.kill()
    time.sleep(AWAY_SECONDS)
    program.start()
    time.sleep(AWAY_SECONDS)
