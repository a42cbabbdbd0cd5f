"""Decisions are recorded before they are answered: by one thread, in one transaction for all that
wait, by the driver's own statements, so that one is stored in about the time that its commit takes.
"""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, time
from typing import Any, NamedTuple

from sqlalchemy import Connection

from app.database.engine import Database, DatabaseAway
from app.errors import Busy, Conflict, Unavailable
from app.outcomes.archive import Allows, Located
from app.outcomes.decision import Batch, Row, day_of, day_of_id, id_digest, place_of
from app.outcomes.intake import Totals
from app.outcomes.rows import RECORDING_LOCK, chunks
from payoff.errors import MAX_ERRORS, Flaw, Invalid, PayoffError, TooLarge

MAX_ROWS = 50_000  # of one request: so long do others wait
_MAX_PENDING = 200_000  # rows, about 1 kB of memory each
_GROUP_ROWS = 2_000  # of one transaction, unless one request has more
_LARGE = 500  # rows of a request from which on others go first
_STOP_SECONDS = 6.0
_TERMS_SECONDS = (
    3000.0  # before the terms' time is written again: `used_at` is true to within an hour
)
_MAX_TERMS = 10_000  # remembered
_MAX_DAYS = 31  # sealed ones that the ids of a request may be of: other requests wait while their files are read
_PART = 300  # ids in a query, which has each three times: SQLite has at least 999 parameters
_TOGETHER = 64  # rows in a statement
_ATTEMPTS = 3
_LONG_SECONDS = 5.0  # after which nothing is tried again: a locked file was waited for
_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
_ERASED = "erased"
_KNOWN = (
    "SELECT id, digest FROM decisions WHERE id {0} UNION ALL SELECT id, digest FROM sealed_ids WHERE id {0}"
    " UNION ALL SELECT id_digest, NULL FROM erased_decisions WHERE id_digest {0}"
)
Locate = Callable[[Collection[str], Allows, float], Mapping[str, Located]]


class _Waiting(NamedTuple):
    batch: Batch
    answer: asyncio.Future[None]


