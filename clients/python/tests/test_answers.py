"""Whatever a server answers, each method of both clients returns or raises a PayoffError."""

from __future__ import annotations

import asyncio
import gzip
import inspect

import httpx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from payoff_client import AsyncPayoff, InvalidAnswer, Payoff, PayoffError, transport

from tests.client_answers import BENEFITS, ROWS, SHARED, VALID, of_path, servers

OPTIONS = {"progress": False, "retry_seconds": 0}
CALLS = {
    "models": lambda client, _: client.models(),
    "train": lambda client, _: client.train("ds_1", name="m"),
    "train a frame": lambda client, _: client.train(pd.DataFrame(ROWS), label="pain", name="m"),
    "compare": lambda client, _: client.compare("ds_1", learners=["tree"], benefits=BENEFITS, chart=True),
    "benefit": lambda client, _: client.benefit([[1, 0]], classes=["a", "b"], labels=["a"], benefits=BENEFITS),
    "retrieve": lambda client, _: client.retrieve([0.5, 0.1]),
    "send_outcomes": lambda client, _: client.send_outcomes([{"id": "1", "truth": "a"}]),
    "datasets.upload": lambda client, _: client.datasets.upload(ROWS, label="pain"),
    "datasets.from_outcomes": lambda client, _: client.datasets.from_outcomes("m"),
    "datasets.get": lambda client, _: client.datasets.get("ds_1"),
    "datasets.list": lambda client, _: client.datasets.list(),
    "datasets.delete": lambda client, _: client.datasets.delete("ds_1"),
    "model.card": lambda client, _: client.model("m").card(),
    "model.describe": lambda client, _: client.model("m").describe(),
    "model.set_alias": lambda client, _: client.model("m").set_alias("best", 1),
    "model.delete_alias": lambda client, _: client.model("m").delete_alias("best"),
    "model.answer": lambda client, _: client.model("m").answer([[1, 2], [3, 4]]),
    "model.decide": lambda client, _: client.model("m:1").decide(pd.DataFrame(ROWS), benefits=BENEFITS),
    "model.decide rows": lambda client, _: client.model("m:1").decide([[1, "mild"]] * 2, benefits=BENEFITS),
    "model.decide many": lambda client, _: client.model("m:1").decide(np.zeros((3000, 1)), benefits=BENEFITS),
    "model.explain": lambda client, _: client.model("m:1").explain(ROWS, benefits=BENEFITS, record=True),
    "model.retrieve": lambda client, _: client.model("m:1").retrieve(ROWS),
    "model.acquire": lambda client, _: client.model("m:1").acquire({}, lambda _: 1),
    "model.acquire many": lambda client, _: client.model("m:1").acquire(ROWS),
    "model.benefit": lambda client, _: client.model("m").benefit(BENEFITS, chart=True),
    "model.outcomes": lambda client, _: client.model("m").outcomes(),
    "model.matrices.save": lambda client, _: client.model("m").matrices.save("autumn", BENEFITS),
    "model.matrices.list": lambda client, _: client.model("m").matrices.list(),
    "model.matrices.get": lambda client, _: client.model("m").matrices.get("autumn"),
    "model.matrices.delete": lambda client, _: client.model("m").matrices.delete("autumn"),
} | {
    f"model.decide_file {form}": lambda client, folder, form=form: client.model("m:1").decide_file(
        folder / "in.csv", folder / f"out.{form}", benefits="autumn"
    )
    for form in ("csv", "parquet")
}


def called(name, answer, folder, *, blocking):
    """What a method returns or raises."""
    (folder / "in.csv").write_text("age,pain,bed\n1,mild,B1\n2,none,B2\n")
    mock = httpx.MockTransport(answer)
    try:
        if blocking:
            with Payoff("http://service", transport=mock, **OPTIONS) as client:
                return CALLS[name](client, folder)

        async def run():
            async with AsyncPayoff("http://service", transport=mock, **OPTIONS) as client:
                return await CALLS[name](client, folder)

        return asyncio.run(run())
    except PayoffError as error:
        return error


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(server=servers())
def test_no_answer_raises_anything_but_a_payoff_error(tmp_path, name, blocking, server):
    called(name, server, tmp_path, blocking=blocking)


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_the_answers_that_are_altered_are_valid(tmp_path, name, blocking):
    """So that the test above reaches what is behind them."""
    found = called(name, lambda request: of_path(VALID | {"header": SHARED}, request), tmp_path, blocking=blocking)
    asked_again = name == "model.acquire"
    assert isinstance(found, PayoffError) == asked_again, found


def test_every_method_is_called():
    with Payoff("http://service") as client:
        owners = {"": client, "datasets.": client.datasets, "model.": client.model("m")}
        owners["model.matrices."] = client.model("m").matrices
    methods = {
        f"{place}{name}"
        for place, owner in owners.items()
        for name, _ in inspect.getmembers(owner, inspect.ismethod)
        if not name.startswith("_")
    }
    assert methods - {"model", "close"} == {name.partition(" ")[0] for name in CALLS}


def packed(_):
    return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(gzip.compress(b"{}")))


class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __iter__(self):
        while True:
            yield b" " * 10_000

    async def __aiter__(self):
        while True:
            yield b" " * 10_000


REFUSED = {
    "compressed": (packed, "it is compressed"),
    "deep": (lambda _: httpx.Response(200, text="[" * 100_000), "RecursionError"),
    "another shape": (lambda _: httpx.Response(200, json={"models": 3}), "/models is not a list"),
    "not UTF-8": (lambda _: httpx.Response(200, content=b'{"models": "\xff"}'), "utf-8"),
    "endless": (lambda _: httpx.Response(200, stream=Endless()), "more than 150,000 bytes"),
    "repeated": (lambda _: httpx.Response(200, json={"models": [], "next_page_token": "t"}), "has no end"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_named(tmp_path, monkeypatch, case):
    monkeypatch.setattr(transport, "LONGEST", 150_000)
    answer, words = REFUSED[case]
    for blocking in (True, False):
        found = called("models", answer, tmp_path, blocking=blocking)
        assert type(found) is InvalidAnswer
        assert words in str(found)
        assert "GET /models" in str(found)
