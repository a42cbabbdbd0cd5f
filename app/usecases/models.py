"""Looking at published models, pointing aliases at them, and deleting them."""

from __future__ import annotations

from typing import BinaryIO

from app.access.caller import Caller
from app.errors import NotFound
from app.paging import page_of, place_of
from app.registry.card import NAME, Card
from app.registry.listing import ModelLine, ModelPage
from app.registry.snapshot import Reference, unknown_alias
from app.usecases.ports import Ports


def page(ports: Ports, caller: Caller, *, page_size: int, page_token: str | None) -> tuple[list[ModelLine], str | None]:
    """Models that the key is for, by name, and the token of the next page, None at the end."""
    lines = ports.registry.models(place_of(page_token, NAME) or "", page_size + 1, caller.models)
    return page_of(lines, page_size, lambda line: line.name)


def describe(ports: Ports, name: str) -> ModelPage:
    """NotFound where there is no such model."""
    return ports.registry.model(name)


def card_of(ports: Ports, reference: str) -> Card:
    """The card of the version that `name:3` or `name@alias` means; NotFound where there is no such version or alias."""
    wanted = Reference.parse(reference)
    version = wanted.version
    if version is None:
        version = ports.registry.model(wanted.name).aliases.get(wanted.alias or "")
    if version is None:
        raise unknown_alias(wanted.name, wanted.alias or "")
    return ports.registry.card(wanted.name, version)


def card(ports: Ports, name: str, version: int) -> Card:
    """NotFound where there is no such version."""
    return ports.registry.card(name, version)


def artifact(ports: Ports, name: str, version: int) -> tuple[Card, BinaryIO]:
    """The card and the joblib file, verified and open; Damaged where it is not what was published."""
    return ports.registry.artifact(name, version)


def onnx(ports: Ports, name: str, version: int) -> bytes:
    """The model as an ONNX file; Invalid at /format where it cannot be converted. Takes seconds for a large forest."""
    from app.learners.onnx_export import exported  # noqa: PLC0415 - it is asked for rarely

    model = ports.registry.load(f"{name}:{version}")
    return exported(model.estimator, model.schema, model.classes)


def set_alias(ports: Ports, name: str, alias: str, version: int, *, by: Caller) -> None:
    """Point an alias, new or not, at a version that is published; NotFound at `/version` where it is not."""
    entry = ports.audit.entry(by, "alias.set", f"{name}@{alias}", version=version)
    try:
        ports.registry.set_alias(name, alias, version, by.name, also=entry)
    except NotFound as error:
        raise error.at_place("/version") from error


def delete_alias(ports: Ports, name: str, alias: str, *, by: Caller) -> None:
    entry = ports.audit.entry(by, "alias.delete", f"{name}@{alias}")
    ports.registry.delete_alias(name, alias, by.name, also=entry)


def delete_version(ports: Ports, name: str, version: int, *, by: Caller) -> None:
    """Conflict while an alias points at it."""
    entry = ports.audit.entry(by, "version.delete", f"{name}:{version}")
    ports.registry.delete_version(name, version, also=entry)


def delete(ports: Ports, name: str, *, by: Caller) -> None:
    """The model with all versions and aliases."""
    ports.registry.delete_model(name, by.name, also=ports.audit.entry(by, "model.delete", name))
