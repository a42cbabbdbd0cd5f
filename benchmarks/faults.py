"""500 jobs through two replicas while every part is killed at least twice: nothing lost, nothing twice, always answers.

Starts PostgreSQL, an S3 server, a Dask scheduler with two workers, two replicas and a worker, all on loopback. Clients
submit jobs, cancel some, move aliases and predict; meanwhile the parts are killed with SIGKILL in random order, spread
over the time that the jobs take, and started again. Prints the account and exits with 1 where it does not balance.
Run: .venv/bin/python benchmarks/faults.py [jobs] [seed]

The smallest work: `.venv/bin/python benchmarks/faults.py 40`
"""

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import psutil
import psycopg

from tests.servers.crowd import Account, Caller, Crowd
from tests.servers.program import Program
from tests.servers.proxy import Proxy
from tests.servers.system import System

JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
MODELS = 5
LEARNERS = (
    {"kind": "logistic"},
    {"kind": "cost_naive_bayes"},
    {"kind": "random_forest", "n_estimators": 16},
)
MAX_WAITING = 50  # so that orders come in all the time
ROUNDS = 3  # in each of which every part is struck once
DOWN_SECONDS = 1.0  # how long a part stays away
LONGEST_SECONDS = 900.0
SETTINGS = {
    "lease_seconds": 3,
    "job_attempts": 30,
    "log_level": "warning",
    "access_log": False,
}
ENDED = {"succeeded", "failed", "cancelled"}


@dataclass
class Record:
    jobs: dict[int, str] = field(default_factory=dict)
    ended: int = 0
    cancelled: set[str] = field(default_factory=set)
    submitting: Account = field(default_factory=Account)
    predicting: Account = field(default_factory=Account)
    managing: Account = field(default_factory=Account)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left running
    began = time.monotonic()
    system = System(SETTINGS)
    try:
        system.heal()
        record = Record()
        first = Caller(system.replicas, record.submitting)
        for name in range(
            MODELS
        ):  # something to predict with, from the first moment on
            key = {
                "Idempotency-Key": f"first {name}"
            }  # where the caller's own patience ends before the wait does
            job = first.insist(
                "POST",
                "/train",
                json=order(name, -1 - name),
                headers=key | {"Prefer": "wait=60"},
            ).json()
            assert job["status"] == "succeeded", job
            target = {"version": job["model"]["version"]}
            first.insist("PUT", f"/models/m{name}/aliases/live", json=target)
        print(f"everything runs after {time.monotonic() - began:.0f} s")
        killed = run(system, record)
        system.heal()
        print(
            f"{sum(killed.values())} blows: {', '.join(f'{part} {n}' for part, n in sorted(killed.items()))}"
        )
        jobs = settle(Caller(system.replicas, record.managing), record)
        wrong = judge(system, record, jobs, killed)
    finally:
        system.close()
    print(f"took {time.monotonic() - began:.0f} s")
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def order(model: int, number: int) -> dict:
    rng = np.random.default_rng(number % 2**32)
    X = rng.normal(size=(120, 4)).round(3)
    y = np.where(X[:, 0] + rng.normal(size=120) > 0, "yes", "no")
    data = {"features": list("abcd"), "rows": X.tolist(), "labels": y.tolist()}
    return {
        "model": f"m{model}",
        "learner": LEARNERS[number % len(LEARNERS)],
        "data": data,
    } | ({"benefits": [[0, -1], [-10, 5]]} if number % len(LEARNERS) == 1 else {})


def run(system: System, record: Record) -> Counter[str]:
    """Clients and blows, until all jobs were submitted and have ended, and every part was killed twice."""
    done = threading.Event()
    numbers = iter(range(JOBS))
    lock = threading.Lock()
    with Crowd() as crowd:
        for _ in range(2):
            submitting = Caller(system.replicas, record.submitting)
            crowd.do(
                lambda caller=submitting: submit(caller, record, numbers, lock),
                pause=0.05,
            )
        for _ in range(3):
            predicting = Caller(system.replicas, record.predicting)
            crowd.do(lambda caller=predicting: predict(caller), pause=0.02)
        managing = Caller(system.replicas, record.managing)
        crowd.do(lambda: manage(managing), pause=0.5)
        watching = Caller(system.replicas, Account())
        crowd.do(lambda: watch(watching, record, done), pause=1.0)
        return strike(system, record, done)


