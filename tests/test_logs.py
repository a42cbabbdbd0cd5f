"""Lines of requests are made and written in the turn of the event loop that follows the answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from app import logs


def test_lines_that_cannot_be_written_do_not_hold_up_later_ones(monkeypatch):
    written: list[bytes] = []

    def full(lines):
        if not written:
            written.append(b"")
            raise OSError(28, "no space left on device")
        written.append(lines)

    monkeypatch.setattr(logs, "_write", full)

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        for number in (1, 2):
            logs.write_request({"number": number})
            await asyncio.sleep(0)

    asyncio.run(run())

    assert [json.loads(line)["number"] for line in written[1:]] == [2]


def test_a_loop_that_ended_before_it_wrote_holds_up_no_other(monkeypatch):
    written: list[bytes] = []
    monkeypatch.setattr(logs, "_write", written.append)
    for number in (1, 2):
        loop = asyncio.new_event_loop()
        loop.call_soon(loop.stop)
        loop.call_soon(logs.write_request, {"number": number})
        loop.run_forever()  # this turn alone
        if number == 2:
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert [json.loads(line)["number"] for line in written[0].splitlines()] == [1, 2]


FULL = """
import asyncio, logging, sys, structlog
from app import logs
logs.configure("info")
structlog.get_logger("payoff").error("of structlog")
logging.getLogger("app.jobs").error("of the standard library")

async def answered():
    logs.write_request({"number": 1})
    await asyncio.sleep(0)

asyncio.run(answered())
sys.stderr.write(str(logs.dropped()))
"""


def test_output_that_cannot_be_written_raises_nowhere_and_is_counted():
    """A log on a full disk ended the job worker for good."""
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([sys.executable, "-c", FULL], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.stderr.startswith("3")
