"""What a process does that reads one upload, confined by the kernel; see `app.data.isolated`."""

from __future__ import annotations

import errno
import os
import resource
import signal
from typing import Any, BinaryIO

import psutil
import pyarrow as pa

from app.data import parquet_file, reading
from app.data.dataset import DataLimits, to_json
from app.data.source import FILE
from app.data.upload_request import UploadRequest
from app.errors import EXHAUSTED, UNWRITABLE, Invalid, PayoffError, TooLarge, trace_of
from app.processes import return_freed_memory

_NICENESS = 10  # requests go before


def read(limits: DataLimits, request: UploadRequest | None, content: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    """The record of the upload as JSON, or the error that reading it raises; without a `request` it is unpacked."""
    try:
        if request is None:
            parquet_file.write_stream(content, sink, limits)
            record = b""
        else:
            record = to_json(reading.read_upload(content, request, sink, limits))
        sink.flush()
    except MemoryError:  # Arrow's is one, too
        allowed = limits.reader_bytes >> 20
        return _refusal(Invalid.at(FILE, f"reading the file needs more than the {allowed} MB of memory allowed"))
    except (Invalid, TooLarge) as error:
        return _refusal(error)
    except Exception as error:  # noqa: BLE001 - whatever the file does to its reader, it is the file that is wrong
        if isinstance(error, OSError) and error.errno in (UNWRITABLE | EXHAUSTED) - {errno.ENOMEM}:
            return {"errno": error.errno}
        return {"class": type(error).__name__, "trace": trace_of(error)}
    return {"record": record.decode()}


def _refusal(error: PayoffError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "detail": error.detail,
        "flaws": [(flaw.loc, flaw.msg) for flaw in error.flaws],
    }


def confine(limits: DataLimits) -> None:
    """Bound memory and processor time; the kernel enforces both, whatever the code does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    return_freed_memory()  # Arrow shrinks a block of text for each column: its rests would all count
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limits.reader_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    used = psutil.Process().memory_info().data
    resource.setrlimit(resource.RLIMIT_DATA, (used + limits.reader_bytes,) * 2)
