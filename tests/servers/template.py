"""A process that has imported the service, and from which its commands are forked.

A new interpreter takes three seconds of the processor to import the service, and three more for its fork server. Each
command forked here is a process of its own with its own environment, output and signals, and its own fork server.
Only the start of the interpreter is skipped: tests whose subject is the start of a process run the real command.

`python -m tests.servers.template SOCKET OWNER` returns when the template listens at the socket; it ends with the owner,
a process id. For each request (see `forked.py`) a process is forked that forks the command, tells its pid and its exit
code, and kills it if the test is gone. Nothing here starts a thread: a lock held in one would stay locked in a fork.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import json
import multiprocessing.util
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import dask.config

_MODULES = (
    "app.jobs.single",  # first: it caps the threads of the numerical libraries
    "app.cli",
    "app.wiring",
    "app.api.app",
    "app.api.hot_protocol",
    "app.commands.check",
    "app.commands.keys",
    "app.commands.serve",
    "app.commands.worker",
    "app.job_processes",
    "app.jobs.attempt",
    "app.jobs.cluster",
    "app.metrics",
    "app.migrations",
    "app.postgres",
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "moto.s3.responses",
    "moto.server",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.pipeline",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
)
_LARGEST_REQUEST = 1 << 17
_NAME = 15  # PR_SET_NAME
_CAPABILITIES = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_RIGHTS = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def main() -> None:
    """Import and listen; a fork of this process serves, and the process itself ends."""
    for module in _MODULES:
        importlib.import_module(module)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads: an import started one"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        if os.fork() == 0:
            os.setsid()  # Ctrl+C is for the owner
            _serve(listener, os.pidfd_open(int(sys.argv[2])))


def _serve(listener: socket.socket, owner: int) -> NoReturn:
    """Fork commands until the owner ends."""
    while owner not in select.select([listener, owner], [], [])[0]:
        with listener.accept()[0] as client:
            request, files, _, _ = socket.recv_fds(client, _LARGEST_REQUEST, 3)
        with suppress(ChildProcessError):  # those whose commands have ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if len(files) == 3 and os.fork() == 0:
            listener.close()
            _watch(json.loads(request), files)
        for file in files:
            os.close(file)
    os._exit(0)


def _watch(request: dict, files: list[int]) -> NoReturn:
    """Fork the command, and see it through."""
    output, errors, status = files
    pid = os.fork()
    if pid == 0:
        os.close(status)
        _become(request, output, errors)
    ended = os.pidfd_open(pid)
    with suppress(BrokenPipeError):
        os.write(status, f"{pid}\n".encode())
    if ended not in select.select([ended, status], [], [])[0]:
        os.kill(pid, signal.SIGKILL)  # the other end was closed
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(status, f"{code}\n".encode())
    os._exit(0)


def _become(request: dict, output: int, errors: int) -> NoReturn:
    """Be the command, as if it had just been started."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    for given, number in ((output, 1), (errors, 2)):
        os.dup2(given, number)
        os.close(given)
    if request["without_rights"]:
        _drop_rights()
    module = sys.modules["__main__"] = sys.modules[request["module"]]  # processes of jobs look whether theirs is it
    if request["module"] == "app.cli":
        _prepare_fork_server()
    dask.config.refresh()  # what the environment says
    if request["module"].startswith("distributed."):
        sys.modules["distributed.config"].initialize_logging(dask.config.config)  # which the service took away
    sys.argv = [request["module"], *request["arguments"]]
    _end_with(module.main)


def _end_with(main: Callable[[], int | None]) -> NoReturn:
    """Exit as an interpreter does that has run `main`."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - an interpreter prints it, too
        traceback.print_exc()
        code = 1
    multiprocessing.util._exit_function()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _prepare_fork_server() -> None:
    """Have the first fork server of this process be one that has imported already what it will need."""
    start = multiprocessing.util.spawnv_passfds
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _wait_as_fork_server(theirs)
    theirs.close()

    def fork(path: str, arguments: list[str], files: list[int]) -> int:
        if "multiprocessing.forkserver" not in arguments[-1]:
            return start(path, arguments, files)
        multiprocessing.util.spawnv_passfds = start  # the next one is a new interpreter
        with ours:
            socket.send_fds(ours, [json.dumps({"code": arguments[-1], "files": files}).encode()], files)
        return pid

    multiprocessing.util.spawnv_passfds = fork


def _wait_as_fork_server(request: socket.socket) -> NoReturn:
    """Run what `multiprocessing` would run in a new interpreter; end if it never comes."""
    with request:
        line, given, _, _ = socket.recv_fds(request, _LARGEST_REQUEST, 8)
    if not line:
        os._exit(0)
    order = json.loads(line)
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, 1000) for file in given]
    for file, number in zip(high, order["files"], strict=True):
        os.dup2(file, number)
    for file in (*high, *(set(given) - set(order["files"]))):
        os.close(file)
    ctypes.CDLL(None).prctl(_NAME, b"forkserver", 0, 0, 0)
    _end_with(lambda: exec(order["code"], {"__name__": "__main__"}))


def _drop_rights() -> None:
    """Give up the capabilities that let root write everywhere; `setpriv` does so for a command that it runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES, 0)), ctypes.create_string_buffer(24)
    assert libc.capget(header, held) == 0
    low, high = struct.unpack("3I", held.raw[:12]), held.raw[12:24]
    kept = ctypes.create_string_buffer(struct.pack("3I", *(word & ~_RIGHTS for word in low)) + high)
    assert libc.capset(header, kept) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    main()
