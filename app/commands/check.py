"""Whether an installation can work, and how to fix what it lacks: `payoff check`."""

import argparse
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import SecretStr, ValidationError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.database import migrations
from app.database.engine import Database, DatabaseAway
from app.opening import open_stores, unknown_settings
from app.settings import Settings, setting_errors
from app.storage import Storage
from app.storage.disks import unwritable
from app.stores import Stores
from payoff.errors import PayoffError, counted

_MB = 2**20
_MIN_FREE_MB = 2048  # of a disk, without a warning
_QUICK_BYTES = 2**28  # of an SQLite file, whose pages are checked in about a second
_DISK = (
    "see that its disk has room, is sound and mounted for writing,"
    f" and that uid {os.getuid()} may write there"
)
_LISTED = "docs/reference/settings.md lists all settings"


@dataclass(frozen=True)
class Finding:
    """The result of one check, and its fix: `wrong` keeps the service from working, a `warning` may
    do so later.
    """

    check: str
    level: Literal["ok", "warning", "wrong"]
    text: str
    fix: str = ""


def run(chosen: argparse.Namespace) -> int:
    """Print what every check finds; 1 where something is wrong."""
    logging.disable()  # the findings are printed below, once
    try:
        findings = check(Settings(), os.environ, deep=chosen.deep)
    except ValidationError as error:
        fix = f"{_LISTED}; no other check was run"
        findings = [
            *_unknown(os.environ),
            *(
                Finding("settings", "wrong", message, fix)
                for message in setting_errors(error)
            ),
        ]
    for finding in findings:
        print(f"{finding.level:<9}{finding.check:<10}{finding.text}")
        if finding.fix:
            print(f"{'':19}fix: {finding.fix}")
    return int(any(finding.level == "wrong" for finding in findings))


def check(
    settings: Settings, environment: Mapping[str, str], *, deep: bool = False
) -> list[Finding]:
    """What every check finds. `deep` reads every file of every model, not the cards alone.

    Makes the folders that a start would make, writes and removes a small file in each store, and
    changes nothing else.
    """
    findings = list(_settings(settings, environment))
    try:
        stores = open_stores(settings)
    except PayoffError as error:
        fix = f"{_LISTED}; no other check was run"
        return [*findings, Finding("home", "wrong", error.detail, fix)]
    except OSError as error:
        message = f"{error.filename}: {error.strerror or error}"
        return [
            *findings,
            Finding("home", "wrong", message, f"{_DISK}; no other check was run"),
        ]
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "database": lambda: _database(stores.database),
        "keys": lambda: _keys(stores, settings.admin_key),
        "models": lambda: [
            *_storage("models", settings.models, "PAYOFF_MODELS"),
            *_models(stores, deep=deep),
        ],
        "datasets": lambda: _storage(
            "datasets", settings.datasets_url, "PAYOFF_DATASETS"
        ),
        "decisions": lambda: _storage(
            "decisions", settings.decisions_url, "PAYOFF_DECISIONS"
        ),
    }
    for name, run_check in checks.items():
        try:
            findings += run_check()
        except (PayoffError, SQLAlchemyError) as error:
            message = f"not checked: {getattr(error, 'detail', type(error).__name__)}"
            fix = "check whether database and store can be reached from here"
            findings.append(Finding(name, "wrong", message, fix))
    stores.database.close()
    return findings


def _settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Misspelt variables, and settings that are allowed but risky."""
    yield from _unknown(environment)
    yield Finding("settings", "ok", f"{len(settings.model_fields_set)} set")


def _keys(stores: Stores, admin_key: SecretStr | None) -> Iterator[Finding]:
    """The service is open to any client only where no key was ever made."""
    with stores.database.reading() as connection:
        has_tables = migrations.current(connection) is not None
    keys = stores.keys.list() if has_tables else []
    number = sum(key.revoked_at is None for key in keys)
    if keys or admin_key is not None:
        admin = "PAYOFF_ADMIN_KEY, " if admin_key is not None else ""
        yield Finding("keys", "ok", f"{admin}{counted(number, 'key')} in the table")
        return
    message = "there are none: any client that reaches the service has all permissions"
    fix = (
        "unless only trusted clients can reach the service, set PAYOFF_ADMIN_KEY,"
        " or payoff keys create"
    )
    yield Finding("keys", "warning", message, fix)


def _unknown(environment: Mapping[str, str]) -> list[Finding]:
    return [
        Finding("settings", "warning", message, _LISTED)
        for message in unknown_settings(environment)
    ]


def _database(database: Database) -> Iterator[Finding]:
    """The database answers, is sound and writable, and its tables fit this program."""
    name = database.engine.url.render_as_string(hide_password=True)
    file = database.file
    integrity = "ok"
    try:
        with database.reading() as connection:
            revision = migrations.current(connection)
            if file and Path(file).stat().st_size <= _QUICK_BYTES:
                integrity = str(
                    connection.execute(text("PRAGMA quick_check(1)")).scalar()
                )
    except DatabaseAway as error:
        fix = (
            "check PAYOFF_DATABASE, and whether the database runs; "
            "a damaged file: restore a backup"
        )
        yield Finding(
            "database", "wrong", f"{name} cannot be used: {error.reason}", fix
        )
        return
    obstacle = unwritable(file) if file else ""
    if integrity != "ok":
        yield Finding(
            "database", "wrong", f"{name} is damaged: {integrity}", "restore a backup"
        )
    elif obstacle:
        message = f"{name} is readable, but not writable: {obstacle}"
        yield Finding("database", "wrong", message, _DISK)
    elif revision not in (None, *migrations.known()):
        message = f"{name} is at revision {revision}, which this program does not know"
        fix = "install the version that made it, or use another database"
        yield Finding("database", "wrong", message, fix)
    else:
        tables = "the first start makes its tables"
        if revision:
            tables = f"its tables are at revision {revision}"
        yield Finding("database", "ok", f"{name} answers, {tables}")


def _storage(name: str, url: str, setting: str) -> Iterator[Finding]:
    """A file can be written, read and removed, and the storage's disk has room."""
    probe = f"_check-{secrets.token_hex(8)}"
    try:
        storage = Storage(url, "probe", name=setting)
        storage.write(f"{probe}/probe", b"probe")
        storage.read(probe, "probe")
        storage.remove(probe)
    except (PayoffError, OSError, ValueError) as error:
        message = f"{url} cannot be used: {getattr(error, 'detail', error)}"
        fix = f"{_DISK}, or set {setting}"
        if Storage.is_remote(url):
            fix = f"check {setting} and the AWS_… variables"
        yield Finding(name, "wrong", message, fix)
        return
    if "://" in url:
        yield Finding(name, "ok", f"{url} is writable")
        return
    free = shutil.disk_usage(url).free / _MB
    message = f"{url} is writable, {free:,.0f} MB are free"
    if free < _MIN_FREE_MB:
        fix = "make room: delete data sets, or set PAYOFF_KEEP_JOBS_DAYS"
        yield Finding(name, "warning", message, fix)
    else:
        yield Finding(name, "ok", message)


def _models(stores: Stores, *, deep: bool) -> Iterator[Finding]:
    """Every published version can be loaded; before the first start there is none."""
    with stores.database.reading() as connection:
        started = migrations.current(connection) is not None
    versions, unusable = stores.registry.unusable(deep=deep) if started else (0, [])
    for message in unusable:
        fix = "restore its folder from a backup, or delete the version"
        yield Finding("models", "wrong", message, fix)
    if not unusable:
        files = "all files" if deep else "the cards"
        yield Finding("models", "ok", f"{files} of {versions} versions checked")
