"""Data sets over HTTP: uploads in every form, and a problem document for every mistake."""

import asyncio
import gzip
import time
from functools import partial
from types import SimpleNamespace

import pytest

from app.api.app import create_app
from app.api.codecs.uploads import run_while_connected
from app.api.limiters import Limiters
from app.service import wire
from app.tables.dataset import DataLimits
from tests.api.callers import ask, called_by
from tests.api.column_bodies import parquet
from tests.conftest import settings_for

CSV = b"a,b,y\n1,u,0\n2,v,1\n,u,0\n4,,1\n"
CSV_BODY = {"Content-Type": "text/csv"}
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.fixture
def app(tmp_path):
    service = wire(settings_for(tmp_path, workers=0, max_upload_mb=5_000 / 2**20))
    yield create_app(service)
    service.stores.database.close()


@pytest.fixture
def client(app):
    return partial(ask, called_by(app))


def problem(response, status=422):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [flaw["loc"] for flaw in response.json().get("errors", [])]


def form(name, content, file_name=None):
    """One part of a form, as it goes over the wire."""
    suffix = f'; filename="{file_name}"' if file_name else ""
    head = f'Content-Disposition: form-data; name="{name}"{suffix}'.encode()
    return b"--x\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


def labelled(label, kind):
    """A form whose labels are words, and what they are said to be."""
    parts = [
        form("file", b"a,y\n1,u\n2,v\n3,u\n4,v\n", "a"),
        form("label", label),
        form("label_type", kind),
    ]
    return b"".join(parts) + b"--x--\r\n"


BARE = {
    "text/csv; charset=utf-8": CSV,
    "application/gzip": gzip.compress(CSV),
    "application/vnd.apache.parquet": parquet(
        {"a": [1, 2, None, 4], "b": ["u", "v", "u", None], "y": [0, 1, 0, 1]}
    ),
    "application/octet-stream": CSV,
    "text/csv": gzip.compress(CSV),
}


def test_form_upload(client):
    """The form of the contract answers with the data set and where it is; a bare body is the same data set."""
    response = client(
        "POST",
        "/datasets",
        files={"file": ("t.csv", CSV)},
        data={"label": "y", "name": "small"},
    )

    found = response.json()
    assert (response.status_code, response.headers["location"]) == (
        201,
        f"/datasets/{found['id']}",
    )
    assert found["features"] == [
        {"name": "a", "type": "numeric"},
        {"name": "b", "type": "categorical"},
    ]
    stated = {"name": "small", "rows": 4, "labels": ["y"], "classes": [0, 1]}
    assert {name: found[name] for name in stated} == stated
    assert client("GET", response.headers["location"]).json() == found
    for media_type, content in BARE.items():
        bare = client(
            "POST",
            "/datasets?label=y&name=small",
            content=content,
            headers={"Content-Type": media_type},
        )
        assert (bare.status_code, bare.json()) == (201, found), media_type
    assert client("DELETE", response.headers["location"]).status_code == 204
    problem(client("GET", response.headers["location"]), 404)


def test_several_labels_and_pages(client):
    """A label for each time that the field comes; newest first, a page at a time."""
    content, headers = b"a,p,q\n1,1,0\n2,0,1\n", {"Content-Type": "text/csv"}
    one = client(
        "POST",
        "/datasets",
        files={"file": ("t.csv", content)},
        data={"label": ["p", "q"]},
    ).json()
    other = client(
        "POST",
        "/datasets?label=p&label=q",
        content=content.replace(b"a", b"b"),
        headers=headers,
    ).json()
    assert one["classes"] == other["classes"] == ["p", "q"]

    first = client("GET", "/datasets?page_size=1").json()
    second = client(
        "GET", "/datasets", params={"page_token": first["next_page_token"]}
    ).json()
    assert [first["datasets"], second] == [
        [other],
        {"datasets": [one], "next_page_token": None},
    ]


@pytest.mark.parametrize(
    ("content", "headers", "place"),
    [
        (CSV, {"Content-Type": "multipart/form-data"}, [""]),
        (form("file", CSV, "t.csv")[:40], BOUNDARY, ["/file"]),  # cut off
        (form("label", b"y") + b"--x--\r\n", BOUNDARY, ["/file"]),
        (form("file", CSV) + form("label", b"y") + b"--x--\r\n", BOUNDARY, ["/file"]),
        (
            form("file", CSV, "a") + form("file", CSV) + b"--x--\r\n",
            BOUNDARY,
            ["/file"],
        ),
        (form("label", b"y", "a") + b"--x--\r\n", BOUNDARY, ["/file"]),
        (
            form("file", CSV, "a") + form("f~/", b"y") + b"--x--\r\n",
            BOUNDARY,
            ["/f~0~1"],
        ),
        (form("file", CSV, "a") + b"--x--\r\n", BOUNDARY, ["/label"]),
        (
            form("file", b"", "a") + form("label", b"y") + b"--x--\r\n",
            BOUNDARY,
            ["/file"],
        ),
        (
            form("file", CSV, "a") + form("label", b"z") + b"--x--\r\n",
            BOUNDARY,
            ["/label/0"],
        ),
        (b"a,y\n1\n", {"Content-Type": "text/csv"}, ["/file"]),
        (labelled(b"y", b"number"), BOUNDARY, ["/file/y"]),
        (labelled(b"y", b"integer"), BOUNDARY, ["/label_type"]),
        (form("label", b"a") + labelled(b"y", b"number"), BOUNDARY, ["/label_type"]),
    ],
)
def test_bad_uploads(client, content, headers, place):
    """Each mistake in an upload is a problem document that points at it, and nothing is kept."""
    response = client("POST", "/datasets", content=content, headers=headers)

    assert problem(response) == place
    assert client("GET", "/datasets").json() == {
        "datasets": [],
        "next_page_token": None,
    }


