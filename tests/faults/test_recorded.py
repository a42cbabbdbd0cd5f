"""SIGKILL to each part while decisions are recorded, outcomes sent, and a day is sealed: the report is the ledger."""

import time
from contextlib import ExitStack

import pytest

from tests.faults.ledger import Ledger, age, reported, sealed, stored_ids
from tests.faults.life import model_of
from tests.jobs.waiting import eventually
from tests.servers.crowd import Caller, Crowd

pytestmark = pytest.mark.thorough

AWAY_SECONDS = 0.4


def test_what_was_acknowledged_is_stored_once(system):
    ours, theirs = Ledger(model_of(system)), Ledger(model_of(system))  # with ids of the service's, and of the clients'
    with ExitStack() as stack, Crowd() as crowd:
        callers = [stack.enter_context(Caller(system.replicas)) for _ in range(4)]
        for deciding in callers[:2]:
            crowd.do(lambda caller=deciding: theirs.decide(caller, 20))
        crowd.do(lambda: theirs.tell(callers[2], 50))
        crowd.do(lambda: ours.decide_once(callers[3]))
        for program in (*system.replicas, system.postgres):
            down_and_up(program)
        age(system, theirs, days=3)
        for program in (system.worker, system.postgres, system.worker):  # which seals as soon as it is there
            down_and_up(program)
        down_and_up(system.to_store)
        system.heal()
    with Caller(system.replicas) as caller:
        while theirs.untold:
            theirs.tell(caller, 1_000)
        assert len(theirs.decided) > 200
        assert len(ours.answered) > 20
        eventually(lambda: sealed(system, theirs.model) > 0, seconds=60)  # the worker has just started
        assert reported(caller, theirs.model) == pytest.approx(theirs.sums(), rel=1e-12)
    stored = stored_ids(system, ours.model)
    assert len(stored) == len(set(stored))
    assert ours.answered <= set(stored)


def down_and_up(program):
    program.kill()
    time.sleep(AWAY_SECONDS)
    program.start()
    time.sleep(AWAY_SECONDS)
