"""A copy of everything that must not be lost, and the way back, whatever database and storage are in use.

A backup is a folder: `models`, which is a registry's folder by itself, `datasets`, `tables.jsonl` with the rows of the
other tables, and `backup.json`, written last: without it the backup is not one. Rows and models are copied as they were
at the same moment, since one snapshot of the database has the rows and the index of models. A published version never
changes, so its files can be copied after the snapshot; where one was deleted meanwhile, a newer snapshot is taken. Data
sets are in no transaction: they are those of the end of the copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select, text

from app import __version__
from app.errors import Conflict, Damaged, NotFound
from app.migrations import REVISION, current, known
from app.registry import tables as registry
from app.registry.copying import Copied, Published
from app.storage import Storage
from app.usecases.ports import Ports

FORMAT: Final = 1
_SEAL = "backup.json"
_ROWS = "tables.jsonl"
_BATCH = 500
_ROUNDS = 5
_MISSPELT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?!//)")
# The index is made from the models, revisions are the program's, and workers come and go.
_NOT_COPIED = {*registry.TABLES.tables, REVISION.name, "workers"}


@dataclass(frozen=True)
class _Moment:
    """What one snapshot of the database contains: rows by table, the revision of the tables, the index of models."""

    rows: Mapping[str, list[dict[str, Any]]]
    revision: str | None
    published: Published


@dataclass(frozen=True)
class Report:
    """What is in the copy, and what could not be copied, with the reason."""

    models: int
    datasets: int
    rows: Mapping[str, int]
    left_out: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a terminal."""
        rows = ", ".join(f"{count} in {name}" for name, count in sorted(self.rows.items()))
        return [
            f"{self.models} versions of models, {self.datasets} data sets, rows: {rows}",
            *(f"left out: {line}" for line in self.left_out),
        ]


def check_place(url: str, stores: Mapping[str, str]) -> None:
    """Conflict where a backup to or from `url` would lie within a store, `stores` by setting, or is a URL misspelt."""
    if _MISSPELT.match(url):
        raise Conflict(f"{url} is neither a folder nor a URL such as s3://bucket/path")
    for setting, store in stores.items():
        if f"{_plain(url)}/".startswith(f"{_plain(store)}/"):
            raise Conflict(f"{url} lies within {setting}: name a place outside of it")


def _plain(url: str) -> str:
    return url.rstrip("/") if "://" in url else str(Path(url).resolve()).rstrip("/")


def backup(ports: Ports, url: str) -> Report:
    """Copy everything to a new place, a folder or any fsspec URL; one that was interrupted is continued.

    The service may run meanwhile, and no transaction is open while files are copied. Damaged models and data sets are
    left out, and reported. Conflict where a backup is there already.
    """
    target = Storage(url, _SEAL)
    with suppress(NotFound):
        target.read_alone(_SEAL)
        raise Conflict("there is a backup already: name a new place")
    moment, models = _copy_models(ports, _below(url, "models"))
    datasets, damaged = ports.datasets.copy_to(_below(url, "datasets"))
    target.write(_ROWS, _to_lines(moment.rows))
    counted = {name: len(found) for name, found in moment.rows.items()}
    report = Report(models.versions, datasets, counted, (*models.left_out, *damaged))
    seal = {"format": FORMAT, "made_by": __version__, "revision": moment.revision, "at": datetime.now(UTC).isoformat()}
    counts = {"models": report.models, "datasets": report.datasets, "rows": report.rows, "left_out": report.left_out}
    target.write(_SEAL, json.dumps(seal | counts, indent=1).encode() + b"\n")
    return report


def _copy_models(ports: Ports, url: str) -> tuple[_Moment, Copied]:
    """Copy the models of one moment: of a later one where versions were deleted before they were copied."""
    for _ in range(_ROUNDS):
        moment = _read(ports)
        copied = ports.registry.copy_to(url, moment.published)
        if not copied.reasons or copied.reasons.keys() <= _read(ports).published.digests.keys():
            break
    return moment, copied


def _read(ports: Ports) -> _Moment:
    with ports.database.reading(without_timeout=True) as connection:
        every = {name: list(_rows(connection, table)) for name, table in _tables(connection).items()}
        rows = {name: found for name, found in every.items() if found}
        return _Moment(rows, current(connection), ports.registry.published(connection))


def restore(ports: Ports, url: str) -> Report:
    """Restore a backup into a service that is empty; an interrupted restore is continued.

    NotFound where there is no backup, Conflict where there is something already or a newer service made it. Jobs that
    ran when the backup was made are tried again.
    """
    source = Storage(url, _SEAL)
    _check(source)
    rows = _from_lines(source.read_alone(_ROWS))
    with ports.database.reading() as connection:
        _check_empty(connection, rows)
    models = ports.registry.copy_from(_below(url, "models"))
    datasets, damaged = ports.datasets.copy_from(_below(url, "datasets"))
    with ports.database.writing(without_timeout=True) as connection:
        _check_empty(connection, rows)
        for name, table in _tables(connection).items():
            found = rows.get(name, [])
            for start in range(0, len(found), _BATCH):
                connection.execute(insert(table), found[start : start + _BATCH])
            _go_on_counting(connection, table)
    return Report(
        models.versions, datasets, {name: len(found) for name, found in rows.items()}, (*models.left_out, *damaged)
    )


def _check(source: Storage) -> None:
    try:
        seal = json.loads(source.read_alone(_SEAL))
    except NotFound as absent:
        raise NotFound(f"there is no backup: {_SEAL} is not there, or a backup was broken off") from absent
    except ValueError as error:
        raise Damaged(f"{_SEAL} is not JSON") from error
    newest = known()[-1]
    if seal["format"] > FORMAT or seal["revision"] > newest:
        raise Conflict(
            f"this backup has format {seal['format']} and revision {seal['revision']}, made by version"
            f" {seal['made_by']}; this one reads up to format {FORMAT} and revision {newest}: install that version"
        )


def _check_empty(connection: Connection, rows: Mapping[str, Any]) -> None:
    tables = _tables(connection)
    for name in rows:
        if name not in tables:
            raise Conflict(f"the backup has a table {name!r} that this version does not know")
        if connection.execute(select(func.count()).select_from(tables[name])).scalar():
            raise Conflict(f"the table {name!r} is not empty: restore into a new database")


def _tables(connection: Connection) -> dict[str, Table]:
    """What is copied row by row, as it is in the database: whatever later versions add is among it."""
    found = MetaData()
    names = [name for name in inspect(connection).get_table_names() if name not in _NOT_COPIED]
    found.reflect(connection, only=names)
    return {table.name: table for table in found.sorted_tables}


def _rows(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings():
        yield dict(row)


def _to_lines(rows: Mapping[str, list[dict[str, Any]]]) -> bytes:
    lines = [json.dumps({"table": name, "row": row}) for name, found in rows.items() for row in found]
    return "".join(f"{line}\n" for line in lines).encode()


def _from_lines(content: bytes) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            document = json.loads(line)
            rows.setdefault(document["table"], []).append(document["row"])
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"line {number} of {_ROWS} is not a row of a table") from error
    return rows


def _go_on_counting(connection: Connection, table: Table) -> None:
    """PostgreSQL counts numbers apart from the rows that have them; SQLite looks at the rows."""
    if connection.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        sequence = connection.execute(
            text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": table.name, "column": column.name}
        ).scalar()
        last = connection.execute(select(func.max(column))).scalar() if sequence else None
        if last is not None:
            connection.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})


def _below(url: str, name: str) -> str:
    return f"{url.rstrip('/')}/{name}"
