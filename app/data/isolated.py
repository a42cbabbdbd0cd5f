"""Reading an upload in a process of its own, so that no file can take the memory or the time of the service.

Parquet files decide how much their decoder allocates: 4 kB can ask for gigabytes. So the process has limits on its
memory and its time, and is killed when the request is cancelled. It reads from one file and writes to another.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, cast

import structlog

from app import allocator, errors
from app.data.dataset import DataLimits, Dataset, from_json, to_json
from app.data.source import FILE
from app.data.upload_request import UploadRequest
from app.errors import Flaw, Invalid, PayoffError, trace_of
from app.processes import end_with, started

# Arrow chooses its allocator when it is first imported, and the others reserve a gigabyte at once: this comes before
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

MODULES = ("app.data.isolated", "app.data.reading")  # what the fork server should have imported

_TICK_SECONDS = 0.1  # within which a cancelled request, or a time that is up, is noticed
_NICENESS = 10  # requests go before
_LONGEST_MESSAGE = 1 << 28
_EXPECTED = {"Invalid": errors.Invalid, "TooLarge": errors.TooLarge}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReaderLimits:
    """What the process that reads an upload may use: bytes of memory beyond an idle one's, and seconds."""

    memory_bytes: int = 400 * 2**20
    seconds: float = 600.0


@dataclass(frozen=True)
class _Work:
    """What the process does with a file, within its limits."""

    task: Callable[[_Work, BinaryIO, BinaryIO], dict[str, Any]]
    limits: DataLimits
    reader: ReaderLimits
    request: UploadRequest | None = None


class Abandoned(PayoffError):
    """The request is cancelled"""


def read_isolated(
    content: BinaryIO,
    request: UploadRequest,
    sink: BinaryIO,
    limits: DataLimits,
    reader: ReaderLimits,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Dataset:
    """What `read_upload` does, in a process that is killed beyond its limits or once `is_cancelled()` is true.

    `sink` is a file on disk. Raises what `read_upload` raises, Invalid at `/file` where the process does not survive
    the file, and Abandoned where `is_cancelled()`. Blocks meanwhile.
    """
    message = _run(_Work(_keep, limits, reader, request), content, sink, is_cancelled)
    return from_json(message["dataset"].encode())


def unpack_isolated(
    content: BinaryIO,
    sink: BinaryIO,
    limits: DataLimits,
    reader: ReaderLimits,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Write a Parquet file to `sink` as an Arrow stream, in such a process; raises what `read_isolated` raises."""
    _run(_Work(_unpack, limits, reader), content, sink, is_cancelled)


def _run(work: _Work, content: BinaryIO, sink: BinaryIO, is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    """What the process reports, or the error."""
    with _on_disk(content) as source:
        message = _reported(work, source, sink, is_cancelled)
    if "errno" in message:
        raise OSError(message["errno"], os.strerror(message["errno"]))
    if "trace" in message:
        _log.error("an upload could not be read", exception=message["trace"])
        raise Invalid.at(FILE, f"the file cannot be read ({message['class']})")
    if "class" in message:
        raise _EXPECTED[message["class"]](message["detail"], [Flaw(*flaw) for flaw in message["flaws"]])
    return message


def _reported(work: _Work, source: BinaryIO, sink: BinaryIO, is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Start the process and wait for its one message."""
    with _handed(source) as content, _handed(sink) as file, started(_main, work, content, file) as (process, receiver):
        message = _message(process, receiver, work.reader.seconds, is_cancelled)
    if message is not None:
        return message
    if process.exitcode == -signal.SIGXCPU:
        raise _too_long(work.reader.seconds)
    _log.error("the process that read an upload ended", exit_code=process.exitcode)
    raise Invalid.at(FILE, "the file cannot be read: its reader crashed; it may need more memory than allowed")


def _message(
    process: ForkServerProcess, receiver: Connection, seconds: float, is_cancelled: Callable[[], bool]
) -> dict[str, Any] | None:
    """What the process sends; None where it ends without."""
    deadline = monotonic() + seconds
    while not connection.wait([receiver, process.sentinel], _TICK_SECONDS):
        if is_cancelled():
            raise Abandoned("the client did not wait for the answer")
        if monotonic() > deadline:
            raise _too_long(seconds)
    try:
        return cast(dict[str, Any], json.loads(receiver.recv_bytes(_LONGEST_MESSAGE)))
    except (EOFError, OSError):
        return None


def _too_long(seconds: float) -> Invalid:
    return Invalid.at(FILE, f"reading the file takes longer than the {seconds:g} s allowed")


def _handed(file: BinaryIO) -> Connection:
    """A file as what multiprocessing hands to a process."""
    return Connection(os.dup(file.fileno()))


def _on_disk(content: BinaryIO) -> BinaryIO:
    """A copy of `content` that has a file descriptor, or itself where it has one."""
    try:
        content.flush()
        return cast(BinaryIO, os.fdopen(os.dup(content.fileno()), "rb"))
    except OSError:  # io.UnsupportedOperation is one
        file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
        content.seek(0)
        shutil.copyfileobj(content, file)
        file.flush()
        return file


# In the process


def _main(work: _Work, source: Connection, sink: Connection, parent_alive: Connection, sender: Connection) -> None:
    end_with(parent_alive)
    _confine(work.reader)
    with os.fdopen(os.dup(source.fileno()), "rb") as content, os.fdopen(os.dup(sink.fileno()), "r+b") as file:
        message = _read(work, content, cast(BinaryIO, file))
    sender.send_bytes(json.dumps(message).encode())


def _keep(work: _Work, content: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    from app.data.reading import read_upload  # noqa: PLC0415 - the service itself needs no Arrow for this

    assert work.request is not None
    return {"dataset": to_json(read_upload(content, work.request, sink, work.limits)).decode()}


def _unpack(work: _Work, content: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    from app.data.parquet_file import write_stream  # noqa: PLC0415

    write_stream(content, sink, work.limits)
    return {}


def _read(work: _Work, content: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    """What the task reports, or the error that it raises."""
    try:
        report = work.task(work, content, sink)
        sink.flush()
    except MemoryError:  # Arrow's is one, too
        allowed = work.reader.memory_bytes >> 20
        return _refusal(Invalid.at(FILE, f"reading the file needs more than the {allowed} MB of memory allowed"))
    except (errors.Invalid, errors.TooLarge) as error:
        return _refusal(error)
    except Exception as error:  # noqa: BLE001 - whatever the file does to its reader, it is the file that is wrong
        if isinstance(error, OSError) and error.errno in (errors.UNWRITABLE | errors.EXHAUSTED) - {errno.ENOMEM}:
            return {"errno": error.errno}
        return {"class": type(error).__name__, "trace": trace_of(error)}
    return report


def _refusal(error: PayoffError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "detail": error.detail,
        "flaws": [(flaw.loc, flaw.msg) for flaw in error.flaws],
    }


def _confine(reader: ReaderLimits) -> None:
    """Bound memory and processor time; the kernel enforces both, whatever the code does."""
    import pyarrow as pa  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    allocator.return_freed_memory()  # Arrow shrinks a block of text for each column: its rests would all count
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(reader.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    used = _private_bytes()
    if used is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (used + reader.memory_bytes,) * 2)


def _private_bytes() -> int | None:
    """Bytes of private memory of this process, as RLIMIT_DATA counts them; None if the kernel does not report it."""
    try:
        found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024
