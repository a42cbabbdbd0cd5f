"""Requests full of unknown names: each is compared with the known ones at a cost, so that few of them are."""

from typing import Any

import pyarrow as pa
import pytest

import app.errors
from app.errors import MAX_ERRORS
from tests.api.column_bodies import arrow
from tests.api.operations import operations

STRANGE = [f"feature_{i:04}" for i in range(1000)]
MANY = dict.fromkeys(STRANGE, 1)
TWICE = arrow(pa.table([pa.array([1.0])] * 2000, names=STRANGE * 2))
COLUMNS = {"content": TWICE, "headers": {"Content-Type": "application/vnd.apache.arrow.stream"}}
ASKED: list[tuple[str, str, dict[str, Any]]] = [
    *((one.method, one.url, {"params": MANY, "json": one.body if one.takes_json else None}) for one in operations()),
    ("POST", "/predict", {"json": {"model": "ward", "instances": [MANY], "rule": "most_probable"}}),
    ("POST", "/predict", {"json": {"model": "ward", "instances": [], "rule": "most_probable", "priors": MANY}}),
    ("POST", "/acquire", {"json": {"model": "woods", "known": MANY}}),
    ("POST", "/acquire", {"json": {"model": "woods", "known": {}, "unavailable": STRANGE}}),
    ("POST", "/acquire", {"json": {"model": "woods", "known": {}, "feature_costs": MANY}}),
    ("POST", "/predict?model=ward", COLUMNS),
    ("POST", "/datasets", {"files": {"file": ("t.csv", "a,b\n1,2\n")}, "data": dict.fromkeys(STRANGE, "1")}),
]


@pytest.mark.usefixtures("ward", "forest")
def test_few_of_many_unknown_names_are_compared(service, monkeypatch):
    compared, suggest = [], app.errors.get_close_matches

    def counting(name, *more, **options):
        compared.append(name)
        return suggest(name, *more, **options)

    monkeypatch.setattr(app.errors, "get_close_matches", counting)
    for method, path, sent in ASKED:
        compared.clear()
        answer = service.request(method, path, **sent)

        assert answer.status_code == 422, (path, answer.text)
        assert 1 <= len(answer.json()["errors"]) <= MAX_ERRORS
        assert len(answer.content) < 20_000, path
        assert 1 <= len(compared) <= MAX_ERRORS, path
