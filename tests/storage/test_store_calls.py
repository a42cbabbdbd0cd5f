"""A store that hangs, refuses, answers 503 or forbids: said within seconds, in words, and over when it is over."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep

import pytest

from app.errors import Conflict, NotFound, Unavailable, Unusable
from app.storage import Storage, circuit_breaker

SEAL = "seal.json"
FILES = {SEAL: b"{}", "table": b"\x00\x01"}
NO_URLS = ("127.0.0.1:9000", "ftp://127.0.0.1:9000", "http://127.0.0.1:port")
NO_STORES = {
    "s3://": "PAYOFF_MODELS: .*s3://",
    "nowhere://models": "PAYOFF_MODELS: .*nowhere://models",
    "http://127.0.0.1:9000/bucket": "AWS_ENDPOINT_URL",
    "memory://models": "write s3://",
}
SECRET = "a-secret-that-nobody-may-read"


@pytest.fixture
def store(bucket, way, impatient, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    store = Storage(f"{bucket}/root", SEAL, name="PAYOFF_MODELS")
    store.publish("a/1", FILES)
    return store


class _Refusing(ThreadingHTTPServer):
    """Answers everything with one error, or as much as it is told, and what follows with success."""

    daemon_threads = True

    def __init__(self, status, code, times):
        super().__init__(("127.0.0.1", 0), _Refusal)
        self.status, self.code, self.times, self.asked = status, code, times, 0


class _Refusal(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked += 1
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        body = f"<Error><Code>{self.server.code}</Code><Message>no {SECRET}</Message></Error>".encode()
        self.send_response(
            self.server.status if self.server.asked <= self.server.times else 200
        )
        self.send_header("ETag", "x")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


for _method in ("PUT", "HEAD", "DELETE", "POST"):
    setattr(_Refusal, f"do_{_method}", _Refusal.do_GET)


@pytest.fixture
def refusing(bucket, impatient, monkeypatch):
    """A store whose server says the same to everything."""
    servers = []

    def make(status, code, times=10**9):
        server = _Refusing(status, code, times)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        return Storage(f"{bucket}/root", SEAL, name="PAYOFF_MODELS"), server

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


ASKS = {
    "read": lambda store: store.read("a/1", "table"),
    "read_each": lambda store: store.read_each(["a/1", "a/2"], SEAL),
    "exists": lambda store: store.exists("a/1"),
    "open": lambda store: store.open("a/1", "table").close(),
    "folders": lambda store: store.folders("a"),
    "publish": lambda store: store.publish("a/2", FILES),
    "write": lambda store: store.write("a/index", b""),
    "remove": lambda store: store.remove("a/1"),
}


@pytest.mark.parametrize("trouble", ["hang", "kill", "unavailable"])
@pytest.mark.thorough
def test_a_store_in_trouble_is_unavailable_soon_and_well_again_after_it(
    store, way, trouble, monkeypatch
):
    """Whatever is asked of it; and nothing that was whole is left half-written or half-removed."""
    monkeypatch.setattr(circuit_breaker, "REST_SECONDS", 0.0)  # all are to reach it
    getattr(way, trouble)()
    asks = (
        ("read", "folders", "publish", "write", "remove") if trouble == "hang" else ASKS
    )
    for ask in asks:
        began = monotonic()
        with pytest.raises(
            Unavailable,
            match="the store of PAYOFF_MODELS does not answer at the moment",
        ) as caught:
            ASKS[ask](store)
        assert not isinstance(caught.value, Unusable)
        assert (
            monotonic() - began < 20
        )  # two tries of half a second; the rest is for a busy machine
    way.start()

    _mended(store)
    assert {name: store.read("a/1", name) for name in FILES} == FILES
    assert not store.exists("a/2")
    for ask in ASKS.values():
        ask(store)


def test_one_failure_is_not_told(refusing):
    """A single answer of 503, as every store gives now and then, is asked again and forgotten."""
    store, server = refusing(503, "SlowDown", times=1)

    store.write("a/index", b"")

    assert server.asked == 2


def test_after_a_failure_the_store_is_left_alone_for_a_while(refusing, monkeypatch):
    monkeypatch.setattr(circuit_breaker, "REST_SECONDS", 60.0)
    store, server = refusing(503, "SlowDown")
    with pytest.raises(Unavailable):
        store.folders()
    asked = server.asked

    with pytest.raises(Unavailable):
        store.folders()

    assert (asked, server.asked) == (2, 2)


def test_who_has_patience_outlasts_an_outage(bucket, way, impatient, monkeypatch):
    """A job would lose hours of work."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    patient = Storage(f"{bucket}/root", SEAL, retry_seconds=30.0)
    patient.folders()
    way.kill()
    threading.Timer(1.0, way.start).start()

    patient.publish("a/1", FILES)

    assert patient.exists("a/1")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        *(
            (404, "NoSuchBucket", Unusable),
            (403, "AccessDenied", Unusable),
            (403, "SignatureDoesNotMatch", Unusable),
        ),
        *(
            (403, "InvalidAccessKeyId", Unusable),
            (400, "AuthorizationHeaderMalformed", Unusable),
        ),
        *(
            (500, "InternalError", Unavailable),
            (503, "ServiceUnavailable", Unavailable),
        ),
        *(
            (429, "TooManyRequests", Unavailable),
            (403, "RequestTimeTooSkewed", Unavailable),
        ),
    ],
)
def test_what_no_waiting_mends_is_named_and_what_may_pass_too(
    refusing, caplog, monkeypatch, status, code, error
):
    """Once, and without what the store says, which may be secret."""
    monkeypatch.setattr(
        circuit_breaker, "REST_SECONDS", 0.0 if error is Unusable else 60.0
    )
    store, _ = refusing(status, code)
    words = rf"cannot be used \({code}\)" if error is Unusable else "does not answer"

    for ask in ("read", "folders", "publish", "write"):
        with pytest.raises(error, match=words) as caught:
            ASKS[ask](store)
        assert isinstance(caught.value, Unusable) == (error is Unusable)
        assert "PAYOFF_MODELS" in caught.value.detail
        assert SECRET not in caught.value.detail
    assert SECRET not in caplog.text
    assert (
        len([record for record in caplog.records if "PAYOFF_MODELS" in record.message])
        == 1
    )
    assert code in caplog.text


@pytest.mark.parametrize(
    ("endpoint", "url", "words"),
    [
        *(
            (value, "s3://a/root", r"cannot be used \(AWS_ENDPOINT_URL is not a URL")
            for value in NO_URLS
        ),
        *((None, url, words) for url, words in NO_STORES.items()),
    ],
)
def test_what_can_never_work_is_named_rather_than_waited_for(
    bucket, monkeypatch, endpoint, url, words
):
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(Unusable, match=words):
        Storage(url, SEAL, name="PAYOFF_MODELS")


def test_answers_are_not_troubles(store):
    with pytest.raises(NotFound):
        store.read("a/1", "other")
    with pytest.raises(Conflict):
        store.publish("a/1", FILES)
    assert store.read("a/1", "table") == FILES["table"]


def _mended(store):
    """Wait until the store answers."""
    until = monotonic() + 60
    while True:
        try:
            return store.folders()
        except Unavailable:
            assert monotonic() < until
            sleep(0.05)
