"""Retries, idempotency keys and problems, by a service that answers as it is told to."""

from __future__ import annotations

import argparse
import asyncio
import base64
import inspect
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import payoff_client
import polars as pl
import pytest
from payoff_client import (
    AsyncModel,
    AsyncPayoff,
    Model,
    Payoff,
    client,
    datasets,
    deciding,
    errors,
    jobs,
    matrices,
    model,
    progress,
    terminal,
    wording,
)
from payoff_client.wording import in_python, on_command_line

STATE = {"model": {"name": "m", "version": 1}, "status": "decided"}


def busy():
    return httpx.Response(503, headers={"Retry-After": "2"}, json={"title": "Not ready", "detail": "starting"})


class Service:
    """Answers one after the other; exceptions are raised. Keeps what was asked, and how long was waited."""

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

    def client(self, **options):
        return Payoff("http://service", "secret", transport=httpx.MockTransport(self), progress=False, **options)


def done(kind="train"):
    return {
        "id": "job_1",
        "kind": kind,
        "status": "succeeded",
        "progress": 1.0,
        "stage": None,
        "model": {"name": "m", "version": 3},
        "error": None,
        "warnings": [],
    }


def events(*jobs):
    return httpx.Response(200, text="".join(f"event: job\ndata: {json.dumps(job)}\n\n" for job in jobs))


@pytest.mark.parametrize(
    "failure", [busy(), httpx.Response(429, json={}), httpx.ConnectError("refused"), httpx.ReadTimeout("late")]
)
def test_a_question_is_repeated_until_it_is_answered(monkeypatch, failure):
    service = Service(monkeypatch, failure, failure, httpx.Response(200, json=STATE))

    assert service.client().model("m").acquire({}, record=False)["status"] == "decided"
    assert len(service.asked) == 3
    assert {request.headers["X-API-Key"] for request in service.asked} == {"secret"}
    asked = 2.0 if getattr(failure, "status_code", 0) == 503 else 0.1
    assert all(asked <= seconds <= 1.25 * max(asked, 0.4) for seconds in service.waited)


def test_waiting_is_bounded_and_not_longer_than_of_use(monkeypatch):
    service = Service(monkeypatch, httpx.Response(429, headers={"Retry-After": "3600"}, json={"detail": "slowly"}))
    with pytest.raises(payoff_client.RateLimited, match="slowly") as caught:
        service.client().model("m").acquire({})

    assert caught.value.retry_after == 3600
    assert service.waited == []

    service = Service(monkeypatch, *[busy()] * 9)
    with pytest.raises(payoff_client.Unavailable):
        service.client(retry_seconds=0).model("m").acquire({})
    assert len(service.asked) == 1


def test_what_must_not_happen_twice_is_repeated_only_where_it_did_not_arrive(monkeypatch):
    service = Service(monkeypatch, httpx.ConnectError("refused"), httpx.ReadError("reset"))

    with pytest.raises(payoff_client.Unavailable, match="reset") as caught:
        service.client().model("m").delete_alias("champion")

    assert caught.value.status is None
    assert len(service.asked) == 2


def test_a_repeated_order_has_the_same_idempotency_key(monkeypatch):
    service = Service(
        monkeypatch, httpx.ReadError("reset"), httpx.Response(202, json=done() | {"status": "queued"}), events(done())
    )

    assert service.client().train("ds_1", name="m", learner="logistic").reference == "m:3"
    first, second, _ = service.asked
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.content == second.content

    service.answers = [httpx.Response(202, json=done()), events(done())]
    service.client().train("ds_1", name="m")
    assert service.asked[-2].headers["Idempotency-Key"] != first.headers["Idempotency-Key"]


