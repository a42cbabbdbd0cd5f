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
_TELLING = frozenset({b"host", b"origin", b"sec-fetch-site"})
_FOREIGN = frozenset({b"cross-site", b"same-site"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_MAX_USUAL = 100  # of at most 270 characters
_PORTS = {"http": ":80", "https": ":443"}
_SHOWN = 80  # characters of a header that an error repeats


class Sites:
    """The names under which a service without keys answers: loopback and `hosts`."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._names = _LOOPBACK | {host.lower() for host in hosts}
        self._usual: set[bytes] = set()  # hosts found good before: most requests name the same one

    def check(self, scope: Scope) -> None:
        """Refused where the request is for another host, or a write from the page of another site."""
        telling = [header for header in scope["headers"] if header[0] in _TELLING]
        if len(telling) == 1 and telling[0][0] == b"host" and telling[0][1] in self._usual:
            return
        hosts = [_text(value) for name, value in telling if name == b"host"]
        if len(hosts) != 1 or not self._knows(hosts[0]):
            raise Refused(
                "without keys the service answers requests for localhost and for the hosts in PAYOFF_HOSTS, not for"
                f" {_shown(hosts)}: add the host name there, without a port, or configure keys"
            )
        origins = [_text(value) for name, value in telling if name == b"origin"]
        sites = [value.strip().lower() for name, value in telling if name == b"sec-fetch-site"]
        foreign = any(not _is_origin(origin, hosts[0]) for origin in origins) or not _FOREIGN.isdisjoint(sites)
        if foreign and scope["method"] not in _READS:
            raise Refused(
                f"without keys only pages of {_shown(hosts)} may change anything, not a page of {_shown(origins)}:"
                " configure keys, or send the request without a browser; a reverse proxy has to pass on the Host header"
                " that it received, and PAYOFF_HOSTS has to contain that host"
            )
        if len(self._usual) < _MAX_USUAL:
            self._usual.add(next(value for name, value in telling if name == b"host"))

    def _knows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        return found is not None and (found[1] in self._names or _is_loopback(found[1].removesuffix(".")))


def _is_origin(origin: str, host: str) -> bool:
    """Whether a page of this origin was served by this host; ports that the scheme implies may be left out."""
    scheme, _, site = origin.partition("://")
    implied = _PORTS.get(scheme, "")
    return bool(site) and site.removesuffix(implied) == host.removesuffix(implied)


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    if not name.startswith("127."):
        return False
    try:
        return ip_address(name).is_loopback
    except ValueError:  # a name such as 127.example.org
        return False


def _text(value: bytes) -> str:
    return value.decode("latin-1").lower()


def _shown(texts: list[str]) -> str:
    return ", ".join(repr(text[:_SHOWN]) for text in texts[:2]) or "another site"
