"""`payoff serve --processes 2`: real processes at one port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psutil
import pytest

from tests.servers.program import free_port

_SECONDS = 240.0  # a start takes two, but on a new machine kernels are compiled first


class Served:
    """The supervisor, its processes, and requests over a new connection each."""

    def __init__(self, folder):
        self.port = free_port()
        new_connections = httpx.Limits(max_keepalive_connections=0)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, limits=new_connections)
        self.settings = {"PAYOFF_HOME": str(folder / "home"), "PAYOFF_MODELS": str(folder / "models")}
        self.settings |= {"PAYOFF_HANG_SECONDS": "12", "PAYOFF_SHUTDOWN_SECONDS": "2"}
        words = ["serve", "--port", str(self.port), "--processes", "2"]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", "app.cli", *words], env=os.environ | self.settings, stdout=log
            )

    def processes(self):
        """Those that answer."""
        return psutil.Process(self.supervisor.pid).children()

    def get(self, path):
        return self.client.get(path)

    def count(self, route):
        """Requests of a route that the metrics have."""
        found = re.search(rf'payoff_requests_total{{.*route="{route}".*}} (\d+)', self.get("/metrics").text)
        return int(float(found[1])) if found else 0


def waited_for(what, seconds=_SECONDS):
    """The first true value of `what`; the test fails after so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if found := what():
                return found
        except (httpx.TransportError, psutil.Error):
            pass
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def listeners(port):
    return {
        found.pid for found in psutil.net_connections("tcp") if found.laddr.port == port and found.status == "LISTEN"
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("several"))
    try:
        waited_for(lambda: len(listeners(served.port)) == 2 and served.get("/health/ready").status_code == 200)
        yield served
    finally:
        served.supervisor.kill()  # its processes end with it
        served.supervisor.wait()


@pytest.mark.thorough
def test_the_log_has_the_address_and_the_number_of_processes(served):
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    (line,) = [line for line in lines if line["event"] == "processes listen at one port"]
    assert (line["host"], line["port"], line["processes"]) == ("127.0.0.1", served.port, 2)


def test_two_processes_answer_and_either_reports_the_requests_of_both(served):
    """New connections reach both; the sums do not depend on which one is asked."""
    assert listeners(served.port) == {process.pid for process in served.processes()}
    ids = [served.get("/health/live").headers["X-Request-ID"] for _ in range(40)]
    assert len({name[:8] for name in ids}) == 2
    assert len(set(ids)) == 40
    assert [served.count("/health/live") for _ in range(6)] == [40] * 6
    text = served.get("/metrics").text
    assert "payoff_workers 1.0" in text
    resident = float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)[1])
    assert resident > 1.5 * min(process.memory_info().rss for process in served.processes())


@pytest.mark.thorough
def test_a_process_that_hangs_delays_the_others_for_a_bounded_time_and_is_replaced(served):
    """Requests for the metrics wait for it, also many of them, and probes do not. Its counts stay."""
    counted = served.count("/health/live")
    with ExitStack() as open_connections:
        found = {}  # connections by the process that has them; without TLS, made before the first ones are closed
        for _ in range(24):
            one = open_connections.enter_context(httpx.Client(base_url=served.client.base_url, timeout=2, verify=False))
            found.setdefault(one.get("/health/live").headers["X-Request-ID"][:8], []).append(one)
        hung = served.processes()[1]
        counted += len(found[min(found)]) + len(found[max(found)])
        assert served.count("/health/live") == counted
        hung.suspend()
        first, second, third, probe = next(those[-4:] for those in found.values() if answers(those[0]))
        with ThreadPoolExecutor(3) as pool:
            scraped = [pool.submit(one.get, "/metrics", timeout=20) for one in (first, second, third)]
            assert probe.get("/health/ready", timeout=20).status_code == 200
            assert not all(scrape.done() for scrape in scraped)
            assert {scrape.result().status_code for scrape in scraped} == {200}
    waited_for(lambda: len(listeners(served.port) - {hung.pid}) == 2 and not hung.is_running(), 60)
    assert served.count("/health/live") >= counted
    assert 'payoff_processes_replaced_total{reason="hung"} 1.0' in served.get("/metrics").text
    assert '"a process hangs, and is killed"' in served.log.read_text()


def answers(client):
    try:
        return client.get("/health/live").status_code == 200
    except httpx.TimeoutException:
        return False


def test_a_killed_process_is_replaced_and_its_counts_stay(served):
    """The other one answers meanwhile; the one with the worker is replaced by one with a worker."""
    before = {process.pid for process in served.processes()}
    counted = served.count("/health/live")
    assert counted >= 40
    for killed in sorted(before):
        os.kill(killed, signal.SIGKILL)
        waited_for(lambda killed=killed: len(listeners(served.port) - {killed}) == 2)
    waited_for(lambda: len(served.processes()) == 2)
    assert not {process.pid for process in served.processes()} & before
    assert served.count("/health/live") == counted
    waited_for(lambda: "payoff_worker_turn_age_seconds" in served.get("/metrics").text)


@pytest.mark.thorough
def test_sigterm_ends_all_processes(served):
    """And nothing listens any more."""
    children = psutil.Process(served.supervisor.pid).children(recursive=True)
    served.supervisor.terminate()
    assert served.supervisor.wait(_SECONDS) == 0
    waited_for(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    assert listeners(served.port) == set()
