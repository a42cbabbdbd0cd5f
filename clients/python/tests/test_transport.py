"""Retries, idempotency keys and problems, by a service that answers as it is told to."""

import asyncio
import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import httpx
import pandas as pd
import payoff_client
import polars as pl
import pytest
from payoff_client import AsyncPayoff, Payoff, errors, jobs, terminal

STATE = {"model": {"name": "m", "version": 1}, "status": "decided"}
STEP = STATE | {"status": "acquire", "next": {"feature": "age", "cost": 1}}
DONE = {
    "id": "job_1",
    "status": "succeeded",
    "progress": 1.0,
    "model": {"name": "m", "version": 3},
    "warnings": [],
}
CARD = {"name": "m", "version": 1, "features": [{"name": "income", "type": "numeric"}]}
PROBLEM = {"Content-Type": "application/problem+json"}


def busy():
    return httpx.Response(
        503,
        headers={"Retry-After": "2"},
        json={"title": "Not ready", "detail": "starting"},
    )


class Service:
    """Answers one after the other; exceptions are raised. Keeps what was asked, and how long was
    waited.
    """

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked, self.waited = list(answers), [], []
        monkeypatch.setattr("time.sleep", self.waited.append)

    def __call__(self, request):
        request.read()
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, *, progress=False, **options):
        return Payoff(
            "http://service",
            "secret",
            transport=httpx.MockTransport(self),
            progress=progress,
            **options,
        )


@pytest.mark.parametrize(
    "failure",
    [
        busy(),
        httpx.Response(429, json={}),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
    ],
)
def test_a_question_is_repeated_until_it_is_answered(monkeypatch, caplog, failure):
    service = Service(monkeypatch, failure, failure, httpx.Response(200, json=STATE))

    assert service.client().model("m").acquire({}, record=False)["status"] == "decided"
    assert len(service.asked) == 3
    assert {request.headers["X-API-Key"] for request in service.asked} == {"secret"}
    asked = 2.0 if getattr(failure, "status_code", 0) == 503 else 0.1
    assert all(asked <= seconds <= 1.25 * max(asked, 0.4) for seconds in service.waited)
    (said,) = [
        record.getMessage()
        for record in caplog.records
        if record.name == "payoff_client"
    ]
    assert said.endswith("; it is tried again for at most 60 s")


def test_waiting_is_bounded_and_not_longer_than_of_use(monkeypatch):
    service = Service(
        monkeypatch,
        httpx.Response(429, headers={"Retry-After": "3600"}, json={"detail": "slowly"}),
    )
    with pytest.raises(payoff_client.RateLimited, match="slowly") as caught:
        service.client().model("m").acquire({})
    assert (caught.value.retry_after, service.waited) == (3600, [])

    service = Service(monkeypatch, *[busy()] * 9)
    with pytest.raises(payoff_client.Unavailable):
        service.client(retry_seconds=0).model("m").acquire({})
    assert len(service.asked) == 1


def test_what_must_not_happen_twice_is_repeated_only_where_it_did_not_arrive(
    monkeypatch,
):
    service = Service(
        monkeypatch, httpx.ConnectError("refused"), httpx.ReadError("reset")
    )
    with pytest.raises(payoff_client.Unavailable, match="reset") as caught:
        service.client().model("m").delete_alias("champion")
    assert caught.value.status is None
    assert len(service.asked) == 2


def test_a_repeated_order_has_the_same_idempotency_key(monkeypatch):
    queued = httpx.Response(202, json=DONE | {"status": "queued"})
    service = Service(
        monkeypatch, httpx.ReadError("reset"), queued, httpx.Response(200, json=DONE)
    )
    assert (
        service.client().train("ds_1", name="m", learner="logistic").reference == "m:3"
    )
    first, second, _ = service.asked
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.content == second.content

    service.answers = [httpx.Response(202, json=DONE)]
    service.client().train("ds_1", name="m")
    assert (
        service.asked[-1].headers["Idempotency-Key"] != first.headers["Idempotency-Key"]
    )


def test_a_job_is_followed_to_its_end(monkeypatch, capsys):
    running = DONE | {"status": "running", "progress": 0.5, "stage": "fitting\x1b"}
    answers = [
        httpx.Response(202, json=running),
        httpx.ReadError("reset"),
        httpx.Response(200, json=running),
    ]
    service = Service(monkeypatch, *answers, httpx.Response(200, json=DONE))
    service.client(progress=True).train("ds_1", name="m")

    assert {request.url.path for request in service.asked[1:]} == {"/jobs/job_1"}
    assert service.asked[-1].headers["Prefer"] == "wait=2"
    assert service.waited[-1] == jobs.PAUSE  # as it was answered at once
    assert "50% fitting\r" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_fails_raises_its_problem(monkeypatch, status):
    problem = {
        "title": "Invalid",
        "status": 422,
        "detail": "D",
        "errors": [{"loc": "/data", "msg": "one class"}],
    }
    failed = DONE | {"status": status, "error": problem if status == "failed" else None}
    service = Service(monkeypatch, httpx.Response(202, json=failed))
    with pytest.raises(
        payoff_client.JobFailed,
        match="one class" if status == "failed" else "cancelled",
    ) as caught:
        service.client().train("ds_1", name="m")
    assert caught.value.job == failed