def test_too_large(client):
    """A body beyond the limit is refused while it is read, also where its length is not announced."""

    async def endless():
        for _ in range(1000):
            yield b"1,2\n" * 100

    for content in (b"a,y\n" + b"1,2\n" * 2000, endless()):
        sent = client(
            "POST",
            "/datasets?label=y",
            content=content,
            headers={"Content-Type": "text/csv"},
        )
        assert not problem(sent, 413)
    for content in (b"1" * 6000, gzip.compress(b"a,y\n" + b"1,2\n" * 25_000)):
        assert not problem(
            client(
                "POST", "/datasets", files={"file": ("t", content)}, data={"label": "y"}
            ),
            413,
        )


def test_types_dialect_and_name(client):
    """As parts of a form or in the query; mistakes at their places; the name finds what was uploaded last."""
    content = "a;b;y\n1,5;x;0\n.;x;1\n2,5;n.a.;0\n4,5;3;1\n".encode("utf-16")
    fields = {"label": "y", "name": "small", "types": '{"a": "number", "b": "ignore"}'}
    fields |= {"delimiter": ";", "decimal": ",", "encoding": "utf-16"}
    sent = client(
        "POST", "/datasets", files={"file": ("t.csv", content)}, data=fields
    ).json()
    assert sent["features"] == [{"name": "a", "type": "numeric"}]
    assert sent["ignored"] == {"b": "ordered"}
    assert len(sent["warnings"]) == 1
    assert "row 3: '.' is not a number" in sent["warnings"][0]
    bare = client(
        "POST",
        "/datasets",
        params=fields,
        content=content,
        headers={"Content-Type": "text/csv"},
    ).json()
    assert bare == sent
    assert client("GET", "/datasets/small").json() == sent
    for name, value, loc in [
        ("name", " ", "/name"),
        ("types", "{", "/types"),
        ("types", "a=number", "/types"),
        ("types", '{"a": "dates"}', "/types/a"),
        ("types", '{"c": "number"}', "/types/c"),
        ("delimiter", "x", "/delimiter"),
        ("encoding", "utf-7", "/encoding"),
    ]:
        answer = client(
            "POST",
            "/datasets",
            files={"file": ("t.csv", content)},
            data=fields | {name: value},
        )
        assert problem(answer) == [loc]
    answer = client(
        "POST",
        "/datasets?label=y",
        content=b"a,y\n,0\n,1\n",
        headers={"Content-Type": "text/csv"},
    )
    assert problem(answer) == ["/file/y", "/file/a"]
    assert [each["name"] for each in answer.json()["columns"]] == ["a", "y"]


PARTS = form("label", b"y") + form("file", CSV, "t.csv") + b"--x--\r\n"


def test_a_form_is_bounded(client, app):
    """In its parts and their lengths by Starlette, with what this service allows."""
    app.state.service.stores.datasets.limits = DataLimits(1000, 100, 100, 10**7)
    for more in (form("label", b"y" * 801), form("label", b"y") * 1001):
        assert problem(
            client("POST", "/datasets", content=more + PARTS, headers=BOUNDARY)
        ) == [""]


@pytest.mark.parametrize("disconnected", [True, False])
def test_work_for_a_client_that_is_gone_is_stopped(disconnected):
    """It is told so once it has begun; the answer of other work is awaited, however long it takes."""
    looks = iter([False])  # the first one is before the work

    async def is_disconnected():
        return next(looks, disconnected)

    def work(value, is_cancelled):
        for _ in range(6000 if disconnected else 100):
            if is_cancelled():
                return "stopped"
            time.sleep(0.01)
        return value

    service = SimpleNamespace(limiters=Limiters())
    request = SimpleNamespace(
        is_disconnected=is_disconnected,
        app=SimpleNamespace(state=SimpleNamespace(service=service)),
        scope={"headers": []},
    )
    assert asyncio.run(run_while_connected(request, work, "done")) == (
        "stopped" if disconnected else "done"
    )


def test_rows_of_classes_are_left_out_by_query_and_form(client):
    content = b"a,y\n1,u\n2,v\nx,unknown\n3,u\n4,v\n5,?!\n"
    plain = client(
        "POST",
        "/datasets?label=y",
        content=b"a,y\n1,u\n2,v\n3,u\n4,v\n",
        headers=CSV_BODY,
    )
    query = "/datasets?label=y&drop_classes=unknown&drop_classes=%3F!"
    parts = [
        form("label", b"y"),
        form("drop_classes", b"unknown"),
        form("drop_classes", b"?!"),
    ]
    body = b"".join([form("file", content, "a.csv"), *parts]) + b"--x--\r\n"
    for answer in (
        client("POST", query, content=content, headers=CSV_BODY),
        client("POST", "/datasets", content=body, headers=BOUNDARY),
    ):
        assert answer.status_code == 201, answer.text
        assert (answer.status_code, answer.json()["id"]) == (201, plain.json()["id"])
        assert "rows with '?!', which are left out: 1" in answer.json()["warnings"][0]
    several = client("POST", f"{query}&label=a", content=content, headers=CSV_BODY)
    assert problem(several) == ["/drop_classes"]


def test_the_label_s_problem_of_many_rows_is_one_line(client):
    content = b"a,y\n" + b"1,u\n2,v\n3,\n" * 20
    answer = client("POST", "/datasets?label=y", content=content, headers=CSV_BODY)
    assert problem(answer) == ["/file/y"]
    assert "20 rows (4, 7, 10, …)" in answer.json()["errors"][0]["msg"]
