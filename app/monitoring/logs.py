"""Structured logs: one JSON object per line on standard output.

They never contain bodies, keys, or error texts that quote them.
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
    """Send the lines of structlog and the standard library, and Python's warnings, through one JSON
    renderer.
    """
    grade = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # The text of an exception may quote the request.
        structlog.processors.ExceptionRenderer(lambda info: trace_of(info[1])),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(grade),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    # A line that cannot be written must not stop the work that it is about.
    logging.raiseExceptions = False
    renderer = structlog.processors.JSONRenderer(
        serializer=lambda line, **options: orjson.dumps(line, **options).decode()
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=grade, force=True)
    logging.captureWarnings(capture=True)
    if (
        grade == logging.INFO
    ):  # alembic writes its plugins, dialect and steps at each start
        logging.getLogger("alembic").setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        # The service itself writes a line for each request.
        logger.propagate = name != "uvicorn.access"


class RequestLines:
    """Writes a line for each request in the next turn of the event loop, after the answer.

    structlog would take a fifth of a prediction's time. Lines of one turn are written together. A
    process that is killed loses the lines of one turn at most, one that is stopped loses none.
    """

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []

    def add(self, line: dict[str, Any]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.append(line)

    def _write(self) -> None:
        lines = self._waiting
        self._waiting = []
        for line in lines:
            path, decision, _ = line["path"].partition("/outcomes/")
            if decision:
                line["path"] = f"{path}{decision}{{id}}"  # an id may identify a person
            line["event"] = "request"
            line["level"] = "info"
            line["timestamp"] = datetime.now(UTC)
        with suppress(
            OSError, ValueError
        ):  # ValueError where standard output is closed
            sys.stdout.buffer.write(
                b"".join(orjson.dumps(line, option=_LINE) for line in lines)
            )
            sys.stdout.buffer.flush()
