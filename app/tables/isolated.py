"""Reading an upload in a process of its own, so that no file can take the memory or the time of the
service.

Parquet files decide how much their decoder allocates: 4 kB can ask for gigabytes. So the process
has limits on its memory and its time, and is killed when the request is cancelled. It reads from
one file and writes to another.
"""

import json
import os
import signal
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from time import monotonic
from typing import Any, BinaryIO, cast

import structlog

from app.errors import InvalidTable, ServiceError
from app.jobs.processes import end_with, started
from app.tables.dataset import DataLimits
from app.tables.source import FILE
from app.tables.upload_request import UploadRequest
from payoff.errors import Flaw, Invalid, TooLarge

# Arrow chooses its allocator when it is first imported, and the others reserve a gigabyte at once:
# this comes before
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

MODULES = ("app.tables.isolated", "app.tables.reading")  # for the fork server to import

# within which a cancelled request, or a time that is up, is noticed
_TICK_SECONDS = 0.1
_LONGEST_MESSAGE = 1 << 28

_log = structlog.get_logger(__name__)


class Abandoned(ServiceError):
    """The request is cancelled"""


def read_isolated(
    content: BinaryIO,
    request: UploadRequest | None,
    sink: BinaryIO,
    limits: DataLimits,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> bytes:
    """Do `read_upload` in a process that is killed when it exceeds its limits, or once
    `is_cancelled()` is true.

    Returns the record as JSON. Without a `request` a Parquet file is written to `sink` as an Arrow
    stream. Both are files on disk. Raises what `read_upload` raises, Invalid at `/file` where the
    process does not survive the file, and Abandoned where `is_cancelled()`. Blocks meanwhile.
    """
    content.flush()
    with (
        Connection(os.dup(content.fileno())) as source,
        Connection(os.dup(sink.fileno())) as target,
        started(_main, limits, request, source, target) as (process, receiver),
    ):
        message = _message(process, receiver, limits.reader_seconds, is_cancelled)
    if message is None and process.exitcode == -signal.SIGXCPU:
        raise _too_long(limits.reader_seconds)
    if message is None:
        _log.error("the process that read an upload ended", exit_code=process.exitcode)
        raise Invalid.at(
            FILE,
            "the file cannot be read: its reader crashed; it may need more memory than allowed",
        )
    if "errno" in message:
        raise OSError(message["errno"], os.strerror(message["errno"]))
    if "trace" in message:
        _log.error("an upload could not be read", exception=message["trace"])
    if "class" in message:
        flaws = [Flaw(*flaw) for flaw in message["flaws"]]
        if message["class"] == TooLarge.__name__:
            raise TooLarge(message["detail"], flaws)
        raise InvalidTable(message["detail"], flaws, message["columns"])
    return str(message["record"]).encode()


def _message(
    process: ForkServerProcess,
    receiver: Connection,
    seconds: float,
    is_cancelled: Callable[[], bool],
) -> dict[str, Any] | None:
    """The message of the process; None where it ends without a message."""
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
    return Invalid.at(
        FILE, f"reading the file takes longer than the {seconds:g} s allowed"
    )


def _main(
    limits: DataLimits,
    request: UploadRequest | None,
    source: Connection,
    sink: Connection,
    parent_alive: Connection,
    sender: Connection,
) -> None:
    """Read the upload, in the process, and send the message."""
    end_with(parent_alive)
    from app.tables import reading  # noqa: PLC0415 - the service itself needs no Arrow for this

    reading.confine(limits)
    with (
        os.fdopen(os.dup(source.fileno()), "rb") as content,
        os.fdopen(os.dup(sink.fileno()), "r+b") as file,
    ):
        message = reading.message(limits, request, content, cast(BinaryIO, file))
    sender.send_bytes(json.dumps(message).encode())
