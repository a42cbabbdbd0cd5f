"""From a file as people export it to decisions, without a change to the file."""

import csv
import io

import numpy as np
import pytest

from app.tables.text import is_number
from tests.conftest import trained
from tests.messages import says
from tests.tables.messy import EXPORTS, rows_of


def values(row: dict[str, str]) -> dict[str, object]:
    """A row as a program sends it: plain numbers as such, other text as it stands in the file."""
    return {
        name: float(word) if is_number(word) else word or None
        for name, word in row.items()
    }


@pytest.mark.parametrize("name", EXPORTS)
def test_from_an_export_to_a_decision(service, name):
    """Refused at most once, with the option that helps; rows come as objects or as a file, ignored columns and all."""
    export, kind = EXPORTS[name], {"Content-Type": "text/csv"}
    query = {"label": export.label}
    first = service.post(
        "/datasets", params=query, content=export.content, headers=kind
    )
    if export.refused_without:
        assert first.status_code == 422
        assert all(part in first.json()["detail"] for part in export.refused_without)
    answer = service.post(
        "/datasets", params=query | export.asked, content=export.content, headers=kind
    )
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert [each["name"] for each in found["features"]] == export.features
    assert list(found["ignored"]) == export.ignored
    model = f"export-{len(name)}-{name[0]}"
    trained(
        service,
        {
            "model": model,
            "learner": {"kind": "logistic"},
            "data": {"dataset": found["id"]},
        },
    )
    benefits = {
        name: {"call": 5 * k - 1, "wait": 0} for k, name in enumerate(found["classes"])
    }
    rows = [*rows_of(export)][:40]
    body = {
        "model": model,
        "instances": [values(row) for row in rows],
        "benefits": benefits,
    }
    decided = service.post("/predict", json=body)
    assert decided.status_code == 200, decided.text
    assert len(set(decided.json()["decisions"])) == 2
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], delimiter=export.asked.get("delimiter", ","))
    writer.writeheader()
    writer.writerows(rows)
    dialect = {
        key: export.asked[key]
        for key in ("delimiter", "encoding")
        if key in export.asked
    }
    query, content = (
        {"model": model, "rule": "most_probable"},
        text.getvalue().encode(dialect.get("encoding", "utf-8")),
    )
    as_file = service.post(
        "/predict", params=query | dialect, content=content, headers=kind
    )
    assert as_file.status_code == 200, as_file.text
    assert np.array_equal(
        as_file.json()["probabilities"], decided.json()["probabilities"]
    )


def test_text_that_is_written_in_another_way_is_refused_at_its_place(service):
    export = EXPORTS["crm"]
    found = service.post(
        "/datasets?label=churn",
        content=export.content,
        headers={"Content-Type": "text/csv"},
    ).json()
    learner = {"kind": "cost_tree", "depth": 2, "lambda": 0.01}
    trained(
        service, {"model": "crm", "learner": learner, "data": {"dataset": found["id"]}}
    )
    row = values(next(rows_of(export)))
    order = {
        "model": "crm",
        "learner": {"kind": "logistic"},
        "data": {"dataset": found["id"]},
    }
    refused = service.post(
        "/train", json=order | {"feature_costs": dict.fromkeys(row, 1)}
    ).json()["errors"]
    assert refused[0] == says(
        "/feature_costs/customer_id", "not trained with", "is left out"
    )
    wrong = {"balance": "12.50 $", "since": "31/12/2026", "discount": "12"}
    for name, word in wrong.items():
        bad = {"model": "crm", "instances": [row, row | {name: word}]}
        answer = service.post("/predict", json=bad).json()
        assert [error["loc"] for error in answer["errors"]] == [f"/instances/1/{name}"]
        case = service.post("/acquire", json={"model": "crm", "known": {name: word}})
        assert [error["loc"] for error in case.json()["errors"]] == [f"/known/{name}"]
    asked = service.post(
        "/acquire",
        json={"model": "crm", "known": {"customer_id": 7, "balance": "12,50 €"}},
    )
    assert asked.status_code == 200, asked.text


def test_recorded_text_is_learned_from_again_in_the_same_types(service):
    """Ignored columns are not recorded; features keep their forms, and classes that look like dates stay words."""
    content = (
        EXPORTS["crm"]
        .content.replace(b"leaves", b"2026-01-01")
        .replace(b"stays", b"2026-02-02")
    )
    found = service.post(
        "/datasets?label=churn", content=content, headers={"Content-Type": "text/csv"}
    ).json()
    assert found["classes"] == ["2026-01-01", "2026-02-02"]
    trained(
        service,
        {
            "model": "again",
            "learner": {"kind": "logistic"},
            "data": {"dataset": found["id"]},
        },
    )
    rows = [values(row) for row in rows_of(EXPORTS["crm"])]
    order = {
        "model": "again",
        "instances": rows,
        "rule": "most_probable",
        "record": {"instances": True},
    }
    ids = service.post("/predict", json=order).json()["ids"]
    truths = [
        {"id": id_, "truth": found["classes"][i % 2]} for i, id_ in enumerate(ids)
    ]
    assert service.post("/outcomes", json={"outcomes": truths}).json()[
        "accepted"
    ] == len(rows)
    again = service.post("/datasets/from-outcomes", json={"model": "again"}).json()
    assert again["rows"] == len(rows)
    assert [again[name] for name in ("features", "classes")] == [
        found[name] for name in ("features", "classes")
    ]
    forms = [
        {each["name"]: each["form"] for each in one["columns"] if each["form"]}
        for one in (again, found)
    ]
    assert forms[0] == forms[1] | {"decided_at": "date"}
    assert set(again["ignored"]) == {"customer_id", "name", "decided_at"}
