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
from app.settings import Settings, refused
from app.storage import Storage
from app.storage.disks import unwritable
from app.stores import Stores
from payoff.errors import PayoffError, counted

_MB = 2**20
_LITTLE_MB = 2048
_QUICK_BYTES = 2**28  # of an SQLite file, looked through in about a second
_DISK = f"see that its disk has room, is sound and mounted for writing, and that uid {os.getuid()} may write there"
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
            *(Finding("settings", "wrong", each, fix) for each in refused(error)),
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
    found = list(_settings(settings, environment))
    try:
        stores = open_stores(settings)
    except (PayoffError, OSError) as error:
        words = (
            error.detail
            if isinstance(error, PayoffError)
            else f"{error.filename}: {error.strerror or error}"
        )
        fix = f"{_DISK if isinstance(error, OSError) else _LISTED}; no other check was run"
        return [*found, Finding("home", "wrong", words, fix)]
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "database": lambda: _database(stores.database),
        "keys": lambda: _keys(stores, settings.admin_key),
        "models": lambda: [
            *_storage("models", settings.models, "PAYOFF_MODELS"),
            *_models(stores, deep=deep),
        ],
        "datasets": lambda: _storage("datasets", settings.datasets_url, "PAYOFF_DATASETS"),
        "decisions": lambda: _storage("decisions", settings.decisions_url, "PAYOFF_DECISIONS"),
    }
    for name, one in checks.items():
        try:
            found += one()
        except (PayoffError, SQLAlchemyError) as error:
            words = f"not checked: {getattr(error, 'detail', type(error).__name__)}"
            found.append(
                Finding(
                    name,
                    "wrong",
                    words,
                    "check whether database and store can be reached from here",
                )
            )
    stores.database.close()
    return found


def _settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Misspelt variables, and settings that are allowed but risky."""
    yield from _unknown(environment)
    yield Finding("settings", "ok", f"{len(settings.model_fields_set)} set")


def _keys(stores: Stores, admin_key: SecretStr | None) -> Iterator[Finding]:
    """The service is open to everybody only where no key was ever made."""
    with stores.database.reading() as connection:
        has_tables = migrations.current(connection) is not None
    keys = stores.keys.list() if has_tables else []
    number = sum(key.revoked_at is None for key in keys)
    if keys or admin_key is not None:
        beside = "PAYOFF_ADMIN_KEY, " if admin_key is not None else ""
        yield Finding("keys", "ok", f"{beside}{counted(number, 'key')} in the table")
        return
    words = "there are none: any client that reaches the service has all permissions"
    fix = "unless only trusted clients can reach the service, set PAYOFF_ADMIN_KEY, or payoff keys create"
    yield Finding("keys", "warning", words, fix)


def _unknown(environment: Mapping[str, str]) -> list[Finding]:
    return [
        Finding("settings", "warning", message, _LISTED)
        for message in unknown_settings(environment)
    ]


def _database(database: Database) -> Iterator[Finding]:
    """It answers, is sound and writable, and its tables fit this program."""
    name, file = database.engine.url.render_as_string(hide_password=True), database.file
    try:
        with database.reading() as connection:
            revision = migrations.current(connection)
            small = file and Path(file).stat().st_size <= _QUICK_BYTES
            sound = connection.execute(text("PRAGMA quick_check(1)")).scalar() if small else "ok"
    except DatabaseAway as error:
        fix = (
            "check PAYOFF_DATABASE, and whether the database runs; a damaged file: restore a backup"
        )
        yield Finding("database", "wrong", f"{name} cannot be used: {error.why}", fix)
        return
    found = unwritable(file) if file else ""
    if sound != "ok":
        yield Finding("database", "wrong", f"{name} is damaged: {sound}", "restore a backup")
    elif found:
        yield Finding("database", "wrong", f"{name} is readable, but not writable: {found}", _DISK)
    elif revision not in (None, *migrations.known()):
        words = f"{name} is at revision {revision}, which this program does not know"
        yield Finding(
            "database", "wrong", words, "install the version that made it, or use another database"
        )
    else:
        tables = (
            f"its tables are at revision {revision}"
            if revision
            else "the first start makes its tables"
        )
        yield Finding("database", "ok", f"{name} answers, {tables}")


def _storage(name: str, url: str, setting: str) -> Iterator[Finding]:
    """A file can be written, read and removed, and its disk has room."""
    probe = f"_check-{secrets.token_hex(8)}"
    try:
        storage = Storage(url, "probe", name=setting)
        storage.write(f"{probe}/probe", b"probe")
        storage.read(probe, "probe")
        storage.remove(probe)
    except (PayoffError, OSError, ValueError) as error:
        fix = (
            f"check {setting} and the AWS_… variables"
            if Storage.is_remote(url)
            else f"{_DISK}, or set {setting}"
        )
        yield Finding(
            name, "wrong", f"{url} cannot be used: {getattr(error, 'detail', error)}", fix
        )
        return
    free = None if "://" in url else shutil.disk_usage(url).free / _MB
    words = f"{url} is writable" + ("" if free is None else f", {free:,.0f} MB are free")
    if free is not None and free < _LITTLE_MB:
        yield Finding(
            name, "warning", words, "make room: delete data sets, or set PAYOFF_KEEP_JOBS_DAYS"
        )
    else:
        yield Finding(name, "ok", words)


def _models(stores: Stores, *, deep: bool) -> Iterator[Finding]:
    """Every published version can be loaded; before the first start there is none."""
    with stores.database.reading() as connection:
        started = migrations.current(connection) is not None
    versions, unusable = stores.registry.unusable(deep=deep) if started else (0, [])
    for words in unusable:
        yield Finding(
            "models", "wrong", words, "restore its folder from a backup, or delete the version"
        )
    if not unusable:
        yield Finding(
            "models", "ok", f"{'all files' if deep else 'the cards'} of {versions} versions checked"
        )
