"""The address that a request counts for: nobody chooses it who is not trusted to."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.addresses import UNKNOWN, Addresses

DIRECT = Addresses()
BEHIND = Addresses([ip_network("10.0.0.0/24"), ip_network("2001:db8:aa::1")])


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", UNKNOWN),  # a UNIX socket
        ("a" * 1000, UNKNOWN),
    ],
)
def test_an_address_counts_for_itself_or_its_64_network(peer, counted):
    assert DIRECT.of(peer, "") == counted


@given(st.text(max_size=60), st.ip_addresses().map(str))
def test_without_proxies_the_header_chooses_no_address(forwarded, named):
    """Not for any text, and not for an address, with which another's count could be used up."""
    for header in (forwarded, named, f"{forwarded}, {named}", f"{named}, {forwarded}"):
        assert DIRECT.of("192.0.2.7", header) in ("192.0.2.7", UNKNOWN)


@pytest.mark.parametrize("peer", ["203.0.113.9", "2001:db8::7"])
def test_a_peer_that_the_server_took_from_the_header_is_not_believed(peer):
    """`uvicorn app.main:app` does so for peers on loopback, whatever the service's settings."""
    for header in (peer, f"198.51.100.1, {peer}", f"{peer}:81" if "." in peer else f"[{peer}]:81", f"{peer},10.0.0.1"):
        assert DIRECT.of(peer, header) == UNKNOWN


@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("10.0.0.3", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.3", "1.1.1.1, 203.0.113.9", "203.0.113.9"),  # the client wrote the first one
        ("10.0.0.3", "1.1.1.1, 203.0.113.9 , 10.0.0.4", "203.0.113.9"),
        ("10.0.0.3", "203.0.113.9:4711", "203.0.113.9"),
        ("10.0.0.3", "[2001:db8:1:2::9]:4711", "2001:db8:1:2::/64"),
        ("10.0.0.3", "2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:aa::1", "203.0.113.9", "203.0.113.9"),
        ("::ffff:10.0.0.3", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.3", "", "10.0.0.3"),
        ("10.0.0.3", "unknown", "10.0.0.3"),
        ("10.0.0.3", "203.0.113.9, unknown", "10.0.0.3"),
        ("10.0.0.3", "10.0.0.9, 10.0.0.4", "10.0.0.9"),
        ("10.0.1.3", "203.0.113.9", "10.0.1.3"),  # no trusted proxy
        ("2001:db8:aa::2", "203.0.113.9", "2001:db8:aa::/64"),
    ],
)
def test_trusted_proxies_name_their_clients(peer, forwarded, counted):
    assert BEHIND.of(peer, forwarded) == counted


def test_long_headers_are_read_from_their_end():
    assert BEHIND.of("10.0.0.3", "1.1.1.1," * 8000 + "203.0.113.9") == "203.0.113.9"
    assert BEHIND.of("10.0.0.3", "1.1.1.1," + "10.0.0.5," * 8000 + "10.0.0.6") == "10.0.0.5"