def test_a_job_is_followed_by_asking_where_its_events_break_off(monkeypatch, capsys):
    running = done() | {"status": "running", "progress": 0.5, "stage": "fitting\x1b"}
    service = Service(
        monkeypatch,
        httpx.Response(202, json=running),
        httpx.Response(429, json={}),
        httpx.ReadError("reset"),
        httpx.Response(200, json=running),
        httpx.Response(200, json=done()),
    )

    service.client().train("ds_1", name="m", progress=True)

    assert service.asked[-1].headers["Prefer"] == "wait=20"
    assert service.waited[-1] == jobs._PAUSE  # as it was answered at once
    shown = capsys.readouterr().err
    assert " 50% fitting\r" in shown
    assert "100% done" in shown


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_fails_raises_its_problem(monkeypatch, status):
    problem = {
        "title": "Invalid",
        "status": 422,
        "detail": "one class",
        "errors": [{"loc": "/data", "msg": "one class"}],
    }
    failed = done() | {"status": status, "error": problem if status == "failed" else None}
    service = Service(monkeypatch, httpx.Response(202, json=failed), events(failed))

    with pytest.raises(payoff_client.JobFailed, match="one class" if status == "failed" else "cancelled") as caught:
        service.client().train("ds_1", name="m")
    assert caught.value.job == failed


@pytest.mark.parametrize(("status", "kind"), errors._BY_STATUS.items())
def test_problems_are_typed(monkeypatch, status, kind):
    problem = {"status": status, "title": "T", "detail": "D", "errors": [{"loc": "/known/age", "msg": "M"}]}
    headers = {"Content-Type": "application/problem+json"}
    service = Service(monkeypatch, httpx.Response(status, headers=headers, json=problem))

    with pytest.raises(kind) as caught:
        service.client(retry_seconds=0).model("m").acquire({})
    error = caught.value
    assert (error.status, error.title, error.detail, str(error)) == (status, "T", "D", "known['age']: M")


def test_a_proxys_error_is_no_problem_document(monkeypatch):
    service = Service(monkeypatch, httpx.Response(502, text="<html>bad gateway"), httpx.Response(307, text="elsewhere"))

    for expected in ("bad gateway", "elsewhere"):
        with pytest.raises(payoff_client.PayoffError, match=expected):
            service.client().models()


def test_another_servers_page_is_no_answer(monkeypatch):
    service = Service(monkeypatch, httpx.Response(200, text="<html>"))

    with pytest.raises(payoff_client.PayoffError, match="is http://service/ a Payoff service"):
        service.client().models()


def test_the_blocking_client_refuses_coroutines(monkeypatch):
    step = STATE | {"status": "acquire", "next": {"feature": "age", "cost": 1}}
    service = Service(monkeypatch, httpx.Response(200, json=step))

    async def ask(_feature):
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="AsyncPayoff"):
        service.client().model("m").acquire({}, ask)


def test_the_asynchronous_client_waits_in_the_event_loop():
    answers = [busy(), httpx.Response(200, json=STATE | {"status": "acquire", "next": {"feature": "age", "cost": 1}})]
    answers.append(httpx.Response(200, json=STATE))
    asked, naps = [], []

    async def answer(request):
        asked.append(json.loads(request.content))
        return answers.pop(0)

    async def ask(feature):
        return {"age": 63}[feature]

    async def run():
        async with AsyncPayoff("http://service", transport=httpx.MockTransport(answer)) as service:

            async def nap(seconds):
                naps.append(seconds)

            service._link.wire.sleep = nap
            return await service.model("m").acquire({}, ask)

    assert asyncio.run(run())["known"] == {"age": 63}
    assert [each["known"] for each in asked] == [{}, {}, {"age": 63}]
    assert len(naps) == 1


@pytest.mark.parametrize(
    ("methods", "blocking", "asynchronous"),
    [
        (client.ServiceMethods, Payoff, AsyncPayoff),
        (deciding.DecideMethods, Model, AsyncModel),
        (model.ModelMethods, Model, AsyncModel),
        (datasets.DatasetMethods, datasets.Datasets, datasets.AsyncDatasets),
        (matrices.MatrixMethods, matrices.Matrices, matrices.AsyncMatrices),
    ],
)
def test_both_clients_have_all_methods(methods, blocking, asynchronous):
    coroutines = {name for name, each in vars(methods).items() if inspect.iscoroutinefunction(each)}
    public = {name for name in coroutines if hasattr(blocking, name.removeprefix("_"))}

    assert coroutines - public <= {
        "_dataset_id",
        "_features",
        "_decided",
        "_part",
        "_acquire_many",
        "_records_nothing",
        "_records",
        "_answered",
        "_makes_ids",
    }
    for name in public:
        wrapped = getattr(blocking, name.removeprefix("_")).__wrapped__
        assert wrapped is getattr(asynchronous, name.removeprefix("_")) is getattr(methods, name)


