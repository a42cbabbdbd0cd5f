"""Decisions for files of any length, in parts."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from payoff_client.bodies import ARROW, Features, of_batch, query
from payoff_client.datasets import PARQUET, form_of
from payoff_client.decided_files import rest_of, writer_of
from payoff_client.dialect import Dialect
from payoff_client.errors import PayoffError
from payoff_client.file_parts import in_file, opened
from payoff_client.notes import Notes
from payoff_client.progress import Bar
from payoff_client.wire import Call, Link, Repeatable

_PART = 8 * 2**20  # bytes
_FIGURES = ("limits", "total", "unlimited_total", "gap", "estimated_priors")  # of all rows together


async def decide_file(
    link: Link,
    features: Features,
    source: Any,
    target: Any,
    fields: Mapping[str, Any],
    progress: bool | None,
    *,
    repeatable: Repeatable,
) -> dict[str, Any]:
    """Decide for the rows of `source` and write `target`; see `Model.decide_file`."""
    source, target, fields = Path(source), Path(target), dict(fields)
    dialect = Dialect.taken(fields)
    form = form_of(target)
    accept = ARROW if form == PARQUET else form
    notes = Notes()
    rest: dict[str, Any] = {}
    is_together = of_batch(fields)
    unfinished = _beside(target, source)
    try:
        with (
            opened(source, dialect, None if is_together else _PART) as (kind, names, parts),
            Bar(f"deciding {source.name}", progress) as bar,
            closing(writer_of(form, target, unfinished)) as writer,
        ):
            kept = [name for name in names if name not in (*features.names, fields.get("id"))]
            params = query(
                {"model": features.model, **fields, **dialect.of_parts(), **({"keep": kept} if kept else {})}
            )
            for number, part in enumerate(parts):
                assert not (number and is_together), "limits hold for all rows of one request"
                headers = {"Content-Type": kind, "Accept": accept}
                try:
                    call = Call("POST", "/predict", params, part.content, headers, repeatable)
                    rest, (rows, count) = await link.read(
                        call, lambda answer: (rest_of(answer, accept), writer.rows_of(answer.content))
                    )
                except PayoffError as error:
                    raise in_file(error, features.names, notes.rows) from None
                notes.add(rest["warnings"], count)
                writer.write(rows)
                bar.show(part.share, f"{notes.rows:,} rows")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    figures = {name: rest[name] for name in _FIGURES if name in rest}
    return {"rows": notes.rows, "model": features.model, "warnings": notes.texts(), **figures}


def _beside(target: Path, source: Path) -> Path:
    """A new file in the folder of `target`, with the mode that it is to have; ValueError where that is `source`."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"{target} has the cases; name another file for the decisions")
    descriptor, name = mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    if target.exists():
        shutil.copymode(target, name)
    else:
        os.umask(mask := os.umask(0))
        Path(name).chmod(0o666 & ~mask)
    return Path(name)
