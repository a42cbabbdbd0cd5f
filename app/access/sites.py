"""The requests that a service without keys accepts: those for this machine, and no writes from
pages of other sites.

A browser sends requests for any page. By DNS rebinding a foreign name becomes this machine's
address, which only Host shows; a form on a foreign page can post here, which Origin and
Sec-Fetch-Site show.
"""

import re
from functools import lru_cache

from app.errors import Forbidden

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]{1,253})(?::\d{1,5})?")
# RFC 6761, section 6.3
_LOOPBACK = re.compile(r"(.+\.)?localhost\.?|127(\.\d{1,3}){3}\.?|\[::1\]", re.ASCII)
_IMPLIED_PORTS = {"http": ":80", "https": ":443"}
_MAX_SHOWN = 80  # characters of a header that an error repeats


@lru_cache(maxsize=100)  # nearly all requests have the same few hosts, and no origin
def check_site(
    method: str,
    host_header: bytes,
    origin: bytes | None,
    fetch_site: bytes | None,
    hosts: frozenset[str],
) -> None:
    """Forbidden where the request is not for one of `hosts` or loopback, or is a write from a page
    of another site. The headers are Host, Origin and Sec-Fetch-Site.
    """
    host = host_header.decode("latin-1").lower()
    match = _HOST.fullmatch(host)
    if match is None or (match[1] not in hosts and not _LOOPBACK.fullmatch(match[1])):
        raise Forbidden(
            "without keys the service answers requests for localhost and for the hosts in"
            f" PAYOFF_HOSTS, not for {host[:_MAX_SHOWN]!r}: add the host name there, without a"
            " port, or configure keys"
        )
    if method in ("GET", "HEAD", "OPTIONS") or (origin is None and fetch_site is None):
        return
    url = f"://{host}" if origin is None else origin.decode("latin-1").lower()
    scheme, _, site = url.partition("://")
    port = _IMPLIED_PORTS.get(scheme, "")  # which both headers may leave out
    is_cross_site = (fetch_site or b"").lower() in (b"cross-site", b"same-site")
    if is_cross_site or site.removesuffix(port) != host.removesuffix(port):
        raise Forbidden(
            f"without keys only pages of {host[:_MAX_SHOWN]!r} may change anything, not a page"
            " of another site: configure keys, or send the request without a browser; a reverse"
            " proxy has to pass on the Host header that it received, and PAYOFF_HOSTS has to"
            " contain that host"
        )