def test_signatures_are_readable():
    for owner in (Payoff, AsyncPayoff, Model, AsyncModel, datasets.Datasets, matrices.AsyncMatrices):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_") and name != "model":
                signature = inspect.signature(method)
                assert method.__name__ == name
                assert "Unpack" not in str(signature)
                assert not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    assert {"benefits", "limits", "explore"} <= inspect.signature(Model.decide).parameters.keys()
    assert {"holdout", "delimiter"} <= inspect.signature(Payoff.train).parameters.keys()


HINTS = {
    "line 2 is not UTF-8; send ?encoding=latin-1, or save the file as UTF-8": "pass encoding='latin-1', or save",
    "the header is split by '\\t'; send ?delimiter=%09, or separate by commas": "pass delimiter='\\t', or separate",
    "'1,5' is not a number; send ?decimal=,": "is not a number; pass decimal=','",
    "send a key in the X-API-Key header, or as a bearer token": "pass a key as key=, or set PAYOFF_KEY",
    "'m' has no saved matrices; save one with PUT /models/m/matrices/<name>": "with model.matrices.save(<name>) of m",
    "leave it out, and ask `POST /retrieve` later": "and ask `model.retrieve` later",
    'no decision is recorded: send "record": true to /predict, or PUT': "recorded: decide with record=True, or PUT",
    'exploration is for recorded decisions: send "record": true': "decisions: decide with record=True",
}


@pytest.mark.parametrize("message", HINTS)
def test_messages_name_arguments_and_methods(monkeypatch, message):
    problem = {"title": "T", "detail": message, "errors": [{"loc": "/benefits/ill/0", "msg": message}]}
    service = Service(monkeypatch, httpx.Response(422, json=problem))
    with pytest.raises(payoff_client.Invalid) as caught:
        service.client().models()
    assert HINTS[message] in caught.value.detail
    assert str(caught.value).startswith("benefits['ill'][0]: ")
    assert caught.value.errors[0].loc == "/benefits/ill/0"


def test_training_s_hint_has_no_question_mark_of_a_query():
    found = in_python("'1,5' is not read as a number; send decimal=, if the comma is a decimal one, else leave it out")
    assert found.endswith("; pass decimal=',' if the comma is a decimal one, else leave it out")


IN_A_SHELL = {
    "line 2 is not UTF-8; pass encoding='latin-1', or save the file": "UTF-8; use --encoding 'latin-1', or save",
    "the header is split by ';'; pass delimiter=';', or separate": "by ';'; use --delimiter ';', or separate",
    "the header is split by '\\t'; pass delimiter='\\t', or separate": "use --delimiter '\\t', or separate",
    "pass decimal=',' if the comma is a decimal one": "use --decimal ',' if the comma",
    "invalid API key; pass a valid one as key=, or set PAYOFF_KEY": "key; set PAYOFF_KEY to a valid one",
    "save one with model.matrices.save(<name>) of m": "save one with models m --matrix <name>=FILE",
    "ask `model.retrieve` later": "ask `retrieve` later",
    "send a file to `client.datasets.upload`": "send a file to `train FILE --label COLUMN`",
    "ask `model.benefit`": "ask `model.benefit` of the Python client",
    "recorded: decide with record=True, or": "recorded: decide with record=True of the Python client, or",
    "2 places are invalid\nlabel[0]: unknown\nbenefits['x']['y']: no": (
        "2 places are invalid\n--label, item 1: unknown\n--benefits, 'x', 'y': no"
    ),
    "feature_costs['a']: must be positive": "--feature-costs, 'a': must",
    "encoding is 'klingon'; must be": "--encoding is 'klingon'; must be",
    "column 'label': unknown": "column 'label': unknown",
}


@pytest.mark.parametrize("message", IN_A_SHELL)
def test_commands_name_options(message):
    assert IN_A_SHELL[message] in on_command_line(message)


def test_every_method_that_messages_name_has_its_words_in_a_shell():
    assert wording._COMMANDS.keys() == set(wording._METHODS.values())


