"""Which address a request counts for, where there are proxies in between that are trusted to name it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNKNOWN = ""  # all requests whose address cannot be trusted count together
_IPV6_BITS = 64  # one subscriber has at least that many addresses
_PORT = re.compile(r"\[(.*)\](?::\d+)?|([^:]*):\d+")
_MAX_HOPS = 20


class Addresses:
    """Finds the address that a request counts for. Without `proxies` that is always the peer's."""

    def __init__(self, proxies: Sequence[Network] = ()) -> None:
        self._proxies = tuple(proxies)

    def of(self, peer: str, forwarded: str) -> str:
        """The address that a request from `peer` counts for; IPv6 by its /64 network.

        `forwarded` is what X-Forwarded-For contains, all its lines joined by commas. It is read from its end, as far as
        trusted proxies wrote it. A peer that is listed in it was taken from it by the server in front of us, unless it
        is a trusted proxy, and is not believed: such requests count together.
        """
        address = _parsed(peer)
        if not forwarded:
            return _counted(address)
        hops = [_host(hop) for hop in forwarded.rsplit(",", _MAX_HOPS)[-_MAX_HOPS:]]
        if not self._trusts(address):
            return UNKNOWN if peer in hops else _counted(address)
        for hop in reversed(hops):
            found = _parsed(hop)
            if found is None:
                break
            address = found
            if not self._trusts(address):
                break
        return _counted(address)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._proxies)


@lru_cache(4096)
def _short(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _parsed(text: str) -> Address | None:
    return _short(text) if len(text) <= 64 else None  # long ones are no addresses, and are not kept


def _host(hop: str) -> str:
    """Without blanks and port."""
    hop = hop.strip()
    found = _PORT.fullmatch(hop)
    return (found[1] or found[2]) if found else hop


def _counted(address: Address | None) -> str:
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> _IPV6_BITS << _IPV6_BITS, 128 - _IPV6_BITS)))
    return UNKNOWN if address is None else str(address)