@pytest.mark.parametrize(("status", "kind"), errors.BY_STATUS.items())
def test_problems_are_typed_and_shown_as_they_are(monkeypatch, status, kind):
    problem = {
        "status": status,
        "title": "T",
        "detail": "D",
        "errors": [{"loc": "/known/age", "msg": "M"}],
    }
    service = Service(
        monkeypatch, httpx.Response(status, headers=PROBLEM, json=problem)
    )
    with pytest.raises(kind) as caught:
        service.client(retry_seconds=0).model("m").acquire({})
    error = caught.value
    assert (error.status, error.title, error.detail, str(error)) == (
        status,
        "T",
        "D",
        "D\n/known/age: M",
    )


ELSEWHERE = [
    httpx.Response(404, text="<!DOCTYPE HTML>"),
    httpx.Response(404, json={"detail": "Not Found"}),
    httpx.Response(501, text="<!DOCTYPE HTML>"),
    httpx.Response(
        404, headers=PROBLEM, json={"title": "Not Found", "detail": "Not Found"}
    ),
]
UNREADABLE = [
    httpx.Response(200, content=text)
    for text in ('{"models": 3', "[]", "[" * 100_000, b'{"models": "\xff"}')
]


@pytest.mark.parametrize("answer", [*ELSEWHERE, *UNREADABLE])
def test_an_answer_of_another_service_is_named(answer):
    words = r"the answer to GET /docs/models cannot be read .*it begins"
    words = (
        words
        if answer.is_success
        else r"http://service/docs is no Payoff service: .* GET /models"
    )
    with pytest.raises(payoff_client.InvalidAnswer, match=words):
        Payoff(
            "http://service/docs", transport=httpx.MockTransport(lambda _: answer)
        ).models()


def test_the_blocking_client_refuses_coroutines(monkeypatch):
    service = Service(monkeypatch, httpx.Response(200, json=STEP))

    async def ask(_feature):
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="AsyncPayoff"):
        service.client().model("m").acquire({}, ask)


def test_the_asynchronous_client_waits_in_the_event_loop(monkeypatch):
    answers = [
        httpx.Response(429, json={}),
        *(httpx.Response(200, json=each) for each in (STEP, STATE)),
    ]
    service = Service(monkeypatch, *answers)

    async def ask(feature):
        return {"age": 63}[feature]

    async def run():
        async with AsyncPayoff(
            "http://service", transport=httpx.MockTransport(service)
        ) as client:
            return await client.model("m").acquire({}, ask)

    assert asyncio.run(run())["known"] == {"age": 63}
    assert [json.loads(request.content)["known"] for request in service.asked] == [
        {},
        {},
        {"age": 63},
    ]
    assert service.waited == []


@pytest.mark.parametrize(
    "rows", [pd.DataFrame({"incme": [1]}, index=["p0"]), pl.DataFrame({"incme": [1]})]
)
def test_a_misspelt_column_is_named(monkeypatch, rows):
    service = Service(monkeypatch, *[httpx.Response(200, json=CARD)] * 3)
    with pytest.raises(
        payoff_client.Invalid,
        match="column 'income': this column is missing; there are 'incme'",
    ):
        service.client().model("m:1").decide(rows)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pl.LazyFrame({"age": [1]}), r"frame.collect\(\)"),
        (Path("cases.csv"), "`decide_file` decides"),
    ],
)
def test_what_holds_no_rows_is_refused_with_what_does(data, words):
    with pytest.raises(TypeError, match=words):
        Payoff("http://service").model("m:1").decide(data)


def test_neither_frames_nor_scikit_learn_are_imported():
    heavy = "{'pandas', 'polars', 'pyarrow', 'sklearn', 'app'}"
    imports = "import sys; from payoff_client import *; import payoff_client.commands"
    code = f"{imports}; print({heavy} & set(sys.modules))"
    folder = str(Path(payoff_client.__file__).parents[1])
    command = [sys.executable, "-c", code]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": folder},
        cwd="/",
    )
    assert found.stdout.strip() == "set()", found.stdout


def test_the_key_is_not_shown():
    client = Payoff("http://service", "secret")
    assert "secret" not in repr(client) + repr(client.model("m"))
    with pytest.raises(ValueError, match="the key has characters") as caught:
        Payoff(key="secr\u00e9t")
    assert "secr" not in str(caught.value)


PLACES = {
    "http://u:secret@service": "http://service",
    "https://u:sec%40ret@service:8000/a": "https://service:8000",
    "u:secret@service": "http://service",
    "http://u:secret@service\n": "http://service",
}
UNANSWERED = [
    httpx.ReadError("reset"),
    httpx.Response(200, text="<html>"),
    httpx.Response(404, text="<html>"),
    httpx.Response(302, headers={"Location": "http://["}),
    httpx.Response(503, text="busy"),
]


