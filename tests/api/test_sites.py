"""Without keys the service answers for this machine alone, and takes no writes from pages of other sites."""

import socket

import pytest

from tests.api.permissions import NEEDED, OPEN, filled
from tests.conftest import serving, settings_for

FOREIGN = (
    *(
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.evil.example",
    ),
    *(
        "192.168.1.20",
        "0.0.0.0",
        "[2001:db8::1]",
        "10.0.0.1:80",
        "payoff",
        "test",
        "a@localhost",
        "localhost:80@evil",
    ),
    f"{'a' * 300}.localhost",
    *(
        "localhost:80:80",
        "[::1",
        "::1",
        "",
        "[::1]evil.example",
        "xn--localhost",
        "localhost,evil.example",
    ),
)
OWN = (
    *(
        "localhost",
        "LocalHost:8000",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.8.7.6:8000",
        "[::1]",
        "[::1]:8000",
    ),
    *("localhost.", "payoff.localhost:8000"),
)
READS = ("GET", "HEAD")


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A service that answers for more names."""
    folder = tmp_path_factory.mktemp("named")
    with serving(
        settings_for(folder, workers=0, hosts="Payoff.lan, [fd00::1],nas")
    ) as client:
        yield client


@pytest.mark.parametrize("host", FOREIGN)
def test_requests_for_other_hosts_are_refused(service, host):
    for (method, template), needed in NEEDED.items():
        answer = service.request(method, filled(template), headers={"Host": host})

        assert (
            (answer.status_code in {200, 307})
            if needed is OPEN
            else (answer.status_code == 403)
        ), (method, template)
        if needed is not OPEN:
            assert "PAYOFF_HOSTS" in answer.text
    assert service.get("/nowhere", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", OWN)
def test_requests_for_this_machine_and_writes_from_its_pages_are_answered(
    service, host
):
    assert service.get("/models", headers={"Host": host}).status_code == 200
    for site in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        headers = {"Host": host, "Origin": f"http://{host}", **site}
        assert service.post("/predict", headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:80", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("nas:443", "https://nas"),
    ],
)
def test_a_port_that_the_scheme_implies_is_no_other_site(named, host, origin):
    assert (
        named.post("/predict", headers={"Host": host, "Origin": origin}).status_code
        == 422
    )
    assert (
        named.post(
            "/predict", headers={"Host": host, "Origin": f"{origin}0"}
        ).status_code
        == 403
    )


def test_hosts_can_be_added(named):
    for host in (*OWN, "payoff.lan", "PAYOFF.LAN:80", "nas:8000", "[fd00::1]:8000"):
        assert named.get("/models", headers={"Host": host}).status_code == 200
    for host in (*FOREIGN, "lan", "x.payoff.lan", "[fd00::2]"):
        assert named.get("/models", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "hosts",
    [(), (b"localhost", b"evil.example"), (b"evil.example", b"localhost"), (b"\xff",)],
)
def test_a_request_has_one_host(service, hosts):
    lines = [
        b"GET /models HTTP/1.1",
        *(b"Host: " + host for host in hosts),
        b"Connection: close",
        b"",
        b"",
    ]
    with socket.create_connection(
        (service.base_url.host, service.base_url.port), timeout=20
    ) as connection:
        connection.sendall(b"\r\n".join(lines))
        assert connection.recv(4096).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "sent",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "Cross-Site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},  # another service of this machine
        {"Origin": "http://localhost.evil.example"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_writes_from_pages_of_other_sites_are_refused(service, sent):
    """Also of forms, which browsers send without asking; reads are harmless, for their answers stay hidden."""
    headers = {"Host": "localhost", "Content-Type": "text/plain", **sent}
    for (method, template), needed in NEEDED.items():
        answer = service.request(method, filled(template), headers=headers)

        refused = needed is not OPEN and method not in READS
        assert (answer.status_code == 403) == refused, (method, template, answer.text)
        if refused:
            assert "another site" in answer.text or "not a page of" in answer.text
            kind = (
                "application/json"
                if template.startswith("/v2")
                else "application/problem+json"
            )
            assert answer.headers["content-type"] == kind
    assert service.post("/nowhere", headers=headers).status_code == 403
    assert service.request("PROPFIND", "/models", headers=headers).status_code == 403


def test_with_keys_any_host_and_any_page_may_ask(tmp_path):
    """A page has no key, and a browser adds none."""
    with serving(settings_for(tmp_path, workers=0, admin_key="s3cret")) as client:
        headers = {
            "Host": "payoff.example",
            "Origin": "https://other.example",
            "Sec-Fetch-Site": "cross-site",
        }

        assert client.post("/predict", headers=headers).status_code == 401
        assert (
            client.post(
                "/predict", headers={**headers, "X-API-Key": "s3cret"}
            ).status_code
            == 422
        )


@pytest.mark.parametrize("proxies", ["balancer", "10.0.0.1/24", "10.0.0.1;10.0.0.2"])
def test_proxies_that_are_no_networks_are_refused(tmp_path, proxies):
    with pytest.raises(ValueError, match="trusted_proxies"):
        settings_for(tmp_path, trusted_proxies=proxies)
