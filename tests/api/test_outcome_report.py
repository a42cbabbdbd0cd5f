"""The report on outcomes over HTTP: against a client's own ledger, as a chart, and where truth is selected."""

import pytest

from app.outcomes.decision import Terms
from tests.conftest import database_of, serving, settings_for, trained, two_class_rows
from tests.outcomes.records import decided

MATRIX = [[0, -1], [-10, 5]]
DAY = 20_000
LOANS = Terms(
    "predict",
    "loans",
    1,
    "expected_benefit",
    ("0", "1"),
    ("grant", "refuse"),
    ((1.0, 0.0), (-8.0, 0.0)),
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A service with the models `ward`, which is asked over HTTP, and `loans`, with 200 decisions on each of 4 days."""
    folder = tmp_path_factory.mktemp("reports")
    data = two_class_rows()
    with serving(settings_for(folder)) as client:
        for model, more in (("ward", {"holdout": 0.6, "refit": False}), ("loans", {})):
            trained(
                client,
                {"model": model, "learner": {"kind": "logistic"}, "data": data, **more},
            )
        client.data, client.folder = data, folder
        with database_of(client) as database:
            for day in range(DAY, DAY + 4):
                decided(
                    database, 200, terms=LOANS, at=day * 86_400.0 + 5, client="bank"
                )
        yield client


def get(client, path="loans", status=200, headers=None, **query):
    response = client.get(f"/models/{path}/outcomes", params=query, headers=headers)
    assert response.status_code == status, response.text
    return response


def test_sums_are_those_of_the_clients_ledger(client):
    rows, labels, actions = (
        client.data["rows"],
        client.data["labels"],
        ["wait", "treat"],
    )
    question = {
        "model": "ward",
        "instances": rows,
        "benefits": MATRIX,
        "actions": actions,
        "record": True,
    }
    answer = client.post("/predict", json=question).json()
    outcomes, received = [], 0.0
    for i, (id_, truth, decision) in enumerate(
        zip(answer["ids"], labels, answer["decisions"], strict=True)
    ):
        if i % 3 == 0:
            continue
        taken = actions.index(decision) if i % 10 != 1 else 1 - actions.index(decision)
        benefit = MATRIX[truth == "ill"][taken] - (0.5 if i % 20 == 2 else 0)
        told = (
            {"action": actions[taken]}
            if i % 10 == 1
            else {"benefit": benefit}
            if i % 20 == 2
            else {}
        )
        outcomes.append({"id": id_, "truth": truth} | told)
        received += benefit
    assert client.post("/outcomes", json={"outcomes": outcomes}).json()[
        "accepted"
    ] == len(outcomes)

    report = get(client, "ward").json()

    assert (report["decisions"], report["known"]) == (len(rows), len(outcomes))
    assert report["realised"]["total"] == pytest.approx(received)
    assert report["model"] == {"name": "ward", "version": None}
    assert [line["classes"][0]["class"] for line in report["priors"]["versions"]] == [
        "healthy"
    ]
    assert (
        get(client, "ward:1", headers={"Accept": "image/svg+xml"}).json()["realised"]
        == report["realised"]
    )
    assert (
        get(client, "ward", by="day").json()["groups"][0]["realised"]
        == report["realised"]
    )
    assert report["series"] is None
    series = get(client, "ward", series=True).json()["series"]
    assert series["realised"] == pytest.approx([received])


def test_a_period_leaves_out_what_was_decided_before_and_after(client):
    day = "2024-10-05T00:00:00Z"  # the second of the four days
    assert get(client, since=day).json()["decisions"] == 600
    assert get(client, until=day).json()["decisions"] == 200
    assert (
        get(client, since="2024-10-05", until="2024-10-06").json()["decisions"] == 200
    )
    report = get(client, since=str(DAY * 86_400 + 86_400)).json()
    assert report["since"].startswith("2024-10-05")
    assert [
        group["group"] for group in get(client, by="day", until=day).json()["groups"]
    ] == ["2024-10-04"]
    assert get(client, since="2030-01-01").json()["decisions"] == 0


def test_what_cannot_be_reported_is_refused(client):
    get(client, by="colour", status=422)
    for reference, status in (
        ("nobody", 404),
        ("ward:99", 404),
        ("ward@nowhere", 404),
        ("Not_A_Name!", 422),
    ):
        get(client, reference, status=status)
    assert (
        get(client, since="0001-01-01", until="9999-12-31").json()["decisions"] == 800
    )


def test_an_empty_report_names_the_versions_that_have_decisions_and_how_to_ask(client):
    order = {"learner": {"kind": "logistic"}, "data": client.data}
    for model in ("loans", "unasked"):  # a second version and a first one
        trained(client, order | {"model": model})
    for reference, period, words in (
        ("unasked", {}, 'send "record": true to /predict'),
        ("loans:2", {}, "ask for loans, which"),
        ("loans", {"since": "2025-01-01"}, "send"),
    ):
        report = get(client, reference, **period).json()
        (warning,) = report["warnings"]
        assert report["decisions"] == 0
        assert warning.startswith(
            f"no decision of {reference} is recorded in this period: {words}"
        )
    assert "POST /outcomes" in get(client).json()["warnings"][0]
