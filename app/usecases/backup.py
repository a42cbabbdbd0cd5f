"""A copy of everything that must not be lost, and the way back, whatever database and storage are in use.

A backup is a folder: `models`, which is a registry's folder by itself, `datasets`, `decisions` with the sealed days,
`tables.jsonl`, `tables-2.jsonl`, … with the rows of the other tables, of which one part is in memory at a time, and
`backup.json`, written last: without it the backup is not one. Rows, models and sealed days are copied as they were at
the same moment, since one snapshot of the database has the rows, the index of models and the names of the days' files.
A published version and a sealed file never change, so they can be copied after the snapshot; where one was deleted
meanwhile, a newer snapshot is taken. Data sets are in no transaction: they are those of the end of the copy.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select, text

from app import __version__
from app.errors import Conflict, Damaged, NotFound
from app.migrations import REVISION, current, known
from app.outcomes.manifest import sealed_days
from app.registry import tables as registry
from app.registry.copying import Copied, Published
from app.storage import Storage
from app.usecases.ports import Ports

FORMAT: Final = 2  # 1 had one part with all rows
_SEAL = "backup.json"
_BATCH = 500
_PART_BYTES = 16_000_000
_ROUNDS = 5
_BYTES = "base64"  # an object with this key alone
_MISSPELT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?!//)")
# The index is made from the models, revisions are the program's, workers come and go, and files of sealed days that are
# to be removed are those of the original.
_NOT_COPIED = {*registry.TABLES.tables, REVISION.name, "workers", "sealed_drafts"} - {registry.saved_matrices.name}


@dataclass(frozen=True)
class _Moment:
    """What one snapshot of the database contains: how many rows by table, the revision of the tables, the index of
    models, and the files of sealed days.
    """

    rows: Mapping[str, int]
    revision: str | None
    published: Published
    files: tuple[str, ...]


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
    with TemporaryFile() as lines:
        moment, models, missing = _copy_moment(ports, url, lines)
        datasets, damaged = ports.datasets.copy_to(_below(url, "datasets"))
        parts = _write_parts(target, lines)
    report = Report(models.versions, datasets, moment.rows, (*models.left_out, *damaged, *missing))
    seal = {"format": FORMAT, "made_by": __version__, "revision": moment.revision, "at": datetime.now(UTC).isoformat()}
    seal["parts"] = parts
    counts = {"models": report.models, "datasets": report.datasets, "rows": report.rows, "left_out": report.left_out}
    target.write(_SEAL, json.dumps(seal | counts, indent=1).encode() + b"\n")
    return report


def _copy_moment(ports: Ports, url: str, lines: BinaryIO) -> tuple[_Moment, Copied, list[str]]:
    """Copy the models and sealed days of one moment: of a later one where some were deleted before they were copied.

    Also what is missing of the days, with the reason; the rows of that moment are written to `lines`.
    """
    for _ in range(_ROUNDS):
        moment = _read(ports, lines)
        copied = ports.registry.copy_to(_below(url, "models"), moment.published)
        missing = ports.archive.copy_to(_below(url, "decisions"), moment.files)
        if not copied.reasons and not missing:
            break
        with ports.database.reading(without_timeout=True) as connection:
            published, files = ports.registry.published(connection), _files(connection)
        if copied.reasons.keys() <= published.digests.keys() and missing <= set(files):
            break
    return moment, copied, [f"the sealed day {name}: its file is missing" for name in sorted(missing)]


def _read(ports: Ports, lines: BinaryIO) -> _Moment:
    lines.seek(0)
    lines.truncate()
    counted: Counter[str] = Counter()
    with ports.database.reading(without_timeout=True) as connection:
        for name, table in _tables(connection).items():
            for line in _lines(connection, table):
                lines.write(line)
                counted[name] += 1
        return _Moment(counted, current(connection), ports.registry.published(connection), _files(connection))


def _files(connection: Connection) -> tuple[str, ...]:
    return tuple(day.file for day in sealed_days(connection))


def _write_parts(target: Storage, lines: BinaryIO) -> int:
    """How many there are."""
    lines.seek(0)
    number = 0
    while part := lines.readlines(_PART_BYTES):
        number += 1
        target.write(_part(number), b"".join(part))
    return number


def _part(number: int) -> str:
    return "tables.jsonl" if number == 1 else f"tables-{number}.jsonl"


def restore(ports: Ports, url: str) -> Report:
    """Restore a backup into a service that is empty; an interrupted restore is continued.

    NotFound where there is no backup, Conflict where there is something already or a newer service made it. Jobs that
    ran when the backup was made are tried again.
    """
    source = Storage(url, _SEAL)
    seal = _seal(source)
    parts = seal.get("parts", 1)
    days = [row["file"] for name, row in _rows(source, parts) if name == "sealed_days"]
    with ports.database.reading() as connection:
        _check_empty(connection, seal["rows"])
    models = ports.registry.copy_from(_below(url, "models"))
    missing = ports.archive.copy_from(_below(url, "decisions"), days)
    datasets, damaged = ports.datasets.copy_from(_below(url, "datasets"))
    with ports.database.writing(without_timeout=True) as connection:
        tables = _tables(connection)
        _check_empty(connection, seal["rows"])
        for name, rows in groupby(_rows(source, parts), key=itemgetter(0)):
            while batch := [row for _, row in islice(rows, _BATCH)]:
                connection.execute(insert(tables[name]), batch)
        for table in tables.values():
            _go_on_counting(connection, table)
    lost = (f"the sealed day {name}: its file is missing" for name in sorted(missing))
    return Report(models.versions, datasets, seal["rows"], (*models.left_out, *damaged, *lost))


def _seal(source: Storage) -> dict[str, Any]:
    try:
        seal: dict[str, Any] = json.loads(source.read_alone(_SEAL))
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
    return seal


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


def _lines(connection: Connection, table: Table) -> Iterator[bytes]:
    query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_BATCH)
    for row in connection.execute(query).mappings():
        yield json.dumps({"table": table.name, "row": dict(row)}, default=_of_bytes).encode() + b"\n"


def _of_bytes(value: bytes) -> dict[str, str]:
    return {_BYTES: base64.b64encode(value).decode()}


def _to_bytes(found: dict[str, Any]) -> Any:
    return base64.b64decode(found[_BYTES]) if found.keys() == {_BYTES} else found


def _rows(source: Storage, parts: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with the name of its table, those of a table in a sequence."""
    for part in map(_part, range(1, parts + 1)):
        for number, line in enumerate(source.read_alone(part).splitlines(), 1):
            try:
                document = json.loads(line, object_hook=_to_bytes)
                yield document["table"], document["row"]
            except (ValueError, KeyError, TypeError) as error:
                raise Damaged(f"line {number} of {part} is not a row of a table") from error


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
