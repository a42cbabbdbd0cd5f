"""Lines of requests are made and written in the turn of the event loop that follows the answer."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from app.monitoring import logs


def test_lines_of_one_turn_are_written_in_the_next_without_ids_of_decisions(
    capsysbinary,
):
    lines = logs.RequestLines()

    async def run():
        lines.add({"path": "/outcomes/b7c1"})
        lines.add({"path": "/models"})
        assert capsysbinary.readouterr().out == b""
        await asyncio.sleep(0)

    asyncio.run(run())

    written = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [line["path"] for line in written] == ["/outcomes/{id}", "/models"]


FULL = """
import asyncio, logging, sys, structlog
from app.monitoring import logs
logs.configure("info")
structlog.get_logger("payoff").error("of structlog")
logging.getLogger("app.jobs").error("of the standard library")

async def answered():
    logs.RequestLines().add({"path": "/"})
    await asyncio.sleep(0)

asyncio.run(answered())
sys.stderr.write("done")
"""


def test_output_that_cannot_be_written_raises_nowhere():
    """A log on a full disk ended the job worker for good."""
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [sys.executable, "-c", FULL],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.stderr.startswith("done")
