"""Segments over HTTP: recorded with decisions, and the report by their values."""

import json

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

MATRIX = [[0, -1], [-10, 5]]
ROWS = 40
RARE = 5


@pytest.fixture(scope="module")
def client(service):
    data = two_class_rows(60)
    order = {"model": "regions", "learner": {"kind": "logistic"}, "data": data}
    trained(service, order)
    names = data["features"]
    regions = ["north"] * ROWS + ["south"] * ROWS + ["west"] * RARE
    cases = [
        dict(zip(names, data["rows"][i % 60], strict=True)) | {"region": region}
        for i, region in enumerate(regions)
    ]
    record = {"segments": ["region", "pain"]}
    answer = ask(service, cases, record).json()
    truths = [data["labels"][i % 60] for i in range(len(cases))]
    pairs = zip(answer["ids"], truths, strict=True)
    outcomes = [{"id": id_, "truth": truth} for id_, truth in pairs]
    service.post("/outcomes", json={"outcomes": outcomes}).raise_for_status()
    service.decisions = answer["decisions"]
    service.cases = cases
    return service


def ask(client, cases, record):
    question = {"model": "regions", "instances": cases, "benefits": MATRIX}
    return client.post("/predict", json=question | {"record": record})


def report(client, by):
    return client.get("/models/regions/outcomes", params={"by": by})


def test_the_report_is_divided_by_a_member_that_is_no_feature(client):
    groups = {
        group["group"]: group
        for group in report(client, "segment:region").json()["groups"]
    }
    assert {name: group["decisions"] for name, group in groups.items()} == {
        "north": ROWS,
        "south": ROWS,
        "other": RARE,
    }
    action = client.decisions[0]
    share = client.decisions[:ROWS].count(action) / ROWS
    shares = {line["action"]: line for line in groups["north"]["actions"]}
    assert shares[action]["share"] == share
    low, high = shares[action]["interval"]
    assert low < share <= high
    north = groups["north"]
    gap = north["calibration"]["occurred"] - north["calibration"]["stated"]
    assert north["calibration"]["mean"] == pytest.approx(gap)
    assert north["promised"]["cases"] == north["realised"]["cases"] == ROWS
    assert groups["other"]["difference"]["p_value"] is None


def test_a_feature_is_a_segment_too(client):
    groups = report(client, "segment:pain").json()["groups"]
    pains = [case["pain"] for case in client.cases]
    counts = {name: pains.count(name) for name in set(pains) if pains.count(name) >= 30}
    assert {
        g["group"]: g["decisions"] for g in groups if g["group"] != "other"
    } == counts


@pytest.mark.parametrize(
    ("changes", "segments", "place"),
    [
        ({}, ["pain", "regoin"], "/record/segments/1"),
        ({}, ["a", "b", "c", "d"], "/record/segments"),
        ({}, "region", "/record/segments"),
        ({"region": ["north"]}, ["region"], "/instances/0/region"),
        ({"region": "x" * 101}, ["region"], "/instances/0/region"),
        ({"colour": "red"}, ["region"], "/instances/0/colour"),
    ],
)
def test_what_is_no_segment_is_refused_at_its_place(client, changes, segments, place):
    case = client.cases[0] | changes
    if "region" not in segments:
        del case["region"]
    response = ask(client, [case], {"segments": segments})
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == place


def test_a_column_of_many_values_is_no_segment(client):
    cases = [case | {"region": i} for i, case in enumerate(client.cases[:51])]
    response = ask(client, cases, {"segments": ["region"]})
    assert response.json()["errors"][0]["loc"] == "/record/segments/0"
    assert "51 different values" in response.json()["detail"]


def test_reports_by_what_was_not_recorded_are_refused(client):
    for by in ("segment:colour", "segment:", "regions"):
        response = report(client, by)
        assert response.status_code == 422
        assert response.json()["errors"][0]["loc"] == "/by"
    price = {"model": "regions", "cases": [{}], "record": {"segments": ["region"]}}
    assert client.post("/acquire", json=price).status_code == 422


def test_a_repeated_request_is_the_same_decision_only_in_the_same_segment(client):
    case = client.cases[0]
    record = {"segments": ["region"], "ids": ["once"]}
    assert [
        ask(client, [case | {"region": region}], record).status_code
        for region in ("north", "north", "south")
    ] == [200, 200, 409]
    assert np.unique([case["region"] for case in client.cases]).size == 3


def test_the_hold_out_is_divided_by_features_and_by_columns_left_out(service):
    """`region` is a category that is left out of training, `pain` a feature."""
    data = two_class_rows(400)
    lines = [",".join([*data["features"], "region", "label"])]
    for i, (row, label) in enumerate(zip(data["rows"], data["labels"], strict=True)):
        lines.append(",".join([*map(str, row), ("north", "south")[i % 2], label]))
    dataset = service.post(
        "/datasets",
        files={"file": ("t.csv", "\n".join(lines).encode())},
        data={"label": "label", "types": '{"region": "ignore"}'},
    ).json()
    order = {"model": "held-regions", "learner": {"kind": "logistic"}}
    trained(service, order | {"data": {"dataset": dataset["id"]}})
    body = {"benefits": MATRIX}

    def benefit(by, status=200):
        response = service.post(
            "/models/held-regions/benefit", json=body, params={"by": by}
        )
        assert response.status_code == status, response.text
        return response.json()

    for by, names in (("region", {"north", "south"}), ("pain", None)):
        report = benefit(by)
        groups = {line["group"]: line for line in report["segments"]}
        assert names is None or names == set(groups)
        assert sum(line["rows"] for line in groups.values()) == report["rows"]
        total = sum(line["rows"] * line["realised"] for line in groups.values())
        assert total / report["rows"] == pytest.approx(
            report["expected_benefit"]["benefit"]
        )
    refusal = benefit("colour", 422)
    assert refusal["errors"][0]["loc"] == "/by"
    assert "'region'" in refusal["detail"] or "region" in refusal["errors"][0]["msg"]


def test_a_table_has_segments_in_features_and_in_columns_that_come_back(client):
    cases = client.cases[:3]
    names = [*cases[0]]
    lines = [",".join(names)]
    lines += [",".join(str(case[name]) for name in names) for case in cases]
    query = {
        "model": "regions",
        "benefits": json.dumps(MATRIX),
        "record": json.dumps({"segments": ["region", "pain"]}),
        "keep": "region",
    }
    request = {"content": "\n".join(lines), "headers": {"Content-Type": "text/csv"}}
    answer = client.post("/predict", params=query, **request)
    assert answer.status_code == 200, answer.text
    del query["keep"]
    table = [line.rpartition(",")[0] for line in lines]
    request["content"] = "\n".join(table)
    refused = client.post("/predict", params=query, **request)
    assert refused.json()["errors"][0]["loc"] == "/record/segments/0"
