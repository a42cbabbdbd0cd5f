"""50,000 recorded decisions and outcomes while every part is killed in turn: the report equals the clients' ledger.

Starts PostgreSQL, an S3 server, two replicas and a worker, all on loopback. Clients record decisions under ids of their
own and of the service's, and send outcomes, some of them twice. Meanwhile replicas, worker and database are killed with
SIGKILL in turn and started again, and decisions are dated back, so that the worker seals them. Prints the account and
exits with 1 where it does not balance. Run: .venv/bin/python benchmarks/recorded_faults.py [decisions] [seed]

The smallest work: `.venv/bin/python benchmarks/recorded_faults.py 200`
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from itertools import cycle
from math import isclose

from tests.faults.ledger import Ledger, age, reported, sealed, stored_ids
from tests.faults.life import model_of
from tests.servers.crowd import Account, Caller, Crowd
from tests.servers.system import System

DECISIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
SETTINGS = {"lease_seconds": 2, "database_seconds": 2, "log_level": "warning", "access_log": False}
ROWS = 20  # of a request
UP_SECONDS = 1.5
DOWN_SECONDS = 0.5
LONGEST_SECONDS = 900.0


def main() -> int:
    began = time.monotonic()
    system = System(SETTINGS)
    try:
        system.heal()
        ours, theirs = Ledger(model_of(system), seed=SEED), Ledger(model_of(system), seed=SEED)
        accounts = {name: Account() for name in ("deciding", "telling")}
        blows = run(system, ours, theirs, accounts)
        system.heal()
        wrong = judge(system, ours, theirs)
    finally:
        system.close()
    for name, account in accounts.items():
        print(
            f"{name}: {account.answered} answered, {account.lost} lost with a replica, {len(account.failed)} refused,"
            f" longest pause {account.longest_pause:.1f} s"
        )
    print(f"{len(theirs.decided)} decisions, {len(theirs.truths)} outcomes, {blows} blows")
    print(f"took {time.monotonic() - began:.0f} s")
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def run(system: System, ours: Ledger, theirs: Ledger, accounts: dict[str, Account]) -> int:
    """Clients and blows until all decisions were made; twice on the way they are dated back. How many blows it took."""
    parts = cycle((*system.replicas, system.worker, system.postgres, system.worker, system.to_store))
    deciding = [Caller(system.replicas, accounts["deciding"]) for _ in range(3)]
    telling = Caller(system.replicas, accounts["telling"])
    single = Caller(system.replicas, Account())
    until = time.monotonic() + LONGEST_SECONDS
    blows, days = 0, 3
    with ExitStack() as stack, Crowd() as crowd:
        for caller in (*deciding, telling, single):
            stack.enter_context(caller)
        for caller in deciding:
            crowd.do(lambda caller=caller: decide(theirs, caller))
        crowd.do(lambda: theirs.tell(telling, 100))
        crowd.do(lambda: ours.decide_once(single), pause=0.05)
        while len(theirs.decided) < DECISIONS and time.monotonic() < until and not crowd.errors:
            part = next(parts)
            part.kill()
            time.sleep(DOWN_SECONDS)
            part.start()
            blows += 1
            time.sleep(UP_SECONDS)
            if len(theirs.decided) > (4 - days) * DECISIONS / 3:
                age(system, theirs, days)
                days -= 1
                print(f"  {blows} blows, {len(theirs.decided)} decisions", flush=True)
    return blows


def decide(ledger: Ledger, caller: Caller) -> None:
    if len(ledger.decided) < DECISIONS:
        ledger.decide(caller, ROWS)


def judge(system: System, ours: Ledger, theirs: Ledger) -> list[str]:
    """What is wrong, in sentences."""
    wrong = []
    if len(theirs.decided) < DECISIONS:
        wrong.append(f"only {len(theirs.decided)} decisions were made in time")
    with Caller(system.replicas) as caller:
        while theirs.untold:
            theirs.tell(caller, 5_000)
        expected, found = theirs.sums(), reported(caller, theirs.model)
    print(f"ledger {expected}\nreport {found}, {sealed(system, theirs.model)} files")
    wrong += [
        f"{name}: {found[name]} in the report, {value} in the ledger"
        for name, value in expected.items()
        if not isclose(found[name], value, rel_tol=1e-12)
    ]
    stored = stored_ids(system, ours.model)
    print(f"{len(ours.answered)} acknowledged under the service's ids, {len(stored)} stored")
    if len(stored) != len(set(stored)) or not ours.answered <= set(stored):
        wrong.append("decisions under the service's ids are lost or doubled")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
