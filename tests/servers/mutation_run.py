"""A service in this process, mutated requests to it, and an account of what must not have happened."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI

from tests.conftest import settings_for
from tests.servers import zoo
from tests.servers.direct import Answer, ask, direct
from tests.servers.fuzzing import Sent, content_of
from tests.servers.mutations import mutations
from tests.servers.verdict import flaws_of

_AT_ONCE = 4
_UPLOADS = 20  # mutations at most; each takes as long as a thousand others
_MAKING_JOBS = ("/train", "/compare")
_SAME_AFTERWARDS = ("/predict", "/retrieve", "/acquire", "/models/")


@dataclass
class Account:
    """What was answered: `wrong` has each kind of failure with its count and first example."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, list[Any]] = field(default_factory=dict)
    traces: Counter[str] = field(default_factory=Counter)

    def blame(self, sent: Sent, answer: Answer | None, flaw: str) -> None:
        where = "-" if answer is None else f"{answer.status} {getattr(answer.route, 'path', '')}"
        kind = f"{where}: {re.sub(r'[0-9]+', '#', flaw)[:200]}"
        shown = f"{str(sent)[:2000]} -> {b'' if answer is None else answer.body[:600]!r}"
        found = self.wrong.setdefault(kind, [0, shown])
        found[0] += 1

    def lines(self) -> list[str]:
        """One for each kind of failure, the most frequent first."""
        found = sorted(self.wrong.items(), key=lambda item: -item[1][0])
        return [f"{count} times {kind}\n    {shown}" for kind, (count, shown) in found] + [
            f"{count} times {trace}" for trace, count in self.traces.most_common()
        ]


def run(folder: Path, count: int, seed: int) -> Account:
    """Ask a service in the folder `count` mutated requests, and the valid ones before and afterwards."""
    account = Account()
    with _quiet(account):
        asyncio.run(_run(folder, count, seed, account))
    return account


async def _run(folder: Path, count: int, seed: int, account: Account) -> None:
    async with direct(settings_for(folder, workers=0)) as app:
        await zoo.populate(app)
        document = json.loads(json.dumps(app.openapi()))
        valid = zoo.requests(*await zoo.stored(app))
        before = [await _checked(app, sent, document, account) for sent in valid]
        for sent, answer in zip(valid, before, strict=True):
            if answer is not None and answer.status >= 300:
                account.blame(sent, answer, "a valid request is refused")
        few = min(count // 1000, _UPLOADS)
        stream = chain(islice(mutations(valid, seed), count - few), islice(mutations(zoo.uploads(), seed), few))
        await asyncio.gather(*[_work(app, stream, document, account) for _ in range(_AT_ONCE)])
        await _compare(app, valid, before, account)


async def _work(app: FastAPI, stream: Iterator[Sent], document: dict[str, Any], account: Account) -> None:
    for sent in stream:
        answer = await _checked(app, sent, document, account)
        if answer is not None:
            account.statuses[answer.status] += 1


async def _checked(app: FastAPI, sent: Sent, document: dict[str, Any], account: Account) -> Answer | None:
    """The answer, judged; what it makes a job of is cancelled."""
    content = content_of(sent)
    try:
        answer = await ask(app, sent, content)
    except Exception as error:  # noqa: BLE001 - none may get out, whatever it is
        account.blame(sent, None, f"raised {error!r}")
        return None
    for flaw in flaws_of(answer, sent, content, document):
        account.blame(sent, answer, flaw)
    if sent.method == "POST" and sent.path in _MAKING_JOBS and answer.status in (200, 202):
        await ask(app, Sent("DELETE", f"/jobs/{json.loads(answer.body)['id']}"), b"")
    return answer


async def _compare(app: FastAPI, valid: Sequence[Sent], before: Sequence[Answer | None], account: Account) -> None:
    """Blame each request that gets another answer than before all the mutations."""
    for sent, first in zip(valid, before, strict=True):
        if sent.method in ("POST", "PUT") and sent.path.startswith(_SAME_AFTERWARDS) and first is not None:
            again = await ask(app, sent, content_of(sent))
            if (again.status, again.body) != (first.status, first.body):
                account.blame(sent, again, "another answer than before")


@contextmanager
def _quiet(account: Account) -> Iterator[None]:
    """Count where unexpected errors come from, and drop all other lines of the log."""

    def drop(_logger: object, _name: str, event: dict[str, Any]) -> dict[str, Any]:
        error = sys.exc_info()[1]
        if event.get("exc_info") and error is not None:
            error = error.__cause__ or error
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/app/" in frame.filename][-3:]
            way = " > ".join(f"{frame.filename.rpartition('/app/')[2]}:{frame.lineno}" for frame in frames)
            account.traces[f"{type(error).__name__} at {way}: {str(error)[:200]}"] += 1
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[drop], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
