"""Decisions are recorded before they are answered: one thread stores all that wait, in one
transaction.

It uses the driver's own statements, so that a decision is stored in about the time of a commit.
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

MAX_ROWS = 50_000  # of one request: other requests wait while they are written
_MAX_PENDING = 200_000  # rows, about 1 kB of memory each
_GROUP_ROWS = 2_000  # of one transaction, unless one request has more
_LARGE_ROWS = 500  # of a request; smaller requests are stored before large ones
_STOP_SECONDS = 6.0
# The terms' time is written again after this time, so that `used_at` is true to within an hour.
_TERMS_SECONDS = 3000.0
_MAX_TERMS = 10_000  # remembered
# Sealed days of the ids of a request: other requests wait while their files are read.
_MAX_DAYS = 31
_IDS_OF_QUERY = 300  # which has each id three times: SQLite has at least 999 parameters
_ROWS_OF_STATEMENT = 64
_ATTEMPTS = 3
# after which nothing is tried again: the file was locked for this time
_RETRY_SECONDS = 5.0
_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
_ERASED = "erased"
_DIGESTS_OF_IDS = (
    "SELECT id, digest FROM decisions WHERE id {0}"
    " UNION ALL SELECT id, digest FROM sealed_ids WHERE id {0}"
    " UNION ALL SELECT id_digest, NULL FROM erased_decisions WHERE id_digest {0}"
)
Locate = Callable[[Collection[str], Allows, float], Mapping[str, Located]]


_Answer = tuple[asyncio.Future[None], BaseException | None]


class _Waiting(NamedTuple):
    batch: Batch
    answer: asyncio.Future[None]


class Recorder:
    """Stores the decisions of all requests of this process; `totals` counts them.

    A request waits for the transaction that has its rows; the errors of other requests do not
    concern it. On PostgreSQL large batches have a thread and a connection of their own; SQLite has
    one writer at a time.
    """

    def __init__(
        self, database: Database, locate: Locate, *, keep_seconds: float | None = None
    ) -> None:
        self.keep_seconds = keep_seconds  # after which decisions are deleted
        self.totals = Totals()
        self._lanes = [
            _Lane(self, database, locate) for _ in range(1 if database.is_sqlite else 2)
        ]
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
            lane = self._lanes[-1 if count >= _LARGE_ROWS else 0]
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
        """Record the batches that wait, for at most `_STOP_SECONDS`, and close the connections."""
        with self._lock:
            self._stopped = True
        started = [lane for lane in self._lanes if lane.thread.ident is not None]
        for lane in started:
            lane.queue.put(None)
        for lane in started:
            lane.thread.join(_STOP_SECONDS)

    def settle(
        self,
        group: Sequence[_Waiting],
        results: Sequence[BaseException | Sequence[Row]],
    ) -> None:
        """Count the results and answer the requests of the group, with one call to each loop."""
        answers: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(
            list
        )
        rows: list[Row] = []
        for waiting, result in zip(group, results, strict=True):
            error = result if isinstance(result, BaseException) else None
            answers[waiting.answer.get_loop()].append((waiting.answer, error))
            if not isinstance(result, BaseException):
                rows.extend(result)
            elif not isinstance(result, Conflict | Invalid):
                self.totals.failures.inc()
        self.totals.add(rows)
        with self._lock:
            self.pending -= sum(len(waiting.batch.rows) for waiting in group)
        for loop, answers_of_loop in answers.items():
            with suppress(
                RuntimeError
            ):  # the loop was closed: no client waits any more
                loop.call_soon_threadsafe(_answer, answers_of_loop)


class _Lane:
    """A thread with a connection, and the batches that wait for it."""

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
        """Start the thread with the first batch; where the system refuses a thread, the next batch
        tries again.
        """
        if self.has_ended:
            raise Unavailable(
                "decisions cannot be recorded until the service is started again"
            )
        if self.thread.ident is None:
            self.thread.start()

    def _run(self) -> None:
        while group := self._next_group():
            self._recorder.settle(group, self._written(group))
        self._store.close()

    def _next_group(self) -> list[_Waiting]:
        """The next batches, small ones before large ones, which go alone; none at the end."""
        group: list[_Waiting] = []
        rows = 0
        while rows < _GROUP_ROWS and not self._ends:
            try:
                waiting = self.queue.get(block=not (group or self._large))
            except Empty:
                break
            if waiting is None:
                self._ends = True
            elif len(waiting.batch.rows) >= _LARGE_ROWS:
                self._large.append(waiting)
            else:
                group.append(waiting)
                rows += len(waiting.batch.rows)
        if not group and self._large:
            return [self._large.popleft()]
        return group

    def _written(
        self, group: Sequence[_Waiting]
    ) -> Sequence[BaseException | Sequence[Row]]:
        """The new rows of each batch, or its error. Where a row of one batch may be the cause of an
        error, each batch is tried alone.
        """
        try:
            return self._store.write([waiting.batch for waiting in group])
        except Exception as error:  # noqa: BLE001 - it is an answer
            if isinstance(error, DatabaseAway) or len(group) == 1:
                return [error] * len(group)
            return [self._written([waiting])[0] for waiting in group]


def _answer(answers: Sequence[_Answer]) -> None:
    for answer, error in answers:
        if answer.done():  # the request was cancelled
            continue
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


class IdsTaken(Conflict):
    """Ids that stand for other decisions already"""


class RowStore:
    """Writes rows over a connection of one thread, which is not one of the pool's.

    The connection is opened again where it was lost. `locate` finds sealed decisions.
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
            f"INSERT INTO decision_terms VALUES ({mark}, {mark}, {mark})"  # noqa: S608
            " ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at"
        )
        # An erasure commits before this transaction or after it, never during it.
        lock = f"SELECT pg_advisory_xact_lock_shared({RECORDING_LOCK})"
        self._begin = "BEGIN IMMEDIATE" if database.is_sqlite else f"BEGIN; {lock}"

    def write(self, batches: Sequence[Batch]) -> list[PayoffError | Sequence[Row]]:
        """Store batches durably: of each its new rows, or the error because of which none of its
        rows is stored, such as IdsTaken.

        A batch whose ids all stand for the same decisions already is accepted. DatabaseAway where
        the database does not answer; then all rows may be stored or none, and they may be sent
        again. Raises another error where a row cannot be stored; then none of the batches is.
        """
        # whether some of the rows may be stored, by us or another process
        doubtful = False
        started_at = monotonic()
        for attempt in range(_ATTEMPTS):
            try:
                with self._database.translating():
                    return self._write(batches, doubtful=doubtful)
            except self._database.driver.IntegrityError:
                # Another process stored one of the ids in between.
                if attempt == _ATTEMPTS - 1:
                    raise
            except Exception as error:
                self.close()
                is_late = attempt > 0 or monotonic() - started_at > _RETRY_SECONDS
                if is_late or not isinstance(error, DatabaseAway):
                    raise
            doubtful = True
        raise AssertionError("unreachable")

    def close(self) -> None:
        connection = self._connection
        self._connection = None
        self._driver = None
        # The next connection may lead to another database: a standby, or a restored one.
        self._known_terms.clear()
        if connection is not None:
            with suppress(Exception):  # it may be broken
                connection.close()

    def _write(
        self, batches: Sequence[Batch], *, doubtful: bool
    ) -> list[PayoffError | Sequence[Row]]:
        if self._driver is None:
            self._connection = self._database.own_connection()
            self._driver = self._connection.connection.dbapi_connection
        used_at = (
            time()
        )  # terms are deleted by this clock; the monotonic one may stand still
        terms = {
            digest: batch.terms[digest]
            for batch in batches
            for digest in batch.terms
            if abs(used_at - self._known_terms.get(digest, -inf)) >= _TERMS_SECONDS
        }
        # The batches whose ids may be stored already.
        repeatable = [doubtful or batch.has_ids_of_client for batch in batches]
        rows = [row for batch in batches for row in batch.rows]
        if not terms and len(rows) <= _ROWS_OF_STATEMENT and not any(repeatable):
            self._insert(rows)  # a transaction of its own
            return [batch.rows for batch in batches]
        checks = list(zip(batches, repeatable, strict=True))
        sealed = [self._sealed(batch) if check else {} for batch, check in checks]
        self._driver.execute(self._begin)
        try:
            ids = [row.id for batch, check in checks if check for row in batch.rows]
            stored = self._stored(ids) if ids else {}
            results: list[PayoffError | Sequence[Row]] = []
            for (batch, check), digests in zip(checks, sealed, strict=True):
                if not check:
                    results.append(batch.rows)
                elif isinstance(digests, PayoffError):
                    results.append(digests)
                else:
                    results.append(_new_rows(batch, stored, digests))
            for digest in sorted(terms):
                self._driver.execute(
                    self._insert_terms, (digest, terms[digest].content, used_at)
                )
            self._insert(
                [
                    row
                    for result in results
                    if not isinstance(result, PayoffError)
                    for row in result
                ]
            )
            self._driver.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be lost
                self._driver.execute("ROLLBACK")
            raise
        if len(self._known_terms) > _MAX_TERMS:
            self._known_terms.clear()
        self._known_terms.update(dict.fromkeys(terms, used_at))
        return results

    def _insert(self, rows: Sequence[Row]) -> None:
        """Write many rows with one statement, which waits for the interpreter's lock once."""
        if len(rows) > 1 and not self._database.is_sqlite:
            with (
                self._driver.cursor() as cursor,
                cursor.copy(f"COPY decisions ({_COLUMNS}) FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
            return
        for part in chunks(rows, _ROWS_OF_STATEMENT):
            values = ", ".join([self._values] * len(part))
            statement = f"INSERT INTO decisions ({_COLUMNS}) VALUES {values}"  # noqa: S608
            self._driver.execute(statement, [*chain.from_iterable(part)])

    def _stored(self, ids: Sequence[str]) -> dict[str, int | str]:
        """The digest of the decision that each of these ids stands for, where it stands for one."""
        by_hash = {id_digest(id_): id_ for id_ in ids}
        digests: dict[str, int | str] = {}
        for hashes in chunks(by_hash, _IDS_OF_QUERY):
            part = [by_hash[hash_] for hash_ in hashes]
            if self._database.is_sqlite:
                query = _DIGESTS_OF_IDS.format(f"IN ({', '.join('?' * len(part))})")
                rows = self._driver.execute(query, [*part, *part, *hashes])
            else:
                query = _DIGESTS_OF_IDS.format("= ANY(%s)")
                rows = self._driver.execute(query, (part, part, hashes), prepare=True)
            for key, digest in rows:
                if digest is None:
                    digests[by_hash[key]] = _ERASED
                else:
                    digests[key] = digest
        return digests

    def _sealed(self, batch: Batch) -> PayoffError | dict[str, int | str]:
        """The digests, as of `_stored`, of decisions that only files have: those with an id of the
        service, of an earlier day.

        An error where the files cannot be read; it concerns this batch, and not the batches that
        are written with it.
        """
        today = day_of(time())
        days = {row.id: day_of_id(row.id) for row in batch.rows if row.id[14:15] == "7"}
        ids = [id_ for id_, day in days.items() if day is not None and day < today]
        if not ids:
            return {}
        try:
            located = self._locate(
                ids, {row.model for row in batch.rows}.__contains__, _MAX_DAYS
            )
        except DatabaseAway:
            raise
        except Invalid as error:
            return Invalid.at(batch.place, error.detail)
        except PayoffError as error:
            return error
        return {
            id_: decision.digest
            for id_, decision in located.items()
            if decision.digest is not None
        }


def _new_rows(
    batch: Batch, stored: dict[str, int | str], sealed: dict[str, int | str]
) -> PayoffError | Sequence[Row]:
    """The new rows, after adding them to `stored`; an error where an id has another decision."""
    stored |= {**sealed, **stored}
    conflicts = [
        i
        for i, row in enumerate(batch.rows)
        if stored.get(row.id, row.digest) != row.digest
    ]
    if conflicts:
        return _conflict(batch, conflicts, stored)
    rows = [row for row in batch.rows if row.id not in stored]
    stored |= {row.id: row.digest for row in rows}
    return rows


def _conflict(
    batch: Batch, indices: Sequence[int], stored: Mapping[str, int | str]
) -> IdsTaken:
    """The error of a batch whose rows at `indices` have ids of other decisions."""
    places = batch.positions or range(len(batch.rows))
    flaws = []
    for i in indices[:MAX_ERRORS]:
        id_ = batch.rows[i].id
        message = f"the id {id_!r} was recorded with another decision"
        if stored[id_] == _ERASED:
            message = f"the decision {id_!r} was erased; its id cannot be used again"
        flaws.append(Flaw(place_of(batch.place, places[i]), message))
    count = f"; {len(indices):,} ids are concerned" if len(indices) > 1 else ""
    return IdsTaken(
        f"{flaws[0].msg}; nothing of this request was recorded{count}", flaws
    )
