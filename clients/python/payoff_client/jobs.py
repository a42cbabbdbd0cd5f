"""Jobs: ordered once, whatever is lost on the way, and followed to their end with a line of progress."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from payoff_client.errors import InvalidAnswer, of_job
from payoff_client.shapes import JOB, Shape, check
from payoff_client.transport import Call, Link, post, step

PAUSE = 2  # seconds between two looks at a job that goes on


async def ordered(
    link: Link, path: str, order: dict[str, Any], title: str, progress: bool | None, shape: Shape
) -> dict[str, Any]:
    """The job of an order, which has a shape once it has succeeded; JobFailed where it fails or is cancelled.

    The order has an idempotency key of its own, so that repeating it starts no second job.
    """
    job = await link.document(post(path, order, {"Idempotency-Key": uuid4().hex}), JOB)
    place = f"/jobs/{step(job['id'])}"
    with Bar(title, link.progress if progress is None else progress) as bar:
        while job["status"] in ("queued", "running"):
            bar.show(job["progress"], job.get("stage"))
            asked = time.monotonic()
            job = await link.document(Call("GET", place, headers={"Prefer": f"wait={PAUSE}"}), JOB)
            if job["status"] in ("queued", "running") and time.monotonic() - asked < PAUSE / 2:
                await link.wire.sleep(PAUSE)  # a proxy keeps the service from waiting
        if job["status"] != "succeeded":
            raise of_job(job)
        bar.show(1.0, "done")
    try:
        check(job, shape)
    except ValueError as error:
        raise InvalidAnswer(f"the result of the job at {place} cannot be read: {error}") from error
    return job


def in_notebook() -> bool:
    """Whether IPython runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """A line that is written anew with each `show`; silent unless `wanted`, or None where somebody looks at it."""

    def __init__(self, title: str, wanted: bool | None) -> None:
        self._out = sys.stdout if in_notebook() else sys.stderr
        self._shown = (in_notebook() or self._out.isatty()) if wanted is None else wanted
        self._title, self._last = title, ""

    def show(self, share: float, stage: str | None = None) -> None:
        """The share that is done, 0 to 1, and what is being done."""
        line = f"{self._title} {share:4.0%} {printable(stage or '')}".rstrip()
        if self._shown and line != self._last:
            self._out.write(f"\r{line.ljust(len(self._last))}")
            self._out.flush()
            self._last = line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._last:
            self._out.write("\n")


def printable(text: str) -> str:
    """The text without what would move the cursor of a terminal."""
    return "".join(sign for sign in text if sign.isprintable())
