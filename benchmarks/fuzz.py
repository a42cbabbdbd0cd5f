"""50,000 requests of any kind, with keys and without: no 5xx, and no answer that tells of folders or stack traces.

A fifth is made by schemathesis from the OpenAPI document, the rest are valid requests with one value changed, or two
(see tests/servers/mutations.py), against `payoff serve` on PostgreSQL where it is installed. Stops after ten minutes at
the latest. Prints the account; exits with 1 where something was found. Run:
.venv/bin/python benchmarks/fuzz.py [requests] [seed]

With `mutations` as the first argument instead: such requests about a model of every kind to the application in this
process; tests/api/test_mutations.py is the short form.
Run: .venv/bin/python benchmarks/fuzz.py mutations [requests] [seed]

The smallest work: `.venv/bin/python benchmarks/fuzz.py 50`
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import httpx
import schemathesis

from tests.servers import mutation_run, postgres, zoo
from tests.servers.fuzzing import Sent, Wire, described, leaks, on_the_wire
from tests.servers.mutations import mutations
from tests.servers.postgres import Postgres
from tests.servers.service import Replica

MUTATIONS = sys.argv[1:2] == ["mutations"]
NUMBERS = [int(word) for word in sys.argv[1:] if word.isdigit()]
REQUESTS = NUMBERS[0] if NUMBERS else 200_000 if MUTATIONS else 50_000
SEED = NUMBERS[1] if len(NUMBERS) > 1 else 0
LONGEST_SECONDS = 600.0
THREADS = 4
ANIMALS = zoo.ANIMALS[:2]
REFURBISH = 500  # requests after which models that were deleted by chance are made again
KEY = "a key that nobody guesses"
SETTINGS = {"access_log": False, "job_seconds": 5, "log_level": "warning"}
FOLDERS = "FUZZ_FOLDERS"  # the variable in which schemathesis' process finds what must not be told


@schemathesis.check
def tells_nothing_of_the_machine(_context: object, response: schemathesis.Response, _case: object) -> None:
    told = leaks(response.content.decode("utf-8", "replace"), os.environ[FOLDERS].split(os.pathsep))
    assert not told, f"the answer holds {told}"


class Findings:
    """What was sent, what came back, and what must not have."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def add(self, sent: Sent, status: int, text: str, told: list[str]) -> None:
        with self._lock:
            self.statuses[status] += 1
            if status >= 500 or told:
                self.wrong.append(f"{status} {told} after {str(sent)[:1500]}: {text[-600:]}")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left running
    until = time.monotonic() + LONGEST_SECONDS
    findings = Findings()
    made = 0
    with ExitStack() as stack:
        for with_keys in (False, True):
            replica = started(stack, with_keys=with_keys)
            keys = {"X-API-Key": KEY} if with_keys else {}
            folders = [str(replica.folder), tempfile.gettempdir() + "/"]
            wait_for_kernels(replica, keys)
            before = served(replica, keys)
            schemathesis_runs(replica, keys, folders, findings, REQUESTS // 10)
            made += served(replica, keys) - before
            mutated_requests(replica, keys, folders, findings, REQUESTS * 4 // 10, until)
            if not replica.running:
                findings.wrong.append(f"the service ended: {replica.tail()}")
            findings.wrong += [f"logged: {line}" for line in traces(replica)]
    own = sum(findings.statuses.values())
    print(f"{made + own} requests: {made} by schemathesis, {own} of our own")
    print(
        "our own, by status:", ", ".join(f"{status or 'closed'} {n}" for status, n in sorted(findings.statuses.items()))
    )
    for line, count in Counter(findings.wrong).most_common(20):
        print(f"WRONG ({count}): {line}")
    print(f"{len(findings.wrong)} wrong")
    return 1 if findings.wrong or made + own < REQUESTS else 0


def mutated() -> int:
    """The account of mutated requests."""
    with tempfile.TemporaryDirectory() as folder:
        account = mutation_run.run(Path(folder), REQUESTS, SEED)
    print(f"{sum(account.statuses.values())} mutated requests:", *sorted(account.statuses.items()))
    print("\n".join(account.lines()))
    print(f"{len(account.wrong)} kinds of failure")
    return 1 if account.lines() else 0


def started(stack: ExitStack, *, with_keys: bool) -> Replica:
    settings: dict[str, object] = dict(SETTINGS)
    if postgres.installed():
        server = Postgres()
        stack.callback(server.close)
        server.start()
        settings["database"] = server.create_database()
    if with_keys:
        settings["admin_key"] = KEY
    replica = Replica(settings)
    stack.callback(replica.close)
    replica.start()
    return replica


def wait_for_kernels(replica: Replica, keys: dict[str, str]) -> None:
    """A new machine compiles for some minutes, and says so with 503."""
    document = replica.client.get("/openapi.json").json()
    train(replica, keys)
    refurbish(replica, keys, document)
    for example in described(document):
        if example.method == "POST" and not isinstance(example.body, bytes):
            sent = {"json": example.body, "params": example.query, "headers": {**keys, **example.headers}}
            while replica.client.post(example.path, **sent).status_code == 503:
                time.sleep(1)


def train(replica: Replica, keys: dict[str, str]) -> None:
    for animal in ANIMALS:
        order = animal.order()
        job = replica.client.post("/train", json=order, headers={**keys, "Prefer": "wait=60"}, timeout=90).json()
        assert job["status"] == "succeeded", job


def refurbish(replica: Replica, keys: dict[str, str], document: dict) -> None:
    """Make what the examples are about, where it is not there."""
    if any(replica.client.get(f"/models/{one.name}", headers=keys).status_code == 404 for one in ANIMALS):
        train(replica, keys)
    for example in described(document):
        if example.method == "POST" and example.path in ("/datasets", "/train"):
            headers = {**keys, **example.headers, "Prefer": "wait=10"}
            body = {"content": example.body} if isinstance(example.body, bytes) else {"json": example.body}
            replica.client.request("POST", example.path, params=example.query, headers=headers, **body)


def served(replica: Replica, keys: dict[str, str]) -> int:
    text = replica.client.get("/metrics", headers=keys).text
    return sum(int(float(n)) for n in re.findall(r"^payoff_requests_total\{[^}]*\} ([0-9.e+]+)$", text, re.MULTILINE))


def schemathesis_runs(
    replica: Replica, keys: dict[str, str], folders: list[str], findings: Findings, requests: int
) -> None:
    """Runs of schemathesis with growing seeds until there were enough requests."""
    before, seed = served(replica, keys), SEED
    headers = [word for name, value in keys.items() for word in ("--header", f"{name}: {value}")]
    while (made := served(replica, keys) - before) < requests and replica.running:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{replica.url}/openapi.json", *headers),
            *("--checks", "not_a_server_error,tells_nothing_of_the_machine", "--seed", str(seed), "--no-color"),
            *("--max-examples", str(max((requests - made) // 30, 20)), "--phases", "examples,coverage,fuzzing"),
            *("--exclude-path-regex", "/events$", "--request-timeout", "60", "--workers", "2"),
        ]
        environment = os.environ | {"SCHEMATHESIS_HOOKS": "benchmarks.fuzz", FOLDERS: os.pathsep.join(folders)}
        root = Path(__file__).parents[1]
        ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        seed += 1
        if ran.returncode:
            findings.wrong.append(f"schemathesis: {ran.stdout[-5000:]}{ran.stderr[-2000:]}")
            return


def mutated_requests(
    replica: Replica, keys: dict[str, str], folders: list[str], findings: Findings, requests: int, until: float
) -> None:
    """Mutated requests from several threads."""
    document = replica.client.get("/openapi.json").json()

    def send(number: int) -> None:
        chance, wire = random.Random(f"{SEED} {number} {bool(keys)}"), Wire(replica.port)
        stream = mutations(zoo.examples(document, ANIMALS), seed=chance.randrange(2**32))
        for count, mutated in enumerate(islice(stream, requests // THREADS)):
            if count % REFURBISH == 0 and number == 0:
                refurbish(replica, keys, document)
            if time.monotonic() > until:
                break
            sent = on_the_wire(mutated, chance)
            sent = Sent(sent.method, sent.path, sent.body, sent.query, {**keys, **sent.headers})
            status, text = wire.send(sent)
            findings.add(sent, status, text, leaks(text, folders))
        wire.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def traces(replica: Replica) -> list[str]:
    """Lines of the log that tell of an unexpected error, in a request or a job."""
    return [line[-1500:] for line in replica.log.read_text(errors="replace").splitlines() if "Traceback" in line][:5]


if __name__ == "__main__":
    try:
        sys.exit(mutated() if MUTATIONS else main())
    except httpx.HTTPError as error:
        sys.exit(f"the service does not answer: {error}")
