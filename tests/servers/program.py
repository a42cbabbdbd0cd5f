"""A process on loopback that can be killed, frozen and started again in the same place."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

PROJECT = Path(__file__).resolve().parents[2]
_START_SECONDS = 120.0  # on a busy machine
_STOP_SECONDS = 30.0


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Whether somebody accepts connections at the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    under: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `payoff` with these arguments to its end."""
    command = [*under, sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(
        command,
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _bound_to_us() -> list[str]:
    """What a command is run under so that it ends when we are killed.

    The kernel looks at the thread that started it, so this is only for the one that stays to the end.
    """
    if (
        shutil.which("setpriv") is None
        or threading.current_thread() is not threading.main_thread()
    ):
        return []
    return ["setpriv", "--pdeathsig", "KILL", "--"]


class Program(ABC):
    """Started, killed, frozen and started again with the same port and the same data."""

    name = "program"
    module = ""  # of a Python program

    def __init__(self) -> None:
        self.wrapper: list[
            str
        ] = []  # what the interpreter runs under, such as `faketime +1h`
        self.folder = Path(tempfile.mkdtemp(prefix=f"payoff-{self.name}-"))
        self.process: subprocess.Popen[bytes] | None = None
        self.kills = 0  # counted before the blow, so that whoever loses a connection can tell why
        self.up = False  # from being ready to being killed

    def arguments(self) -> list[str]:
        """The words after the name of the module."""
        return []

    def command(self) -> list[str]:
        """The line that starts it."""
        return [*self.wrapper, sys.executable, "-m", self.module, *self.arguments()]

    def environment(self) -> Mapping[str, str]:
        """What it finds in its environment besides what is there."""
        return {}

    @abstractmethod
    def ready(self) -> bool:
        """Whether it does what it is there for."""

    def start(self, *, wait: bool = True) -> None:
        """Begin, and wait until it is ready unless told otherwise."""
        self.spawn()
        if wait:
            self.wait_ready()

    def spawn(self) -> None:
        """Begin only."""
        environment = os.environ | dict(self.environment())
        with self.log.open("ab") as log:
            command = [*_bound_to_us(), *self.command()]
            self.process = subprocess.Popen(
                command, env=environment, cwd=PROJECT, stdout=log, stderr=log
            )

    def wait_ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until it is ready; AssertionError with the end of its log where it ends or takes too long."""
        until = time.monotonic() + seconds
        while not self.ready():
            if not self.running or time.monotonic() > until:
                raise AssertionError(f"{self.name} did not become ready: {self.tail()}")
            time.sleep(0.05)
        self.up = True

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def tail(self, characters: int = 3000) -> str:
        """The end of what it wrote."""
        return (
            self.log.read_text(errors="replace")[-characters:]
            if self.log.exists()
            else ""
        )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def descendants(self) -> list[psutil.Process]:
        """What it started and what that started."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """SIGKILL, without warning; what it started has to notice by itself."""
        if self.running and self.process is not None:
            self.kills += 1
            self.up = False
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self) -> None:
        """Kill it and begin again in the same place."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP to it and all that it started: connections stay open, nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT to all that was paused."""
        self._signal_all(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(_STOP_SECONDS)

    def close(self) -> None:
        """End it and all that it started, and remove its folder."""
        started = self.descendants() if self.running else []
        self.kill()
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in (psutil.Process(self.pid), *self.descendants()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
