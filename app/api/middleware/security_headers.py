"""What every answer tells browsers and caches."""

from __future__ import annotations

from collections.abc import Iterable

Header = tuple[bytes, bytes]

_ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_POLICY: Header = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_CACHE: Header = (b"cache-control", b"no-store")  # answers hold data, and what is true only now


def secured(headers: Iterable[Header]) -> list[Header]:
    """The headers with those that are to be on every answer, unless it has its own.

    That browsers shall come by TLS only is for whoever ends TLS to say, in front of the service.
    """
    found = [*headers, *_ALWAYS]
    names = {name for name, _ in found}
    if _POLICY[0] not in names:
        found.append(_POLICY)
    if _CACHE[0] not in names:
        found.append(_CACHE)
    return found