def submit(
    caller: Caller, record: Record, numbers: object, lock: threading.Lock
) -> None:
    if len(record.jobs) - record.ended > MAX_WAITING:
        return
    with lock:
        number = next(numbers, None)
    if number is None:
        return
    key = {"Idempotency-Key": f"number {number}"}
    response = caller.insist(
        "POST", "/train", json=order(number % MODELS, number), headers=key
    )
    record.jobs[number] = response.json()["id"]
    if number % 25 == 24:
        caller.ask("DELETE", f"/train/{record.jobs[number]}")
        record.cancelled.add(record.jobs[number])


def predict(caller: Caller) -> None:
    name = f"m{random.randrange(MODELS)}{random.choice(('', '@live'))}"
    caller.ask(
        "POST",
        "/predict",
        json={
            "model": name,
            "instances": [[0.1, 0.2, None, 0.4]],
            "rule": "most_probable",
        },
    )


def manage(caller: Caller) -> None:
    """Point an alias at the newest version or an older one."""
    name = f"m{random.randrange(MODELS)}"
    listed = caller.ask("GET", f"/models/{name}")
    if listed is not None:
        version = random.choice(listed.json()["versions"][:3])["version"]
        caller.ask("PUT", f"/models/{name}/aliases/live", json={"version": version})


def watch(caller: Caller, record: Record, done: threading.Event) -> None:
    pages = [
        caller.ask("GET", "/train", params={"status": status, "page_size": 1})
        for status in ("queued", "running")
    ]
    nothing = all(page is not None and not page.json()["jobs"] for page in pages)
    if len(record.jobs) == JOBS and nothing:
        done.set()


def strike(system: System, record: Record, done: threading.Event) -> Counter[str]:
    """Kill part after part, each in turn in random order, a blow whenever so many more jobs have ended.

    What finds nothing to hit, such as no job that runs, is tried again in the next round; so there may be more rounds.
    """
    chance = random.Random(SEED)
    parts = blows(system)
    killed: Counter[str] = Counter()
    until = time.monotonic() + LONGEST_SECONDS
    struck = 0
    while (
        not done.is_set() or min(killed[part] for part in parts) < 2
    ) and time.monotonic() < until:
        for part in chance.sample(sorted(parts), len(parts)):
            struck += 1
            while (
                record.ended < min(struck * JOBS / (ROUNDS * len(parts)), JOBS)
                and time.monotonic() < until
            ):
                system.revive()
                record.ended = max(record.ended, ended(system))
                if done.wait(0.2):
                    break
            killed[part] += parts[part]()
        print(
            f"  {sum(killed.values())} blows, {record.ended} of {JOBS} jobs ended",
            flush=True,
        )
    return killed


def ended(system: System) -> int:
    """How many jobs have ended, as the database itself says; 0 while it is down."""
    try:
        with psycopg.connect(
            system.database.replace("+psycopg", ""), connect_timeout=2
        ) as connection:
            row = connection.execute(
                "SELECT count(*) FROM jobs WHERE status NOT IN ('queued', 'running')"
            ).fetchone()
    except psycopg.OperationalError:
        return 0
    return 0 if row is None else int(row[0]) - MODELS


def blows(system: System) -> dict[str, Callable[[], bool]]:
    """By name, what strikes a part and has it start again; whether it hit."""
    hosts = (*system.replicas, system.worker)
    programs = {
        "replica 1": system.replicas[0],
        "replica 2": system.replicas[1],
        "worker": system.worker,
        "database": system.postgres,
        "scheduler": system.scheduler,
        "Dask worker 1": system.dask_workers[0],
        "Dask worker 2": system.dask_workers[1],
        "way to the store": system.to_store,
    }
    found: dict[str, Callable[[], bool]] = {
        name: lambda program=program: down_and_up(program)
        for name, program in programs.items()
    }
    found["job"] = lambda: kill_one([job for host in hosts for job in host.jobs()])
    found["fork server"] = lambda: kill_one(
        [server for host in hosts for server in host.fork_servers()]
    )
    return found


