"""Structured logs: one JSON object per line on standard output; never bodies, keys, or error texts
that quote them.
"""

import asyncio
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from app.errors import trace_of

_LINE = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


def configure(level: str) -> None:
    """Send structlog's and the standard library's lines, and Python's warnings, through one JSON
    renderer.
    """
    grade = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(
            lambda info: trace_of(info[1])
        ),  # its text may quote the request
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(grade),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    logging.raiseExceptions = (
        False  # a line that cannot be written is not worth the work that it is about
    )
    renderer = structlog.processors.JSONRenderer(
        serializer=lambda line, **how: orjson.dumps(line, **how).decode()
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=grade, force=True)
    logging.captureWarnings(capture=True)
    if grade == logging.INFO:  # of each start: its plugins, its dialect, and its steps
        logging.getLogger("alembic").setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = (
            name != "uvicorn.access"
        )  # the service writes a line for each request


class RequestLines:
    """A line for each request, written in the next turn of the event loop, which adds it: the
    answer goes first.

    structlog would take a fifth of a prediction's time. Lines of one turn are written together. A
    process that is killed loses those of the turn at most, one that is stopped loses none.
    """

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []

    def add(self, line: dict[str, Any]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.append(line)

    def _write(self) -> None:
        lines, self._waiting = self._waiting, []
        for line in lines:
            path, decision, _ = line["path"].partition("/outcomes/")
            if decision:
                line["path"] = f"{path}{decision}{{id}}"  # it may tell of a person
            line["event"], line["level"], line["timestamp"] = "request", "info", datetime.now(UTC)
        with suppress(OSError, ValueError):  # the latter where it is closed
            sys.stdout.buffer.write(b"".join(orjson.dumps(line, option=_LINE) for line in lines))
            sys.stdout.buffer.flush()
