"""Decisions are recorded before they are answered: by one thread, in one transaction for all that wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from app.database import Database, DatabaseAway
from app.errors import Busy, Conflict, Invalid, TooLarge, Unavailable
from app.outcomes.decision import Batch, Row
from app.outcomes.defaults import Defaults
from app.outcomes.row_store import Locate, RowStore
from app.outcomes.totals import Totals

MAX_ROWS = 50_000  # of one request: so long do others wait
_MAX_PENDING = 200_000  # rows, about 1 kB of memory each
_GROUP_ROWS = 2_000  # of one transaction, unless one request has more
_LARGE = 500  # rows of a request from which on others go first
_STOP_SECONDS = 6.0

_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    batch: Batch
    answer: asyncio.Future[None]


class Recorder:
    """Stores the decisions of all requests of this process; `totals` counts them, `defaults` says of which models.

    A request waits for the transaction that has its rows, and no request for the faults of another. On PostgreSQL large
    batches have a thread and a connection of their own; SQLite has one writer at a time.
    """

    def __init__(
        self, database: Database, defaults: Defaults, locate: Locate, *, keep_seconds: float | None = None
    ) -> None:
        self.keep_seconds = keep_seconds  # after which decisions are deleted
        self.totals = Totals()
        self.defaults = defaults
        self._lanes = [_Lane(self, database, locate) for _ in range(1 if database.is_sqlite else 2)]
        self._lock = threading.Lock()
        self.pending = 0
        self._stopped = False

    def start(self) -> None:
        self.defaults.start()

    async def record(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises IdsTaken, Busy, TooLarge, and Unavailable where nothing can be recorded for now, or until the next start;
        then the answer must not be sent.
        """
        count = len(batch.rows)
        if count > MAX_ROWS:
            raise TooLarge(f"{count:,} decisions to record; one request records at most {MAX_ROWS:,}")
        with self._lock:
            if self.pending + count > _MAX_PENDING or self._stopped:
                raise Busy("too many decisions wait to be recorded; try again")
            lane = self._lanes[-1 if count >= _LARGE else 0]
            lane.start()
            self.pending += count
        answer = asyncio.get_running_loop().create_future()
        lane.queue.put(_Waiting(batch, answer))
        await answer

    @property
    def alive(self) -> bool:
        """Whether decisions can be recorded."""
        return not any(lane.has_ended for lane in self._lanes)

    def stop(self) -> None:
        """Record what waits, for some seconds, and close the connections."""
        self.defaults.stop()
        with self._lock:
            self._stopped = True
        started = [lane for lane in self._lanes if lane.thread.ident is not None]
        for lane in started:
            lane.queue.put(None)
        for lane in started:
            lane.thread.join(_STOP_SECONDS)

    def settled(self, group: Sequence[_Waiting], results: Sequence[BaseException | Sequence[Row]]) -> None:
        """Tell each request of the group, each loop once."""
        answers: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]]
        answers = defaultdict(list)
        for waiting, result in zip(group, results, strict=True):
            error = result if isinstance(result, BaseException) else None
            answers[waiting.answer.get_loop()].append((waiting.answer, error))
            try:
                self._count(waiting.batch, result)
            except Exception:  # noqa: BLE001 - the rows are stored, and the thread goes on
                _log.exception("unexpected error after recording")
        with self._lock:
            self.pending -= sum(len(waiting.batch.rows) for waiting in group)
        for loop, told in answers.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed: no client waits any more
                loop.call_soon_threadsafe(_tell, told)

    def _count(self, batch: Batch, result: BaseException | Sequence[Row]) -> None:
        if isinstance(result, BaseException):
            if not isinstance(result, Conflict | Invalid):
                self.totals.failures.inc()
            return
        self.totals.add(result)
        if batch.stored is not None:
            batch.stored()


class _Lane:
    """A thread with a connection, and what waits for it."""

    def __init__(self, recorder: Recorder, database: Database, locate: Locate) -> None:
        self.queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._recorder = recorder
        self._store = RowStore(database, locate)
        self._large: deque[_Waiting] = deque()
        self._ends = False
        self.thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    @property
    def has_ended(self) -> bool:
        return self.thread.ident is not None and not self.thread.is_alive()

    def start(self) -> None:
        """With the first batch; where the system has no thread left, the next one tries again."""
        if self.has_ended:
            raise Unavailable("decisions cannot be recorded until the service is started again")
        if self.thread.ident is None:
            self.thread.start()

    def _run(self) -> None:
        while group := self._next_group():
            results: Sequence[BaseException | Sequence[Row]]
            try:
                results = self._store.write([waiting.batch for waiting in group])
            except DatabaseAway as error:
                results = [error] * len(group)
            except Exception as error:  # noqa: BLE001 - one row of one request may be the cause
                results = [error] if len(group) == 1 else [self._alone(waiting.batch) for waiting in group]
            self._recorder.settled(group, results)
        self._store.close()

    def _next_group(self) -> list[_Waiting]:
        """What comes next, small batches before large ones, which go alone; nothing at the end."""
        group: list[_Waiting] = []
        rows = 0
        while rows < _GROUP_ROWS and not self._ends:
            try:
                waiting = self.queue.get(block=not (group or self._large))
            except Empty:
                break
            if waiting is None:
                self._ends = True
            elif len(waiting.batch.rows) >= _LARGE:
                self._large.append(waiting)
            else:
                group.append(waiting)
                rows += len(waiting.batch.rows)
        return group or ([self._large.popleft()] if self._large else [])

    def _alone(self, batch: Batch) -> BaseException | Sequence[Row]:
        try:
            return self._store.write([batch])[0]
        except Exception as error:  # noqa: BLE001
            return error


def _tell(answers: Sequence[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for answer, error in answers:
        if answer.done():  # the request was given up
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
