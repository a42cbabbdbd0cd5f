"""Python programs as processes that are forked instead of started, see `template.py`."""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PROJECT = Path(__file__).resolve().parents[2]
_SHARED = "TEMPLATE_OF_TESTS"  # the variable that names the template's owner and its socket


class ForkedProcess:
    """`python -m module` with these arguments; pid, exit code and signals as of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdout: IO[bytes],
        stderr: IO[bytes],
        without_rights: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._module = module
        self._changing = threading.Lock()
        self._status, theirs = socket.socketpair()
        request = {
            "module": module,
            "arguments": list(arguments),
            "environment": dict(env),
            "directory": str(cwd),
            "without_rights": without_rights,
        }
        with theirs:
            files = [stdout.fileno(), stderr.fileno(), theirs.fileno()]
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as template:
                template.connect(_template())
                socket.send_fds(template, [json.dumps(request).encode()], files)
        self._lines = self._status.makefile("rb", buffering=0)
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the process has ended; TimeoutExpired where that takes longer than `timeout` seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._module, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        with self._changing:
            if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
                self.returncode = int(self._lines.readline())
                self._lines.close()
                self._status.close()
            return self.returncode


def run(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float = 120, without_rights: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `payoff` with these arguments to its end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = ForkedProcess(
            "app.cli", arguments, env=env, cwd=cwd, stdout=output, stderr=errors, without_rights=without_rights
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        written = []
        for file in (output, errors):
            file.seek(0)
            written.append(file.read().decode())
    return subprocess.CompletedProcess(["payoff", *arguments], code, *written)


def share_template() -> None:
    """Have this process and all that it starts use one template; it starts with the first request."""
    folder = tempfile.mkdtemp(prefix="payoff-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_SHARED] = f"{os.getpid()} {folder}/socket"


@functools.cache
def _template() -> str:
    """The socket of the template, which listens; whoever is the first to ask starts it."""
    if _SHARED not in os.environ:
        share_template()
    owner, place = os.environ[_SHARED].split(" ", 1)
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not Path(place).exists():
            command = [sys.executable, "-m", "tests.servers.template", place, owner]
            subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return place
