"""Checks of the stores: database, models, data sets, jobs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import perf_counter, time

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import SQLAlchemyError

from app import migrations
from app.database import Database, DatabaseAway
from app.disks import of_error
from app.doctor.finding import Finding, ok, warning, wrong
from app.doctor.machine import check_room
from app.errors import PayoffError, Unavailable
from app.jobs.queue_status import queue_status
from app.outcomes.identity import DAY
from app.outcomes.upkeep import due
from app.registry.consistency import Audit
from app.registry.registry import Registry
from app.settings import Settings
from app.sqlite_errors import DAMAGED, unwritable
from app.storage import Storage
from app.text import counted, some_of
from app.usecases.ports import Ports

_SKEW_SECONDS = 5.0
_LONG_SECONDS = 300.0
_MAX_NAMED = 5
_LATE_SECONDS = float(DAY)  # workers look every hour
_QUICK_BYTES = 2**28  # looked through in about a second


def check_database(database: Database) -> Iterator[Finding]:
    """It answers, its tables fit this program, and its clock agrees with ours."""
    name = database.engine.url.render_as_string(hide_password=True)
    began = perf_counter()
    try:
        with database.reading() as connection:
            revision = migrations.current(connection)
            before = time()
            now = connection.execute(select(database.now)).scalar_one()
            skew = now - (before + time()) / 2
            damage = _damage(database, connection)
    except DatabaseAway as error:
        fix = error.fix or "check PAYOFF_DATABASE, and whether the database runs"
        yield wrong("database", f"{name} cannot be used: {error.why}", fix)
        return
    milliseconds = (perf_counter() - began) * 1e3
    if damage:
        yield wrong("database", f"{name} is damaged: {damage}", DAMAGED.fix)
        return
    found = unwritable(database.engine.url.database) if database.is_sqlite and database.engine.url.database else None
    if found:
        yield wrong("database", f"{name} is readable, but not writable: {found.what}", found.fix)
        return
    yield _revision(name, revision, milliseconds)
    if abs(skew) > _SKEW_SECONDS:
        yield warning(
            "database",
            f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "synchronize both clocks; jobs use the database's clock and are not affected",
        )


def _damage(database: Database, connection: Connection) -> str:
    """The first thing that is wrong in the file of an SQLite database; empty where nothing is, or it is very large."""
    file = Path(database.engine.url.database or "")
    if not database.is_sqlite or not file.exists() or file.stat().st_size > _QUICK_BYTES:
        return ""
    found = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    return "" if found == "ok" else found


def _revision(name: str, revision: str | None, milliseconds: float) -> Finding:
    known = migrations.known()
    answers = f"{name} answers in {milliseconds:.0f} ms"
    if revision == known[-1]:
        return ok("database", f"{answers}, its tables are at revision {revision}")
    if revision is None:
        return ok("database", f"{answers}; it has no tables yet, the first start creates them")
    if revision in known:
        text = f"{answers}, its tables are at revision {revision}, but this program needs {known[-1]}"
        return warning("database", text, "back it up; the next start of this version upgrades it")
    return wrong(
        "database",
        f"{name} is at revision {revision}, which this program does not know",
        "install the newer version that created it, or use another database",
    )


def check_storage(check: str, url: str, setting: str) -> Iterator[Finding]:
    """A file can be written to a store, read and removed."""
    began = perf_counter()
    probe, content = f"_doctor-{secrets.token_hex(8)}", secrets.token_bytes(64)
    fix = f"check {setting}; for an object store also the AWS_… variables"
    try:
        storage = Storage(url, "probe", name=setting)
        storage.write(f"{probe}/probe", content)
        same = storage.read(probe, "probe") == content
        storage.remove(probe)
    except (PayoffError, OSError, ValueError) as error:
        found = of_error(error) or of_error(error.__cause__)
        yield wrong(check, f"{url} cannot be used: {getattr(error, 'detail', error)}", found.fix if found else fix)
        return
    if not same:
        yield wrong(check, f"{url} returns other bytes than were written", fix)
    elif "://" in url:
        yield ok(check, f"{url} writes, reads and removes a file in {(perf_counter() - began) * 1e3:.0f} ms")
    else:
        yield from check_room(check, Path(url).absolute())


def check_models(database: Database, registry: Registry, settings: Settings, *, deep: bool) -> Iterator[Finding]:
    """The folder of models agrees with the index, and what it has can be loaded."""
    try:
        audit = registry.audit(deep=deep)
    except (DatabaseAway, SQLAlchemyError):
        yield _not_looked_at("index", database)
        return
    except Unavailable as error:
        yield wrong("index", error.detail, "see models")
        return
    for line in audit.unusable[:_MAX_NAMED]:
        yield wrong("index", line, "restore its folder from a backup, or delete the version")
    if len(audit.unusable) > _MAX_NAMED:
        more = len(audit.unusable) - _MAX_NAMED
        yield wrong("index", f"{more} more versions that cannot be loaded", "as above")
    yield from _skewed(audit.skewed, settings)
    yield from _without_room(audit, settings.cache_mb)
    if audit.left_over:
        named = some_of(audit.left_over, _MAX_NAMED)
        yield warning(
            "index",
            f"{len(audit.left_over)} folders that belong to no version of the index: {named}",
            "`payoff reindex` brings back what was published; what was not can be removed while no job runs",
        )
    for line in audit.mirrors[:_MAX_NAMED]:
        yield warning("index", line, "move any alias of that model: that writes its index file again")
    if not audit.unusable:
        depth = "all files" if deep else "cards and signatures" if settings.signing_key else "cards"
        yield ok("index", f"{audit.versions} versions of {audit.models} models, {depth} of {audit.looked_at} checked")


def _without_room(audit: Audit, cache_mb: int) -> Iterator[Finding]:
    """The versions that aliases and names mean are loaded beforehand, in this order, as far as they fit."""
    room, named = cache_mb * 2**20, []
    for key in audit.current:
        size = audit.sizes.get(key, 0)
        if size > room:
            named.append(f"{key[0]}:{key[1]}")
        else:
            room -= size
    if named:
        needed = sum(audit.sizes.get(key, 0) for key in audit.current) // 2**20 + 1
        yield warning(
            "index",
            f"PAYOFF_CACHE_MB has no room for {some_of(named, _MAX_NAMED)}: loaded when asked for",
            f"set PAYOFF_CACHE_MB to {needed:,} or more, as far as memory allows",
        )


def _skewed(skewed: dict[str, int], settings: Settings) -> Iterator[Finding]:
    for version, count in skewed.items():
        text = f"{count} versions were trained with scikit-learn {version}, which is not the installed version"
        if settings.allow_version_skew:
            yield warning("index", f"{text}, but are loaded", "train them again")
        else:
            yield wrong("index", f"{text}, and are not loaded", "train them again, or install that scikit-learn")


def check_decisions(ports: Ports, url: str, *, deep: bool = False) -> Iterator[Finding]:
    """Days of recorded decisions can be stored, and none waits long for a worker to do so."""
    yield from check_storage("decisions", url, "PAYOFF_DECISIONS")
    try:
        with ports.database.reading() as connection:
            days = due(connection, time() - _LATE_SECONDS)
    except (DatabaseAway, SQLAlchemyError):
        yield _not_looked_at("decisions", ports.database)
        return
    yield from _files(ports, deep=deep)
    if days:
        named = some_of(
            [f"{model} of {datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}" for model, day in days], _MAX_NAMED
        )
        yield warning(
            "decisions",
            f"{counted(len(days), 'day')} of recorded decisions not yet moved out of the database: {named}",
            "run `payoff worker`, or `payoff serve` with PAYOFF_WORKERS above 0; its log says what keeps it from it",
        )


def _files(ports: Ports, *, deep: bool) -> Iterator[Finding]:
    try:
        amiss = list(islice(ports.archive.amiss(deep=deep), _MAX_NAMED))
        found = ports.archive.strangers()
        lost = ports.archive.without_terms(_MAX_NAMED + 1) if deep else []
    except Unavailable as error:
        yield wrong("decisions", error.detail, "check PAYOFF_DECISIONS")
        return
    for line in amiss:
        yield wrong("decisions", line, "restore it from a backup; reports of this day, and its outcomes, are refused")
    if lost:
        yield wrong(
            "decisions",
            f"the terms of recorded decisions are missing in the database: {some_of(lost, _MAX_NAMED)}",
            "restore it from a backup, or erase these decisions with DELETE /outcomes/{id}; no report has them",
        )
    if found:
        yield warning(
            "decisions",
            f"{counted(len(found), 'file')} of recorded decisions that the database does not know:"
            f" {some_of(found, _MAX_NAMED)}",
            "they stay, and are not read: check that PAYOFF_DATABASE and PAYOFF_DECISIONS belong together; where the"
            " database was lost, `payoff restore` a backup into a new one; remove them only where nobody needs them",
        )


def check_jobs(ports: Ports) -> Iterator[Finding]:
    """Workers are alive, and jobs do not wait long."""
    try:
        state = queue_status(ports.queue)
    except (DatabaseAway, SQLAlchemyError):
        yield _not_looked_at("jobs", ports.database)
        return
    queued, running = state.jobs["queued"], state.jobs["running"]
    text = f"{queued} queued, {running} running, {state.workers} workers alive"
    start = "run `payoff worker`, or `payoff serve` with PAYOFF_WORKERS above 0"
    if queued and not state.workers:
        yield wrong("jobs", f"{text}; the oldest has waited {state.oldest_seconds:,.0f} s", start)
    elif not state.workers:
        yield warning("jobs", text, start)
    elif state.oldest_seconds > _LONG_SECONDS:
        yield warning("jobs", f"{text}; the oldest has waited {state.oldest_seconds:,.0f} s", "start more workers")
    else:
        yield ok("jobs", text)


def _not_looked_at(check: str, database: Database) -> Finding:
    """The finding where the database cannot be read: before the first start there is nothing to read."""
    try:
        with database.reading() as connection:
            first = migrations.current(connection) is None
    except DatabaseAway:
        first = False
    return ok(check, "none yet") if first else wrong(check, "not checked: the database does not answer", "see database")
