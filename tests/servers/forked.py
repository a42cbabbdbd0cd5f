"""Commands of `payoff` as processes that are forked instead of started, see `template.py`."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
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


class ForkedProcess:
    """`payoff` with these arguments; pid, exit code and signals as of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdout: IO[bytes],
        stderr: IO[bytes],
        without_rights: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._changing = threading.Lock()
        self._status, theirs = socket.socketpair()
        request = {
            "arguments": list(arguments),
            "environment": dict(env),
            "directory": str(cwd),
            "without_rights": without_rights,
        }
        with theirs:
            files = [stdout.fileno(), stderr.fileno(), theirs.fileno()]
            socket.send_fds(_template(), [json.dumps(request).encode()], files)
        self._lines = self._status.makefile("rb", buffering=0)
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the process has ended; TimeoutExpired where that takes longer than `timeout` seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("payoff", timeout or 0)
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
            arguments, env=env, cwd=cwd, stdout=output, stderr=errors, without_rights=without_rights
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


@functools.cache
def _template() -> socket.socket:
    """Where requests for processes go; the template starts with the first."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.servers.template", str(theirs.fileno())]
    with theirs:
        template = subprocess.Popen(command, cwd=PROJECT, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        template.wait()

    atexit.register(end)
    return ours
