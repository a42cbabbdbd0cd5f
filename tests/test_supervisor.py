"""Processes of a supervisor: their restarts, their end, and their port."""

import signal
import subprocess
import sys

import psutil
import pytest
from pydantic import ValidationError

from app.settings import Settings
from app.supervisor import PortUnusable, listener, reserved

CRASHING = """
import os, signal, time
from app.supervisor import Supervisor

def serve(number):
    os.write(1, b"start\\n")
    os._exit(3)

pid = os.getpid()
if os.fork() == 0:
    time.sleep(2.2)
    os.kill(pid, signal.SIGTERM)
    os._exit(0)
Supervisor(serve, 2, 1.0).run()
"""

WAITING = """
import os, time
from app.supervisor import Supervisor

def serve(number):
    print(os.getpid(), flush=True)
    time.sleep(60)

Supervisor(serve, 2, 1.0).run()
"""


def test_a_process_that_cannot_start_is_tried_again_ever_more_rarely():
    """At 0, 0.5 and 2 seconds; each end has a line in the log."""
    run = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, check=True, timeout=60)
    starts = run.stdout.count("start\n")
    assert 4 <= starts <= 6
    assert run.stdout.count("a process ended, and is replaced") >= 4


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_processes_end_with_their_supervisor(how, code):
    """Told to, or because it is gone: nothing is left that holds the port."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as supervisor:
        pids = [int(supervisor.stdout.readline()) for _ in range(2)]
        supervisor.send_signal(how)
        assert supervisor.wait(30) == code
        psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
        assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def test_a_port_in_use_is_refused():
    """Also where both would share it: the kernel would let them, and clients would reach either."""
    with reserved("127.0.0.1", 0) as port, listener("127.0.0.1", port) as answering:
        answering.listen()
        with pytest.raises(PortUnusable) as error, reserved("127.0.0.1", port):
            pass
    assert str(port) in str(error.value)


@pytest.mark.parametrize("wanted", ["0", "65", "many"])
def test_the_number_of_processes_is_checked(wanted, monkeypatch):
    monkeypatch.setenv("PAYOFF_PROCESSES", wanted)
    with pytest.raises(ValidationError, match="processes"):
        Settings()
