"""Structured logs: one JSON object per line on standard output; never bodies, keys, or error texts that quote them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from app.errors import trace_of

_waiting: list[dict[str, Any]] = []
_LINE = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


def configure(level: str) -> None:
    """Send structlog's and the standard library's lines, and Python's warnings, through one JSON renderer."""
    grade = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _where,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(grade),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = _Output()
    renderer = structlog.processors.JSONRenderer(serializer=lambda line, **how: orjson.dumps(line, **how).decode())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=grade, force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # logs its own parts at each start
    threading.excepthook = _log_thread_error
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name != "uvicorn.access"  # the service writes a line for each request


class _Output(logging.Handler):
    """Standard output. It never raises: a line is not worth the work that it is about."""

    failed = 0
    loop: asyncio.AbstractEventLoop | None = None  # that writes what waits

    def emit(self, record: logging.LogRecord) -> None:
        _write(self.format(record).encode() + b"\n")


def _where(_logger: Any, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Render an exception as its trace and class: its text may quote the request."""
    error = line.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        line["exception"] = trace_of(error)
    return line


def _log_thread_error(ended: threading.ExceptHookArgs) -> None:
    """Write a log line instead of a traceback where a thread ends with an error."""
    if ended.exc_value is not None and ended.exc_type is not SystemExit:
        name = ended.thread.name if ended.thread else "?"
        structlog.get_logger("payoff").error("unexpected error in a thread", thread=name, exc_info=ended.exc_value)


_DECISION = "/outcomes/"  # an id follows


def told_path(path: str) -> str:
    """The path as logs have it: without the id of a decision, which may tell of a person."""
    return path[: path.index(_DECISION) + len(_DECISION)] + "{id}" if _DECISION in path else path


def write_request(line: dict[str, Any]) -> None:
    """Write a line for one request, in the next turn of the event loop, which calls this: the answer goes first.

    structlog would take a fifth of a prediction's time. Lines of one turn are written together. A process that is
    killed loses those of the turn at most, one that is stopped loses none.
    """
    loop = asyncio.get_running_loop()
    if not _waiting or loop is not _Output.loop:  # the one before may have ended
        loop.call_soon(_write_waiting)
        _Output.loop = loop
    _waiting.append(line)


def _write_waiting() -> None:
    lines = _waiting.copy()
    _waiting.clear()
    _write(b"".join(map(_line, lines)))


def _line(line: dict[str, Any]) -> bytes:
    line["event"], line["level"], line["timestamp"] = "request", "info", datetime.now(UTC)
    return orjson.dumps(line, option=_LINE)


def dropped() -> int:
    """How many writes to standard output have failed: a full disk, or a reader that ended."""
    return _Output.failed


def _write(lines: bytes) -> None:
    try:
        output = sys.stdout.buffer
        output.write(lines)
        output.flush()
    except (OSError, ValueError):  # ValueError: it is closed
        _Output.failed += 1