ELSEWHERE = {
    "a page": httpx.Response(404, text="<!DOCTYPE HTML>"),
    "another service": httpx.Response(404, json={"detail": "Not Found"}),
    "a page that takes no POST": httpx.Response(501, text="<!DOCTYPE HTML>"),
    "another path of Payoff": httpx.Response(
        404,
        headers={"Content-Type": "application/problem+json"},
        text='{"title": "Not Found", "status": 404, "detail": "Not Found"}',
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_url_that_leads_elsewhere_is_named(case):
    transport = httpx.MockTransport(lambda _: ELSEWHERE[case])
    with Payoff("http://service/docs", transport=transport) as client:
        with pytest.raises(payoff_client.InvalidAnswer, match=r"http://service/docs is no Payoff service: .* GET /mod"):
            client.models()
        with pytest.raises(
            payoff_client.InvalidAnswer, match=r"http://service/docs is no Payoff service: .* /models/m"
        ):
            client.model("m@a").card()


def test_a_missing_model_is_not_found():
    problem = {"title": "Not found", "status": 404, "detail": "there is no model 'm'"}
    headers = {"Content-Type": "application/problem+json; charset=utf-8"}
    transport = httpx.MockTransport(lambda _: httpx.Response(404, headers=headers, content=json.dumps(problem)))
    with Payoff("http://service", transport=transport) as client, pytest.raises(payoff_client.NotFound, match="'m'"):
        client.model("m").card()


def test_a_retry_is_a_record_of_the_log(monkeypatch, caplog):
    service = Service(monkeypatch, busy(), httpx.Response(200, json=STATE))
    service.client(retry_seconds=9).model("m").acquire({}, record=False)
    assert [record.getMessage() for record in caplog.records if record.name == "payoff_client"] == [
        "starting; it is tried again for at most 9 s"
    ]


CARD = {"name": "m", "version": 1, "features": [{"name": "income", "type": "numeric"}]}


@pytest.mark.parametrize("rows", [pd.DataFrame({"incme": [1]}, index=["p0"]), [{"incme": 1}]])
def test_a_misspelt_column_is_named(monkeypatch, rows):
    service = Service(monkeypatch, *[httpx.Response(200, json=CARD)] * 2)
    with pytest.raises(payoff_client.Invalid, match="column 'incme': no feature of m:1; did you mean 'income'"):
        service.client().model("m").decide(rows)


def test_the_first_values_that_are_no_numbers_are_named(monkeypatch):
    service = Service(monkeypatch, *[httpx.Response(200, json=CARD)] * 2)
    frame = pd.DataFrame({"income": ["n/a", 3, "x" * 99]}, index=["p0", "p1", "p2"])
    with pytest.raises(payoff_client.Invalid) as caught:
        service.client().model("m").decide(frame)
    assert str(caught.value).splitlines()[1:] == [
        "row 'p0', column 'income': 'income' takes a number or null, not 'n/a'",
        f"row 'p2', column 'income': 'income' takes a number or null, not '{'x' * 39}",
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pl.LazyFrame({"age": [1]}), r"frame.collect\(\)"),
        ("cases.csv", "`decide_file` decides"),
        (Path("cases.csv"), "`decide_file` decides"),
    ],
)
def test_what_holds_no_rows_is_refused_with_what_does(data, words):
    client = Payoff("http://service")
    with pytest.raises(TypeError, match=words):
        client.model("m").decide(data)
    if not isinstance(data, str | Path):
        with pytest.raises(TypeError, match=words):
            client.train(data, label="age", name="m")


def test_nothing_but_httpx_and_numpy_is_imported():
    heavy = "{'pandas', 'polars', 'pyarrow', 'sklearn', 'app'}"
    code = f"import sys, payoff_client; print({heavy} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(payoff_client.__file__).parents[1])},
        cwd="/",
    )

    assert found.stdout.strip() == "set()", found.stdout


