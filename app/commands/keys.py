"""`payoff keys create | list | revoke`: create, list and revoke API keys."""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from app.access.keys import Key, Keys
from app.monitoring.logs import configure
from app.opening import prepare_stores, starting
from app.settings import Settings


def run(chosen: argparse.Namespace) -> int:
    """Print a new key alone, the table of keys, or the key that was revoked."""
    configure("error")  # standard output is the key's alone
    with starting():
        keys = prepare_stores(Settings()).keys
        action: dict[str, Callable[[], list[str]]] = {
            "create": lambda: _create(chosen, keys),
            "list": lambda: _table(keys.list()),
            "revoke": lambda: [
                "{0.id} ({0.name}) is revoked".format(keys.revoke(chosen.key))
            ],
        }
        print(*action[chosen.action](), sep="\n")
    return 0


def _create(chosen: argparse.Namespace, keys: Keys) -> list[str]:
    limits = {"rate": chosen.rate, "jobs": chosen.jobs, "days": chosen.days}
    _, secret = keys.create(chosen.name, chosen.scope, chosen.model, **limits)
    sys.stderr.write(
        "This key is shown only once and is not stored. Send it in the X-API-Key header.\n"
    )
    return [secret]


def _table(keys: list[Key]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        (
            "ID",
            "NAME",
            "SCOPES",
            "MODELS",
            "RATE",
            "JOBS",
            "CREATED",
            "EXPIRES",
            "REVOKED",
        )
    ]
    rows += [
        (
            key.id,
            key.name,
            ",".join(sorted(key.scopes)) or "-",
            ",".join(key.models) or "all",
            str(key.rate or "-"),
            str(key.jobs or "-"),
            *map(_day, (key.created_at, key.expires_at, key.revoked_at)),
        )
        for key in keys
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _day(seconds: float | None) -> str:
    return (
        "-"
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    )
