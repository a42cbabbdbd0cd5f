"""What is looked at in the stores: database, models, data sets, jobs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, time

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app import migrations
from app.database import Database, DatabaseAway
from app.doctor.finding import Finding, ok, warning, wrong
from app.doctor.machine import check_room
from app.errors import PayoffError, Unavailable
from app.jobs.pulse import pulse
from app.registry.registry import Registry
from app.settings import Settings
from app.storage import Storage
from app.usecases.ports import Ports

_SKEW_SECONDS = 5.0
_LONG_SECONDS = 300.0
_MOST_NAMED = 5


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
    except DatabaseAway as error:
        yield wrong("database", f"{name} does not answer: {error.why}", "PAYOFF_DATABASE names it; is it running?")
        return
    milliseconds = (perf_counter() - began) * 1e3
    yield _revision(name, revision, milliseconds)
    if abs(skew) > _SKEW_SECONDS:
        yield warning(
            "database",
            f"its clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "let both follow a time server; jobs go by the database's clock and are safe",
        )


def _revision(name: str, revision: str | None, milliseconds: float) -> Finding:
    known = migrations.known()
    answers = f"{name} answers in {milliseconds:.0f} ms"
    if revision == known[-1]:
        return ok("database", f"{answers}, its tables are at revision {revision}")
    if revision is None:
        return ok("database", f"{answers}; it has no tables yet, the first start makes them")
    if revision in known:
        text = f"{answers}, its tables are at revision {revision}, and this program needs {known[-1]}"
        return warning("database", text, "back it up; the next start of this version brings it up to date")
    return wrong(
        "database",
        f"{name} is at revision {revision}, which this program does not know",
        "install the newer version that made it, or name another database",
    )


def check_storage(check: str, url: str, setting: str) -> Iterator[Finding]:
    """A store takes a file, gives it back and lets it go."""
    began = perf_counter()
    probe, content = f"_doctor-{secrets.token_hex(8)}", secrets.token_bytes(64)
    mend = f"{setting} names it; a store on the network takes its address and keys from the AWS_… variables"
    try:
        storage = Storage(url, "probe", name=setting)
        storage.write(f"{probe}/probe", content)
        same = storage.read(probe, "probe") == content
        storage.remove(probe)
    except (PayoffError, OSError, ValueError) as error:
        yield wrong(check, f"{url} cannot be used: {getattr(error, 'detail', error)}", mend)
        return
    if not same:
        yield wrong(check, f"{url} gives back other bytes than it was given", mend)
    elif "://" in url:
        yield ok(check, f"{url} takes, gives and removes a file, together in {(perf_counter() - began) * 1e3:.0f} ms")
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
    for text in audit.unusable[:_MOST_NAMED]:
        yield wrong("index", text, "put its folder back from a backup, or delete the version")
    if len(audit.unusable) > _MOST_NAMED:
        more = len(audit.unusable) - _MOST_NAMED
        yield wrong("index", f"{more} more versions that cannot be loaded", "as above")
    yield from _skewed(audit.skewed, settings)
    if audit.left_over:
        named = ", ".join(audit.left_over[:_MOST_NAMED]) + (", …" if len(audit.left_over) > _MOST_NAMED else "")
        yield warning(
            "index",
            f"{len(audit.left_over)} folders that belong to no version of the index: {named}",
            "`payoff reindex` brings back what was published; what was not can be removed while no job runs",
        )
    for text in audit.mirrors[:_MOST_NAMED]:
        yield warning("index", text, "moving any alias of that model writes its index file anew")
    if not audit.unusable:
        depth = "all files" if deep else "cards and signatures" if settings.signing_key else "cards"
        yield ok("index", f"{audit.versions} versions of {audit.models} models, {depth} of {audit.looked_at} looked at")


def _skewed(skewed: dict[str, int], settings: Settings) -> Iterator[Finding]:
    for version, count in skewed.items():
        text = f"{count} versions were made with scikit-learn {version}, another than is installed"
        if settings.allow_version_skew:
            yield warning("index", f"{text}, and are loaded all the same", "train them again")
        else:
            yield wrong("index", f"{text}: they are not loaded", "train them again, or install that scikit-learn")


def check_jobs(ports: Ports) -> Iterator[Finding]:
    """There is somebody to do what is ordered."""
    try:
        state = pulse(ports.queue)
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
    """What is said of things in a database that does not tell them: before the first start there are none."""
    try:
        with database.reading() as connection:
            first = migrations.current(connection) is None
    except DatabaseAway:
        first = False
    return ok(check, "none yet") if first else wrong(check, "not looked at: the database does not tell", "see database")