def down_and_up(part: Program | Proxy) -> bool:
    hit = part.running
    part.kill()
    time.sleep(DOWN_SECONDS)
    part.start()
    return hit


def kill_one(processes: list[psutil.Process]) -> bool:
    try:
        random.choice(processes).kill()
    except (IndexError, psutil.NoSuchProcess):
        return False
    return True


def settle(caller: Caller, record: Record) -> list[dict]:
    """All jobs, once they have ended."""
    jobs = []
    for job_id in record.jobs.values():
        document: dict = {"status": ""}
        while document["status"] not in ENDED:
            document = caller.insist(
                "GET", f"/train/{job_id}", headers={"Prefer": "wait=30"}
            ).json()
        jobs.append(document)
    return jobs


def judge(
    system: System, record: Record, jobs: list[dict], killed: Counter[str]
) -> list[str]:
    """Print the account; returns what is wrong with it."""
    caller = Caller(system.replicas, Account())
    ended = Counter(job["status"] for job in jobs)
    failed = [job for job in jobs if job["status"] == "failed"]
    stray = [
        job["id"]
        for job in jobs
        if job["status"] == "cancelled" and job["id"] not in record.cancelled
    ]
    made = Counter(
        (job["model"]["name"], job["model"]["version"])
        for job in jobs
        if job["status"] == "succeeded"
    )
    listed, dangling, unanswered = 0, [], []
    for name in (f"m{number}" for number in range(MODELS)):
        page = caller.insist("GET", f"/models/{name}").json()
        versions = {line["version"] for line in page["versions"]}
        listed += len(versions) - 1  # without the first, which was there before
        dangling += [
            f"{name}@{alias}"
            for alias, version in page["aliases"].items()
            if version not in versions
        ]
        question = {"instances": [[0.1, 0.2, None, 0.4]], "rule": "most_probable"}
        asked = [f"{name}@{alias}" for alias in page["aliases"]] + [
            f"{name}:{version}" for version in versions
        ]
        unanswered += [
            ref
            for ref in asked
            if caller.ask("POST", "/predict", json={"model": ref, **question}) is None
        ]
        made.update({(name, version): 0 for version in versions})
    predicted = record.predicting
    rows = {
        "jobs accepted": len(set(record.jobs.values())),
        "jobs ended": ", ".join(
            f"{status} {count}" for status, count in sorted(ended.items())
        ),
        "versions listed": listed,
        "predictions answered": predicted.answered,
        "connections lost with a killed replica": predicted.lost,
        "predictions failed otherwise": f"{len(predicted.failed)} ({predicted.share_failed:.4%})",
        "other requests refused, and repeated": len(record.submitting.failed)
        + len(record.managing.failed),
    }
    for what, figure in rows.items():
        print(f"{what:<42}{figure}")
    for line, count in Counter(
        record.submitting.failed + record.managing.failed + predicted.failed
    ).most_common(12):
        print(f"  {count} x {line}")
    checks = {
        f"{JOBS - len(jobs)} jobs are not accounted for": len(set(record.jobs.values()))
        != JOBS
        or len(jobs) != JOBS,
        f"failed: {[job['error'] for job in failed[:3]]}": bool(failed),
        f"cancelled by nobody: {stray[:3]}": bool(stray),
        "a version was published twice": any(count > 1 for count in made.values()),
        "versions and succeeded jobs differ": listed != ended["succeeded"],
        f"aliases without a version: {dangling[:3]}": bool(dangling),
        f"versions that do not answer: {unanswered[:3]}": bool(unanswered),
        "0.1 % of the predictions failed": predicted.share_failed >= 0.001,
        f"not every part was killed twice: {killed}": min(killed.values()) < 2,
        "a request ended in a server error": any(
            ": 500 " in line for line in record.submitting.failed
        ),
    }
    return [what for what, wrong in checks.items() if wrong]


if __name__ == "__main__":
    sys.exit(main())
