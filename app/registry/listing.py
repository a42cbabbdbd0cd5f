"""Questions to the index that are asked for people to read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from app.patterns import matches
from app.registry.mirror import Move
from app.registry.snapshot import Key, unknown_model, unknown_version
from app.registry.tables import aliases, history, models, versions


@dataclass(frozen=True)
class ModelLine:
    """A model in the list of models; versions newest first."""

    name: str
    versions: list[int]
    aliases: dict[str, int]


@dataclass(frozen=True)
class VersionLine:
    """A version in the list of a model's versions; the metrics are single numbers."""

    version: int
    kind: str
    created_at: float
    metrics: dict[str, Any]


@dataclass(frozen=True)
class ModelPage:
    """All about one model; versions newest first, history oldest first."""

    name: str
    versions: list[VersionLine]
    aliases: dict[str, int]
    history: list[Move]


def list_models(connection: Connection, after: str, limit: int, patterns: Sequence[str] = ()) -> list[ModelLine]:
    """At most `limit` models whose names come after `after`, by name; of patterns, if any, they have to match one."""
    page = select(models.c.name).where(models.c.listed, models.c.name > after).order_by(models.c.name)
    if patterns:
        page = page.where(matches(models.c.name, patterns))
    names = list(connection.execute(page.limit(limit)).scalars())
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, version in connection.execute(
        select(versions.c.name, versions.c.version)
        .where(versions.c.name.in_(names))
        .order_by(versions.c.version.desc())
    ):
        numbers[name].append(version)
    pointing: dict[str, dict[str, int]] = defaultdict(dict)
    for name, alias, version in connection.execute(
        select(aliases.c.name, aliases.c.alias, aliases.c.version)
        .where(aliases.c.name.in_(names))
        .order_by(aliases.c.alias)
    ):
        pointing[name][alias] = version
    return [ModelLine(name, numbers[name], pointing[name]) for name in names]


def describe_model(connection: Connection, name: str) -> ModelPage:
    """NotFound where there is no such model; one whose versions were all deleted is there, and empty."""
    need_model(connection, name)
    columns = (versions.c.version, versions.c.kind, versions.c.created_at, versions.c.metrics)
    rows = connection.execute(select(*columns).where(versions.c.name == name).order_by(versions.c.version.desc())).all()
    lines = [VersionLine(row.version, row.kind, row.created_at, json.loads(row.metrics)) for row in rows]
    pointing = connection.execute(
        select(aliases.c.alias, aliases.c.version).where(aliases.c.name == name).order_by(aliases.c.alias)
    ).all()
    return ModelPage(name, lines, {row.alias: row.version for row in pointing}, alias_history(connection, name))


def need_model(connection: Connection, name: str) -> None:
    """NotFound where no version was ever published under `name`, or none since the model was deleted."""
    if connection.execute(select(models.c.name).where(models.c.listed, models.c.name == name)).first() is None:
        raise unknown_model(name)


def card_text(connection: Connection, key: Key) -> str:
    """The card as it was published, JSON; NotFound where there is no such model or version."""
    found = select(versions.c.card).where(versions.c.name == key[0], versions.c.version == key[1])
    text: str | None = connection.execute(found).scalar()
    if text is None:
        need_model(connection, key[0])
        raise unknown_version(*key)
    return text


def alias_history(connection: Connection, name: str) -> list[Move]:
    """Oldest first; it outlives the model's deletion."""
    columns = [history.c[field] for field in Move.model_fields]
    rows = connection.execute(select(*columns).where(history.c.name == name).order_by(history.c.seq))
    return [Move.model_validate(dict(row)) for row in rows.mappings()]