@pytest.mark.parametrize("url", PLACES)
@pytest.mark.parametrize("answer", UNANSWERED, ids=str)
def test_a_password_is_not_shown(monkeypatch, caplog, url, answer):
    caplog.set_level("DEBUG")
    service = Service(monkeypatch, *[answer] * 20)
    with pytest.raises((payoff_client.PayoffError, ValueError)) as caught:
        Payoff(url, transport=httpx.MockTransport(service), retry_seconds=1).models()
    said = "".join(map(str, [caught.value, *caplog.messages]))
    assert "secret" not in said
    assert "sec%40ret" not in said
    assert "http:" not in said or PLACES[url] in said
    password = "sec@ret" if "%40" in url else "secret"
    expected = "Basic " + base64.b64encode(f"u:{password}".encode()).decode()
    assert {request.headers["Authorization"] for request in service.asked} <= {expected}


def test_reports_have_a_chart_in_notebooks(monkeypatch, capsys):
    class ZMQInteractiveShell:
        pass

    report, drawn = (
        httpx.Response(200, json={"rules": []}),
        httpx.Response(200, text="<svg/>"),
    )
    model = (
        Service(monkeypatch, report, drawn, report, report, drawn).client().model("m")
    )
    assert model.benefit([[1, 0], [0, 1]], chart=True)._repr_svg_() == "<svg/>"
    assert model.benefit([[1, 0], [0, 1]])._repr_svg_() is None
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell)
    )
    assert model.benefit([[1, 0], [0, 1]])._repr_svg_() == "<svg/>"
    with terminal.Bar("title", None) as bar:
        bar.show(0.5)
    assert "title  50%" in capsys.readouterr().out


def test_in_notebooks_all_text_is_escaped(monkeypatch):
    bad = "<img src=x onerror=alert(1)>"
    rules = {"rules": [{"rule": bad, "benefit": 0.5}] * 30, bad: {bad: bad}}
    decided = {
        "classes": ["a"],
        "actions": [bad],
        "decisions": [bad],
        "probabilities": [[1]],
        "warnings": [bad],
    }
    answers = (rules, {"versions": [], "latest": 1, "aliases": {}}, CARD, decided)
    model = (
        Service(monkeypatch, *[httpx.Response(200, json=each) for each in answers])
        .client()
        .model("m")
    )
    model.dataset = {"id": bad, "columns": [{"name": bad, "examples": [bad]}]}
    for found in (
        model.benefit([[1, 0], [0, 1]]),
        model.answer([{"income": 1}]),
        model,
    ):
        shown = found._repr_html_()
        assert "<img" not in shown
        assert "&lt;img src=x" in shown
        assert ET.fromstring(f"<div>{shown}</div>").findall(".//td")


TYPES = """\
from payoff_client import Payoff

model = Payoff().train([{"age": 61, "ill": "yes"}], label="ill", name="triage")
decided = model.decide([{"age": 61}], benefits={"yes": {"treat": 5}})
decided[0]["age"] + model.card()["version"]
model.decide([{"age": 61}], benefits=3)
model.decide(3)
model.card()["versoin"]
"""


def test_types_of_calls_are_checked(tmp_path):
    (tmp_path / "calls.py").write_text(TYPES)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--follow-imports=silent",
        tmp_path / "calls.py",
    ]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert re.findall(r"calls.py:(\d+): error", found.stdout) == ["6", "7", "8"], (
        found.stdout
    )


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_never_leads_to_another_path(monkeypatch, name):
    """`DELETE /models/triage/matrices/..` is that of the whole model."""
    service = Service(monkeypatch, httpx.Response(204))
    client = service.client()
    model = client.model("triage")
    calls = [
        model.matrices.delete,
        model.matrices.get,
        model.delete_alias,
        client.datasets.delete,
        client.model,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="no name"):
            call(name)
    model.matrices.delete("../../other")
    assert [request.url.raw_path for request in service.asked] == [
        b"/models/triage/matrices/..%2F..%2Fother"
    ]


def test_warnings_are_those_of_the_line_that_called():
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, json={"warnings": ["w"]})
    )

    async def run():
        async with AsyncPayoff("http://service", transport=transport) as service:
            await service.model("m").set_alias("best", 1)

    def run_blocking():
        Payoff("http://service", transport=transport).model("m").set_alias("best", 1)

    for call in (run_blocking, lambda: asyncio.run(run())):
        with pytest.warns(payoff_client.PayoffWarning, match="w") as caught:
            call()
        assert [each.filename for each in caught] == [__file__]


def test_pages_that_lead_back_are_no_answer():
    page = httpx.Response(200, json={"models": [{"name": "a"}], "next_page_token": "t"})
    with pytest.raises(payoff_client.InvalidAnswer, match="no end"):
        Payoff("http://service", transport=httpx.MockTransport(lambda _: page)).models()