def test_the_key_is_not_shown():
    assert "secret" not in repr(Payoff("http://service", "secret")) + repr(
        Payoff("http://service", "secret").model("m")
    )
    with pytest.raises(ValueError, match="the key has characters") as caught:
        Payoff(key="secr\u00e9t")
    assert "secr" not in str(caught.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'tiemout'"):
        Payoff(tiemout=3)


PLACES = {
    "http://u:secret@service": "http://service",
    "https://u:sec%40ret@service:8000/a": "https://service:8000",
    "http://secret@[::1]:1": "http://[::1]:1",
    "u:secret@service": "http://service",
    "http://u:secret@service\n": "http://service",
}


@pytest.mark.parametrize("url", PLACES)
@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"")),
        httpx.Response(404, text="<html>"),
        httpx.Response(302, headers={"Location": "http://["}),
        httpx.Response(503, text="busy"),
    ],
    ids=str,
)
def test_a_password_is_not_shown(monkeypatch, caplog, url, answer):
    caplog.set_level("DEBUG")
    service = Service(monkeypatch, *[answer] * 20)
    with pytest.raises((payoff_client.PayoffError, ValueError)) as caught:
        Payoff(url, transport=httpx.MockTransport(service), retry_seconds=1).models()
    said = "".join(map(str, [caught.value, *caplog.messages]))
    assert "secret" not in said
    assert "sec%40ret" not in said
    if "http:" in said:
        assert PLACES[url] in said
    name, password = ("secret", "") if "//secret@" in url else ("u", "sec@ret" if "%40" in url else "secret")
    expected = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
    assert {request.headers["Authorization"] for request in service.asked} <= {expected}


@pytest.mark.parametrize("binary", [False, True])
def test_a_model_of_numbers_has_values(monkeypatch, binary):
    rest = {"model": {"name": "m", "version": 1}, "warnings": []}
    if binary:
        sink = io.BytesIO()
        np.save(sink, np.array([1.5, 2.5]))
        headers = {"Content-Type": "application/x-npy", "Payoff-Answer": json.dumps(rest)}
        answer = httpx.Response(200, content=sink.getvalue(), headers=headers)
    else:
        answer = httpx.Response(200, json={**rest, "values": [1.5, 2.5]})
    service = Service(monkeypatch, answer)

    assert service.client().model("m").decide([[1, 2], [3, 4]])["value"].tolist() == [1.5, 2.5]


def test_names_that_do_not_fit_into_a_header_come_as_json(monkeypatch):
    card = {"name": "m", "version": 1, "features": []}
    refused = httpx.Response(413, json={"detail": "names do not fit into the header Payoff-Answer"})
    answer = {"model": card, "classes": ["a"], "actions": ["a"], "decisions": ["a"] * 3000}
    answer |= {"probabilities": [[1.0]] * 3000, "rule": "most_probable", "warnings": []}
    service = Service(monkeypatch, httpx.Response(200, json=card), refused, httpx.Response(200, json=answer))

    assert service.client().model("m").decide(np.zeros((3000, 1)))["decision"].tolist() == ["a"] * 3000
    assert [request.headers["Accept"] for request in service.asked[1:]] == ["application/x-npy", "application/json"]


def test_reports_have_a_chart_in_notebooks(monkeypatch, capsys):
    class ZMQInteractiveShell:
        pass

    service = Service(monkeypatch, *[httpx.Response(200, json={"rules": []}), httpx.Response(200, text="<svg/>")] * 2)
    service.answers.insert(2, httpx.Response(200, json={"rules": []}))
    assert service.client().model("m").benefit([[1, 0], [0, 1]], chart=True)._repr_svg_() == "<svg/>"
    assert service.client().model("m").benefit([[1, 0], [0, 1]])._repr_svg_() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    assert service.client().model("m").benefit([[1, 0], [0, 1]])._repr_svg_() == "<svg/>"
    with progress.Bar("title", None) as bar:
        bar.show(0.5)
    assert "title [" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_never_leads_to_another_path(name):
    """`DELETE /models/triage/matrices/..` is that of the whole model."""
    sent = []

    def answer(request):
        sent.append(request.url.raw_path)
        return httpx.Response(204)

    with Payoff("http://service", transport=httpx.MockTransport(answer)) as client:
        model = client.model("triage")
        calls = [
            lambda: model.matrices.delete(name),
            lambda: model.matrices.get(name),
            lambda: model.delete_alias(name),
            lambda: client.datasets.delete(name),
            lambda: client.model(name).describe(),
            lambda: client.model(name).matrices.delete("autumn"),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="no name"):
                call()
        model.matrices.delete("../../other")
    assert sent == [b"/models/triage/matrices/..%2F..%2Fother"]


def test_names_of_a_service_do_not_command_a_terminal(capsys):
    name = "mild\x1b]0;owned\x07\u202e"
    terminal.show(argparse.Namespace(json=False), {}, f"decision: {name}\nspent: 1")
    terminal.say(name)
    found = capsys.readouterr()
    assert found.out == "decision: mild]0;owned\nspent: 1\n"
    assert found.err == "mild]0;owned\n"
