"""What a service without keys accepts: requests for this machine, and no writes from pages of other sites.

A browser sends requests for any page. By DNS rebinding a foreign name becomes the address of this machine; only the
`Host` header shows it. A form on a foreign page can post to this machine; `Sec-Fetch-Site` and `Origin` show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from starlette.types import Scope

from app.errors import Refused

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN = frozenset({b"cross-site", b"same-site"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_SHOWN = 80  # characters of a header that an error repeats


class Sites:
    """The names under which a service without keys answers: loopback and `hosts`."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._names = _LOOPBACK | {host.lower() for host in hosts}

    def check(self, scope: Scope) -> None:
        """Refused where the request is for another host, or a write from the page of another site."""
        hosts, origins, foreign = [], [], False
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value.decode("latin-1").lower())
            elif name == b"origin":
                origins.append(value.decode("latin-1").lower())
            elif name == b"sec-fetch-site":
                foreign = foreign or value.strip().lower() in _FOREIGN
        if len(hosts) != 1 or not self._knows(hosts[0]):
            raise Refused(
                "without keys the service answers requests for localhost and for the hosts in PAYOFF_HOSTS, not for"
                f" {_shown(hosts)}: add the host name there, or configure keys"
            )
        foreign = foreign or any(origin.partition("://")[2] != hosts[0] for origin in origins)
        if foreign and scope["method"] not in _READS:
            raise Refused(
                f"without keys only pages of {_shown(hosts)} may change anything, not a page of {_shown(origins)}:"
                " configure keys, or send the request without a browser"
            )

    def _knows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        return found is not None and (found[1] in self._names or _is_loopback(found[1]))


def _is_loopback(name: str) -> bool:
    if not name.startswith("127."):
        return False
    try:
        return ip_address(name).is_loopback
    except ValueError:  # a name such as 127.example.org
        return False


def _shown(texts: list[str]) -> str:
    return ", ".join(repr(text[:_SHOWN]) for text in texts[:2]) or "another site"