class Recorder:
    """Stores the decisions of all requests of this process; `totals` counts them.

    A request waits for the transaction that has its rows, and no request for the faults of another.
    On PostgreSQL large batches have a thread and a connection of their own; SQLite has one writer
    at a time.
    """

    def __init__(
        self, database: Database, locate: Locate, *, keep_seconds: float | None = None
    ) -> None:
        self.keep_seconds = keep_seconds  # after which decisions are deleted
        self.totals = Totals()
        self._lanes = [_Lane(self, database, locate) for _ in range(1 if database.is_sqlite else 2)]
        self._lock = threading.Lock()
        self.pending = 0
        self._stopped = False

    async def record(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises IdsTaken, Busy, TooLarge, and Unavailable where nothing can be recorded for now, or
        until the next start; then the answer must not be sent.
        """
        count = len(batch.rows)
        if count > MAX_ROWS:
            raise TooLarge(
                f"{count:,} decisions to record; one request records at most {MAX_ROWS:,}"
            )
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
        with self._lock:
            self._stopped = True
        started = [lane for lane in self._lanes if lane.thread.ident is not None]
        for lane in started:
            lane.queue.put(None)
        for lane in started:
            lane.thread.join(_STOP_SECONDS)

    def settled(
        self, group: Sequence[_Waiting], results: Sequence[BaseException | Sequence[Row]]
    ) -> None:
        """Tell each request of the group, each loop once."""
        answers = defaultdict[
            asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]
        ](list)
        rows: list[Row] = []
        for waiting, result in zip(group, results, strict=True):
            error = result if isinstance(result, BaseException) else None
            answers[waiting.answer.get_loop()].append((waiting.answer, error))
            if not isinstance(result, BaseException):
                rows.extend(result)
            elif not isinstance(result, Conflict | Invalid):
                self.totals.failures.inc()
            if error is None and waiting.batch.stored is not None:
                waiting.batch.stored()
        self.totals.add(rows)
        with self._lock:
            self.pending -= sum(len(waiting.batch.rows) for waiting in group)
        for loop, told in answers.items():
            with suppress(RuntimeError):  # the loop was closed: no client waits any more
                loop.call_soon_threadsafe(_tell, told)


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
            self._recorder.settled(group, self._written(group))
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

    def _written(self, group: Sequence[_Waiting]) -> Sequence[BaseException | Sequence[Row]]:
        """What became of each; where one row of one request may be the cause of an error, each is
        tried alone.
        """
        try:
            return self._store.write([waiting.batch for waiting in group])
        except Exception as error:  # noqa: BLE001 - it is an answer
            if isinstance(error, DatabaseAway) or len(group) == 1:
                return [error] * len(group)
            return [self._written([waiting])[0] for waiting in group]


def _tell(answers: Sequence[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for answer, error in answers:
        if answer.done():  # the request was given up
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


class IdsTaken(Conflict):
    """Ids that stand for other decisions already"""


class RowStore:
    """One connection, of one thread; not one of the pool's. It is opened again where it was lost.

    `locate` finds sealed decisions.
    """

    def __init__(self, database: Database, locate: Locate) -> None:
        self._database = database
        self._locate = locate
        self._connection: Connection | None = None
        self._driver: Any = None
        self._known_terms: dict[str, float] = {}
        mark = "?" if database.is_sqlite else "%s"
        self._values = f"({', '.join([mark] * len(Row._fields))})"
        self._insert_terms = (
            f"INSERT INTO decision_terms (digest, content, used_at) VALUES ({mark}, {mark}, {mark})"  # noqa: S608
            " ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at"
        )
        # An erasure commits before this transaction or after it, never during it.
        lock = f"SELECT pg_advisory_xact_lock_shared({RECORDING_LOCK})"
        self._begin = "BEGIN IMMEDIATE" if database.is_sqlite else f"BEGIN; {lock}"

    def write(self, batches: Sequence[Batch]) -> list[PayoffError | Sequence[Row]]:
        """What became of each batch, durable: the rows that are new, or why none of it is stored,
        such as IdsTaken.

        A batch whose ids all stand for the same decisions already is accepted. DatabaseAway where
        the database does not answer; then nothing, or all, of it may be stored, and may be sent
        again. Another error where a row cannot be stored: nothing of the batches is.
        """
        doubtful = False  # whether rows of ours may be there, or such of another process
        began = monotonic()
        for attempt in range(_ATTEMPTS):
            try:
                with self._database.translating():
                    return self._write(batches, doubtful=doubtful)
            except (
                self._database.driver.IntegrityError
            ):  # one of the ids came in between, from another process
                if attempt == _ATTEMPTS - 1:
                    raise
            except Exception as error:
                self.close()
                if (
                    not isinstance(error, DatabaseAway)
                    or attempt
                    or monotonic() - began > _LONG_SECONDS
                ):
                    raise
            doubtful = True
        raise AssertionError("unreachable")

    def close(self) -> None:
        connection, self._connection, self._driver = self._connection, None, None
        self._known_terms.clear()  # the next connection may lead to another database: a standby, or a restored one
        if connection is not None:
            with suppress(Exception):  # it may be broken
                connection.close()

    def _write(
        self, batches: Sequence[Batch], *, doubtful: bool
    ) -> list[PayoffError | Sequence[Row]]:
        if self._driver is None:
            self._connection = self._database.own_connection()
            self._driver = self._connection.connection.dbapi_connection
        now = time()  # by that clock terms are deleted; another one may stand still
        terms = {
            digest: each
            for batch in batches
            for digest, each in batch.terms.items()
            if abs(now - self._known_terms.get(digest, -inf)) >= _TERMS_SECONDS
        }
        rows = [row for batch in batches for row in batch.rows]
        if (
            not doubtful
            and not terms
            and len(rows) <= _TOGETHER
            and not any(batch.given for batch in batches)
        ):
            self._insert(rows)  # a transaction of its own
            return [batch.rows for batch in batches]
        sealed = [self._sealed(batch) if doubtful or batch.given else None for batch in batches]
        self._driver.execute(self._begin)
        try:
            asked = [row.id for batch in batches if doubtful or batch.given for row in batch.rows]
            stored = self._stored(asked) if asked else {}
            results = [
                batch.rows
                if own is None
                else own
                if isinstance(own, PayoffError)
                else _judged(batch, stored, own)
                for batch, own in zip(batches, sealed, strict=True)
            ]
            for digest in sorted(terms):
                self._driver.execute(self._insert_terms, (digest, terms[digest].content, now))
            self._insert(
                [row for result in results if not isinstance(result, PayoffError) for row in result]
            )
            self._driver.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be lost
                self._driver.execute("ROLLBACK")
            raise
        if len(self._known_terms) > _MAX_TERMS:
            self._known_terms.clear()
        self._known_terms.update(dict.fromkeys(terms, now))
        return results

    def _insert(self, rows: Sequence[Row]) -> None:
        """One statement for many rows: the interpreter's lock, which others hold, is waited for
        once.
        """
        if len(rows) > 1 and not self._database.is_sqlite:
            with (
                self._driver.cursor() as cursor,
                cursor.copy(f"COPY decisions ({_COLUMNS}) FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
            return
        for part in chunks(rows, _TOGETHER):
            values = ", ".join([self._values] * len(part))
            statement = f"INSERT INTO decisions ({_COLUMNS}) VALUES {values}"  # noqa: S608
            self._driver.execute(statement, [*chain.from_iterable(part)])

    def _stored(self, ids: Sequence[str]) -> dict[str, int | str]:
        """The digest of the decision that each of these ids stands for, where it stands for one."""
        hashes = {id_digest(id_): id_ for id_ in ids}
        found: dict[str, int | str] = {}
        for part in chunks(hashes, _PART):
            named = [hashes[each] for each in part]
            if self._database.is_sqlite:
                marks = f"({', '.join('?' * len(part))})"
                rows = self._driver.execute(_KNOWN.format(f"IN {marks}"), [*named, *named, *part])
            else:
                rows = self._driver.execute(
                    _KNOWN.format("= ANY(%s)"), (named, named, part), prepare=True
                )
            found.update(
                (hashes[key], _ERASED) if digest is None else (key, digest) for key, digest in rows
            )
        return found

    def _sealed(self, batch: Batch) -> PayoffError | dict[str, int | str]:
        """As `_stored`, of decisions that only files have: those with an id of the service, of an
        earlier day.

        An error where that cannot be found out, which is of this batch, and not of those that are
        written with it.
        """
        today = day_of(time())
        v7 = [row.id for row in batch.rows if row.id[14:15] == "7"]
        ids = [id_ for id_ in v7 if (day := day_of_id(id_)) is not None and day < today]
        if not ids:
            return {}
        try:
            located = self._locate(ids, {row.model for row in batch.rows}.__contains__, _MAX_DAYS)
        except DatabaseAway:
            raise
        except Invalid as error:
            return Invalid.at(batch.place, error.detail)
        except PayoffError as error:
            return error
        return {id_: each.digest for id_, each in located.items() if each.digest is not None}


def _judged(
    batch: Batch, stored: dict[str, int | str], sealed: dict[str, int | str]
) -> PayoffError | Sequence[Row]:
    """The rows that are new, noted in `stored`; an error where one of the ids stands for something
    else.
    """
    stored |= {**sealed, **stored}
    taken = [i for i, row in enumerate(batch.rows) if stored.get(row.id, row.digest) != row.digest]
    if taken:
        return _conflict(batch, taken, stored)
    new = [row for row in batch.rows if row.id not in stored]
    stored |= {row.id: row.digest for row in new}
    return new


def _conflict(batch: Batch, taken: Sequence[int], stored: Mapping[str, int | str]) -> IdsTaken:
    places = batch.positions or range(len(batch.rows))
    flaws = [
        Flaw(
            place_of(batch.place, places[i]),
            f"the decision {batch.rows[i].id!r} was erased; its id cannot be used again"
            if stored[batch.rows[i].id] == _ERASED
            else f"the id {batch.rows[i].id!r} was recorded with another decision",
        )
        for i in taken[:MAX_ERRORS]
    ]
    more = f"; {len(taken):,} ids are concerned" if len(taken) > 1 else ""
    return IdsTaken(f"{flaws[0].msg}; nothing of this request was recorded{more}", flaws)
