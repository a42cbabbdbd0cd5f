"""Processes of a supervisor: their restarts, their end, and their port."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest
from pydantic import ValidationError

from app.settings import Settings
from app.supervisor import PortUnusable, listener, reserved
from tests.servers.program import free_port

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

UNFORKABLE = """
import errno, os, signal, time
from app.supervisor import Supervisor

fork, pid, forks = os.fork, os.getpid(), []
told, tell = os.pipe()

def unreliable():
    forks.append(time.monotonic())
    if len(forks) in (2, 3):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()

def serve(number):
    os.write(1, b"start %d\\n" % number)
    if number:
        os.read(told, 1)  # 0 has started
        os.kill(pid, signal.SIGTERM)
    os.write(tell, b".")
    time.sleep(60)

os.fork = unreliable
Supervisor(serve, 2, 10.0).run()
assert forks[2] - forks[1] >= 0.5 and forks[3] - forks[2] >= 1.0, forks
"""

WAITING = """
import os, signal, sys, time
from app.supervisor import Supervisor

def serve(number):
    if sys.argv[1:] == ["stuck"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

Supervisor(serve, 2, 1.0).run()
"""

ORPHANS = """
import ctypes, os, time
from app.supervisor import Supervisor

def serve(number):
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        os.write(1, b"orphan %d\\n" % os.getpid())
    os._exit(0)

ctypes.CDLL(None).prctl(36, 1)  # the parent of orphans, as process 1 of a container is
Supervisor(serve, 1, 1.0).run()
"""

HANGING = """
import os, signal, sys, threading, time
from app.pulse import Pulse
from app.supervisor import Supervisor

pulse = Pulse(3)

def serve(number):
    os.write(1, b"%d %d\\n" % (number, os.getpid()))
    if number < 2:
        threading.Thread(target=beat, args=(number,)).start()
    time.sleep(60)  # 2 has not begun to answer

def beat(number):
    while True:
        pulse.beat(number)
        time.sleep(0.05)

def show(signum, frame):
    print(pulse.replaced, flush=True)

signal.signal(signal.SIGUSR1, show)
Supervisor(serve, 3, 1.0, pulse=pulse, silence=2.0).run()
"""

STARTING = """
import os, signal, sys, time
from app.supervisor import Supervisor

def serve(number):
    os.write(1, b"start\\n")
    time.sleep(60)

os.register_at_fork(after_in_child=lambda: time.sleep(0.3), after_in_parent=lambda: eval(sys.argv[1]))
Supervisor(serve, 4, 10.0).run()
"""


def test_a_process_that_cannot_start_is_tried_again_ever_more_rarely():
    """At 0, 0.5 and 2 seconds; each end has a line in the log."""
    run = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, check=True, timeout=60)
    starts = run.stdout.count("start\n")
    assert 4 <= starts <= 6
    assert run.stdout.count("a process ended, and is replaced") >= 4


def test_a_fork_that_fails_is_tried_again_while_the_other_processes_go_on():
    run = subprocess.run([sys.executable, "-c", UNFORKABLE], capture_output=True, text=True, check=True, timeout=60)
    assert [line for line in run.stdout.splitlines() if line.startswith("start")] == ["start 0", "start 1"]
    assert run.stdout.count("a process cannot be started") == 2
    assert "a process ended" not in run.stdout


@pytest.mark.parametrize("state", ["running", "stopped", "stuck"])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
@pytest.mark.thorough
def test_processes_end_with_their_supervisor(how, code, state):
    """Told to, or because it is gone: nothing is left that holds the port."""
    with subprocess.Popen([sys.executable, "-c", WAITING, state], stdout=subprocess.PIPE, text=True) as supervisor:
        pids = [int(supervisor.stdout.readline()) for _ in range(2)]
        if state == "stopped":
            psutil.Process(pids[0]).suspend()
        supervisor.send_signal(how)
        assert supervisor.wait(30) == code
        psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
        assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


@pytest.mark.thorough
def test_a_process_that_hangs_is_killed_and_replaced_and_others_are_not():
    """Not one that is suspended for less time, nor one that has not begun to answer, nor any because of a suspended
    supervisor.
    """
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True) as supervisor:
        pids = dict(map(int, supervisor.stdout.readline().split()) for _ in range(3))
        for pid, seconds in ((pids[1], 0.4), (supervisor.pid, 3)):
            psutil.Process(pid).suspend()
            time.sleep(seconds)
            psutil.Process(pid).resume()
        psutil.Process(pids[0]).suspend()
        lines = [supervisor.stdout.readline() for _ in range(3)]
        supervisor.send_signal(signal.SIGUSR1)
        counted = supervisor.stdout.readline()
        supervisor.terminate()
    hangs, ends, again = lines
    assert "a process hangs, and is killed" in hangs
    assert str(pids[0]) in hangs
    assert "a process ended, and is replaced" in ends
    assert again.startswith("0 ")
    assert counted == "{'ended': 0, 'hung': 1}\n"


@pytest.mark.thorough
def test_a_hung_process_is_replaced_and_all_end_although_nobody_reads_the_log():
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE) as supervisor:
        pids = dict(map(int, supervisor.stdout.readline().split()) for _ in range(3))
        with open(f"/proc/{supervisor.pid}/fd/1", "wb", buffering=0, opener=_without_waiting) as log:
            while log.write(b" " * 4096) is not None:
                pass
        hung = psutil.Process(pids[0])
        hung.suspend()
        assert psutil.wait_procs([hung], timeout=30)[0] == [hung]
        supervisor.terminate()
        assert supervisor.wait(30) == 0


def _without_waiting(path, flags):
    return os.open(path, flags | os.O_NONBLOCK)


def test_processes_that_others_left_behind_are_collected():
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True) as supervisor:
        line = next(line for line in supervisor.stdout if line.startswith("orphan "))
        until = time.monotonic() + 30
        while psutil.pid_exists(int(line.split()[1])):
            assert time.monotonic() < until
            time.sleep(0.05)
        supervisor.terminate()


@pytest.mark.parametrize("sent", ["os.kill(os.getpid(), signal.SIGTERM)", "os.killpg(0, signal.SIGINT)"])
def test_a_signal_that_comes_while_a_process_is_forked_ends_all(sent):
    """Also that process, which has the supervisor's handler at first; no other one is started."""
    run = subprocess.run(
        [sys.executable, "-c", STARTING, sent],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        start_new_session=True,
    )
    assert run.stdout == ""  # no start, and no process that had to be killed


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1", "::1"])
def test_an_address_or_a_name_is_listened_at(host):
    with reserved(host, 0) as port:
        assert port > 0


def test_a_name_without_an_address_is_refused():
    with pytest.raises(PortUnusable, match=r"cannot listen at none\.invalid:0"), reserved("none.invalid", 0):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
@pytest.mark.parametrize("sockets", ["none yet", "bound", "listening"])
def test_a_port_in_use_is_refused(sockets, host):
    """However far the first service has started: otherwise both would share it, and clients would reach either."""
    with ExitStack() as open_until_here:
        port = open_until_here.enter_context(reserved("127.0.0.1", 0))
        if sockets != "none yet":
            answering = open_until_here.enter_context(listener("127.0.0.1", port))
            if sockets == "listening":
                answering.listen()
        with pytest.raises(PortUnusable) as error, reserved(host, port):
            pass
    assert str(port) in str(error.value)


def test_only_one_of_several_gets_a_port_at_the_same_time():
    port, together = free_port(), threading.Barrier(4)

    def attempt(_number):
        together.wait()
        try:
            with reserved("127.0.0.1", port):
                together.wait()
                return True
        except PortUnusable:
            together.wait()
            return False

    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            assert sum(pool.map(attempt, range(4))) == 1


def test_the_port_of_a_service_that_has_ended_is_free_although_its_connections_are_not_closed():
    """A restart does not wait for them; a service in one process has not shared the port."""
    for shared in (True, False):
        with ExitStack() as connections:
            with listener("127.0.0.1", 0, shared=shared) as ended:
                ended.listen()
                connections.enter_context(socket.create_connection(ended.getsockname()))
                connections.enter_context(ended.accept()[0])
                port = ended.getsockname()[1]
            with reserved("127.0.0.1", port) as kept:
                assert kept == port


@pytest.mark.parametrize("wanted", ["0", "65", "many"])
def test_the_number_of_processes_is_checked(wanted, monkeypatch):
    monkeypatch.setenv("PAYOFF_PROCESSES", wanted)
    with pytest.raises(ValidationError, match="processes"):
        Settings()
