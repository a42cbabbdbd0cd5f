"""`payoff keys create | list | revoke`: create, list and revoke API keys."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # with the database's client behind it, which the other commands' help need not wait for
    from app.access.keys import Key, Keys

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([1-9][0-9]{0,4})([mhdw])")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="create a key and print it; it is shown only once")
    create.add_argument("--name", required=True, help="owner of the key; shown in logs and in the audit log")
    create.add_argument("--scope", action="append", default=[], help="predict, train, metrics or admin; repeatable")
    create.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="PATTERN",
        help="restrict the key to models that match, such as 'heart-*'; repeatable",
    )
    create.add_argument(
        "--expires", type=_span, metavar="90d", help="validity in m(inutes), h(ours), d(ays) or w(eeks)"
    )
    create.add_argument(
        "--rate", metavar="100/second", help="maximum number of requests per second, minute, hour or day"
    )
    create.add_argument("--jobs", type=int, help="maximum number of queued and running jobs")
    actions.add_parser("list", help="list all keys without their secrets")
    revoke = actions.add_parser("revoke", help="revoke a key; takes effect in every process within a second")
    revoke.add_argument("key", help="id or name of the key")


def run(chosen: argparse.Namespace, keys: Keys) -> int:
    """Do it; Invalid, NotFound or Conflict where it cannot be done."""
    action: dict[str, Callable[[], list[str]]] = {
        "create": lambda: _create(chosen, keys),
        "list": lambda: _table(keys.list()),
        "revoke": lambda: ["{0.id} ({0.name}) is revoked".format(keys.revoke(chosen.key))],
    }
    sys.stdout.write("".join(f"{line}\n" for line in action[chosen.action]()))
    return 0


def _create(chosen: argparse.Namespace, keys: Keys) -> list[str]:
    limits = {"rate": chosen.rate, "jobs": chosen.jobs, "expires_seconds": chosen.expires}
    _, secret = keys.create(chosen.name, chosen.scope, chosen.model, **limits)
    sys.stderr.write("This key is shown only once and is not stored. Send it in the X-API-Key header.\n")
    return [secret]


def _table(keys: list[Key]) -> list[str]:
    rows: list[tuple[str, ...]] = [("ID", "NAME", "SCOPES", "MODELS", "RATE", "JOBS", "CREATED", "EXPIRES", "REVOKED")]
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
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _day(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _span(text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration; expected a number and a unit, such as 90d, 12h, 30m or 4w"
        )
    return int(found[1]) * _SECONDS[found[2]]
