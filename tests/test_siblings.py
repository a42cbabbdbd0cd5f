"""Metrics of several processes as one."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from app import siblings
from app.siblings import Siblings, shared_folder

KILLED = """
import os, sys
from app.siblings import shared_folder

folder = shared_folder()
name = folder.__enter__()
if os.fork() == 0:
    print(name, flush=True)
sys.stdin.read()
os._exit(0)
"""


def process(folder, number, numbers):
    """A process with so many requests, models, and such an age."""
    registry = CollectorRegistry()
    requests, cached, age = numbers
    Counter("payoff_requests", "Requests", ("route",), registry=registry).labels("/predict").inc(requests)
    Gauge("payoff_models_cached", "Models", registry=registry).set(cached)
    Gauge("payoff_registry_age_seconds", "Age", registry=registry).set(age)
    seconds = Histogram("payoff_request_seconds", "Time", buckets=(1, 2), registry=registry)
    for _ in range(requests):
        seconds.observe(1.5)
    found = Siblings(folder, number)
    found.start(registry)
    return found


def test_counts_are_added_and_gauges_follow_their_meaning(tmp_path):
    one, other = process(tmp_path, 0, (3, 2, 0.5)), process(tmp_path, 1, (4, 5, 0.25))
    for asked in (one, other):
        lines = asked.report().decode().splitlines()
        assert 'payoff_requests_total{route="/predict"} 7.0' in lines
        assert 'payoff_request_seconds_bucket{le="2.0"} 7.0' in lines
        assert "payoff_request_seconds_sum 10.5" in lines
        assert "payoff_models_cached 7.0" in lines
        assert "payoff_registry_age_seconds 0.5" in lines


def test_the_counts_of_an_ended_process_stay_and_its_gauges_do_not(tmp_path):
    """Otherwise a sum would fall, which Prometheus takes for a restart of the whole service."""
    one, other = process(tmp_path, 0, (3, 2, 0.5)), process(tmp_path, 1, (4, 5, 0.25))
    one.report()
    other.stop()
    lines = one.report().decode().splitlines()
    assert 'payoff_requests_total{route="/predict"} 7.0' in lines
    assert "payoff_models_cached 2.0" in lines


def test_many_ended_processes_are_counted_and_leave_no_files(tmp_path):
    """Each process adds the counts of the one before it in its place: also of one that was never asked."""
    one = process(tmp_path, 0, (3, 2, 0.5))
    for ended in range(10):
        other = process(tmp_path, 1, (4, 5, 0.25))
        assert f'payoff_requests_total{{route="/predict"}} {3.0 + 4 * (ended + 1)}' in one.report().decode()
        process(tmp_path, 1, (0, 5, 0.25))
    lines = other.report().decode().splitlines()
    assert 'payoff_requests_total{route="/predict"} 43.0' in lines
    assert "payoff_request_seconds_count 43.0" in lines
    assert "payoff_models_cached 7.0" in lines
    assert len(list(tmp_path.iterdir())) == 4


def test_a_process_that_was_killed_before_it_was_asked_is_left_out(tmp_path):
    one = process(tmp_path, 0, (3, 2, 0.5))
    (tmp_path / "9.socket").touch()  # nobody listens
    assert "payoff_models_cached 2.0" in one.report().decode()
    assert "payoff_models_cached 7.0" in process(tmp_path, 9, (4, 5, 0.25)).report().decode()


@pytest.mark.parametrize("how", ["does not accept", "cannot take more", "sends nothing", "stops", "ends", "drips"])
@pytest.mark.thorough
def test_processes_that_hang_delay_the_report_once_and_count_with_their_last_one(how, tmp_path, monkeypatch):
    """Wherever they hang; what has arrived of an answer that was cut off is not counted."""
    one, other = process(tmp_path, 0, (3, 2, 0.5)), process(tmp_path, 1, (4, 5, 0.25))
    with ExitStack() as sockets:
        for number in range(2, 8):
            process(tmp_path, number, (4, 5, 0.25)).report()
        monkeypatch.setattr(siblings, "_TIMEOUT", 0.5)
        for number in range(2, 8):
            hang(how, tmp_path / f"{number}.socket", sockets)
        began = monotonic()
        lines = one.report().decode().splitlines()
        assert monotonic() - began < 2.5  # not the three seconds of one after the other
        assert 'payoff_requests_total{route="/predict"} 31.0' in lines
        assert "payoff_models_cached 7.0" in lines
        assert "payoff_models_cached 7.0" in other.report().decode()


def hang(how, address, sockets):
    """Put in place of a process one that hangs."""
    address.unlink()
    listener = sockets.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(address))
    listener.listen(0 if how == "cannot take more" else 8)
    if how == "cannot take more":
        sockets.enter_context(socket.socket(socket.AF_UNIX)).connect(str(address))
    elif how != "does not accept":
        threading.Thread(target=answer_badly, args=(how, listener, sockets), daemon=True).start()


def answer_badly(how, listener, sockets):
    caller = sockets.enter_context(listener.accept()[0])
    if how != "sends nothing":
        caller.sendall(b'payoff_requests_total{route="/predict"} 100.0\n')
    if how == "ends":
        caller.close()
    while how == "drips":
        try:
            caller.sendall(b"# \n")
        except OSError:
            return
        sleep(0.1)


def test_a_process_that_asks_and_hangs_delays_no_other(tmp_path):
    """It reads nothing of an answer that is too long for the buffers, or has ended when its turn comes."""
    one, other = process(tmp_path, 0, (3, 2, 0.5)), process(tmp_path, 1, (4, 5, 0.25))
    Gauge("payoff_long", "x" * 2**20, registry=other._registry)
    with ExitStack() as sockets:
        for hung in (True, True, False, False, True):
            asking = sockets.enter_context(socket.socket(socket.AF_UNIX))
            asking.connect(str(tmp_path / "1.socket"))
            if not hung:
                asking.close()
        assert "payoff_models_cached 7.0" in one.report().decode()


def test_only_folders_that_killed_services_left_are_removed(tmp_path, monkeypatch):
    """Not that of one that is running, or of one that has just made it, or has processes left; nor what is none."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as service:
        left = Path(service.stdout.readline().strip())
        (left / "0.text").write_text("")
        new, foreign = (tmp_path / f"payoff-{name}" for name in ("processes-new", "dask-1"))
        new.mkdir()
        foreign.mkdir()
        (tmp_path / "payoff-processes-link").symlink_to(foreign)
        with shared_folder() as running:
            for folder in (left, foreign, running):
                os.utime(folder, (0, 0))
            service.kill()
            with shared_folder() as other:
                assert {left, new, foreign, running, other} <= set(tmp_path.iterdir())
            service.stdin.close()  # its process ends
            service.stdout.read()
            with shared_folder() as other:
                assert not left.exists()
                assert {new, foreign, running, other} <= set(tmp_path.iterdir())
    assert {new, foreign} == {path for path in tmp_path.iterdir() if not path.is_symlink()}


def test_it_is_stated_for_every_gauge_how_those_of_two_processes_become_one(service):
    families = text_string_to_metric_families(service.get("/metrics").text)
    gauges = {family.name for family in families if family.name.startswith("payoff_") and family.type == "gauge"}

    assert len(gauges) > 5
    assert gauges <= siblings._ONE.keys()
