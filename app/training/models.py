"""Published models: their list and cards, aliases that point at them, and their deletion."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.access.caller import Caller
from app.answering.shadow import check_challengers
from app.database.pages import page_of, place_of
from app.errors import NotFound
from app.registry.card import NAME, Card
from app.registry.index import ModelLine
from app.registry.snapshot import Reference, absent
from app.stores import Stores


def page(
    stores: Stores, caller: Caller, *, page_size: int, page_token: str | None
) -> tuple[list[ModelLine], str | None]:
    """Models that the key is for, by name, and the token of the next page, None at the end."""
    lines = stores.registry.index.models(
        place_of(page_token, NAME) or "", page_size + 1, caller.models
    )
    return page_of(lines, page_size, lambda line: line.name)


def card_of(stores: Stores, reference: str) -> Card:
    """The card of `name` (its latest version), `name:3` or `name@alias`; NotFound where there is
    none.
    """
    reference_parts = Reference.parse(reference)
    version = reference_parts.version
    if version is None:
        model = stores.registry.index.model(reference_parts.name)
        if reference_parts.alias is not None:
            version = model.aliases.get(reference_parts.alias)
            if version is None:
                raise absent(f"{reference_parts.name}@{reference_parts.alias}")
        elif model.versions:
            version = model.versions[0].version
        else:
            raise NotFound(
                f"all versions of the model {reference_parts.name!r} were deleted"
            )
    return stores.registry.index.card(reference_parts.name, version)


def set_alias(
    stores: Stores,
    name: str,
    alias: str,
    version: int,
    shadow: Sequence[str] | None = None,
    *,
    by: Caller,
) -> list[str]:
    """Point an alias, new or not, at a published version; NotFound at `/version` where it is not
    published.

    `shadow` replaces the challengers that decide in the background; Invalid below `/shadow` where
    a challenger could not decide, Forbidden where the key is not for it. Without it, a challenger
    that the alias points at from now on is removed; returns the removed ones.
    """
    entry = stores.audit.entry(by, "alias.set", f"{name}@{alias}", version=version)
    try:
        if shadow:
            check_challengers(stores, name, version, shadow, by)
        stores.registry.set_alias(name, alias, version, by.name, also=entry)
    except NotFound as error:
        raise NotFound.at("/version", error.detail) from error
    before = stores.shadows.read(name).get(alias, [])
    if shadow is None:
        promoted = [
            challenger for challenger in before if challenger == f"{name}:{version}"
        ]
        challengers = [
            challenger for challenger in before if challenger not in promoted
        ]
    else:
        promoted = []
        challengers = list(shadow)
    if challengers != before:
        entry = stores.audit.entry(
            by, "alias.shadow", f"{name}@{alias}", shadow=challengers
        )
        stores.shadows.set(name, alias, challengers, entry)
    return promoted


def delete_alias(stores: Stores, name: str, alias: str, *, by: Caller) -> None:
    entry = stores.audit.entry(by, "alias.delete", f"{name}@{alias}")

    def also(connection: Connection) -> None:
        stores.shadows.remove(connection, name, alias)
        entry(connection)

    stores.registry.delete_alias(name, alias, by.name, also=also)


def delete_version(stores: Stores, name: str, version: int, *, by: Caller) -> None:
    """Conflict while an alias points at it."""
    entry = stores.audit.entry(by, "version.delete", f"{name}:{version}")
    stores.registry.delete_version(name, version, also=entry)


def delete(stores: Stores, name: str, *, by: Caller) -> None:
    """The model with all versions and aliases."""
    entry = stores.audit.entry(by, "model.delete", name)

    def also(connection: Connection) -> None:
        stores.shadows.remove(connection, name)
        stores.documents.remove(connection, name)
        entry(connection)

    stores.registry.delete_model(name, by.name, also=also)
