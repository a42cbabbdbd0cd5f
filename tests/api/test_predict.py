"""`POST /predict` over real HTTP: rules, forms of bodies, and every way to get it wrong."""

import io
import json

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import read_csv
from pyarrow.parquet import read_table

from app.api.codecs.media_types import ARROW, CSV, NPY, PARQUET
from tests.api.column_bodies import WRITERS, npy
from tests.messages import says

ROWS = [[70, 88, "strong"], [30, 60, "mild"], [50, None, "mild"]]
BENEFITS = [[0, -1], [-10, 5]]
COSTS = {"majority": "healthy", "C_DD": 1, "C_HD": 2, "C_DH": 10}


def ask(service: httpx.Client, **question: object) -> httpx.Response:
    return service.post(
        "/predict", json={"model": "ward", "instances": ROWS, **question}
    )


def test_one_matrix_per_instance(service, ward):
    """Each instance may have its own matrix, and is then decided by its own."""
    matrices = [BENEFITS, [[1, 0], [1, 0]], [[0, 1], [0, 1]]]

    together = ask(service, benefits=matrices).json()

    alone = [
        ask(service, instances=[row], benefits=B).json()
        for row, B in zip(ROWS, matrices, strict=True)
    ]
    assert together["decisions"] == [answer["decisions"][0] for answer in alone]
    assert together["decisions"][1:] == ["healthy", "ill"]


RULES = [  # fields of a request, and the figures of its answer; each decides as this matrix does
    (
        {"benefits": BENEFITS},
        {"classes": ["healthy", "ill"], "model": {"name": "ward", "version": 1}},
        BENEFITS,
    ),
    (
        {"benefits": BENEFITS, "rule": "threshold", "threshold": "posterior"},
        {"threshold": 1 / 16},
        BENEFITS,
    ),
    (
        {"benefits": BENEFITS, "rule": "threshold", "threshold": 0.3},
        {"threshold": 0.3},
        [[0, -3], [0, 7]],
    ),
    (
        {"rule": "beta_delta", "costs": COSTS},
        {"beta": 11, "delta": 9},
        [[0, -2], [-10, 0]],
    ),
    (
        {"rule": "hierarchical", "costs": COSTS},
        {"threshold": 2 / 12},
        [[0, -2], [-10, 0]],
    ),
    (
        {"rule": "most_probable", "priors": {"healthy": 0, "ill": 1}},
        {"probabilities": [[0, 1]] * 3},
        np.eye(2),
    ),
]


@pytest.mark.parametrize(("asked", "figures", "benefits"), RULES)
def test_each_rule_decides_by_the_probabilities_of_the_answer(
    service, ward, asked, figures, benefits
):
    answer = ask(service, **asked).json()

    expected = np.array(answer["probabilities"]) @ np.array(benefits)
    assert answer["decisions"] == [
        ["healthy", "ill"][a] for a in expected.argmax(axis=1)
    ]
    if benefits is asked.get("benefits"):
        assert np.allclose(answer["expected_benefits"], expected, atol=1e-12)
    for name, value in figures.items():
        assert answer[name] == (
            pytest.approx(value) if isinstance(value, float) else value
        )


AMONG_CLASSES = (
    {"rule": "most_probable"},
    {"rule": "beta_delta", "costs": COSTS},
    {"rule": "hierarchical", "costs": COSTS},
)


WORDS = {name: {"wait": 0, "treat": j} for j, name in enumerate(("healthy", "ill"))}
STATED = {
    "benefits": {"benefits": WORDS},
    "costs": {"cost_matrix": WORDS},
    "one for each": {"benefits": [WORDS] * len(ROWS)},
    "saved": {"benefits": "words"},
    "a class and another": {
        "benefits": {name: {"ill": 0, "treat": 1} for name in WORDS}
    },
}


@pytest.mark.parametrize("rule", AMONG_CLASSES, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize("form", STATED)
def test_rules_that_decide_among_classes_refuse_other_actions(
    service, ward, rule, form
):
    """A class must not be answered by the name of an action that has its place in the matrix."""
    if form == "saved":
        assert service.put(
            "/models/ward/matrices/words", json={"benefits": WORDS}
        ).is_success
    answer = ask(service, **STATED[form], **rule)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == [
        says("/" + next(iter(STATED[form])), "among the classes", "treat")
    ]


@pytest.mark.parametrize("rule", AMONG_CLASSES, ids=lambda rule: rule["rule"])
def test_rules_that_decide_among_classes_take_a_matrix_of_classes_in_any_order(
    service, ward, rule
):
    turned = {"ill": {"ill": 5, "healthy": -10}, "healthy": {"ill": -1, "healthy": 0}}

    assert (
        ask(service, benefits=turned, **rule).json()
        == ask(service, benefits=[[0, -1], [-10, 5]], **rule).json()
    )


FORMATS = WRITERS | {NPY: npy}


def read(answer: httpx.Response) -> tuple[list, dict]:
    """The rows of an answer in any form, decisions as words, and the fields that are of all rows."""
    kind, shared = (
        answer.headers["content-type"].partition(";")[0],
        answer.headers.get("payoff-answer"),
    )
    if kind == "application/json":
        found = answer.json()
        columns = zip(
            found["decisions"],
            found["probabilities"],
            found["expected_benefits"],
            strict=True,
        )
        return [[decision, *p, *benefits] for decision, p, benefits in columns], found
    if kind == NPY:
        rest = json.loads(shared)
        array = np.load(io.BytesIO(answer.content)).tolist()
        return [[rest["actions"][int(choice)], *more] for choice, *more in array], rest
    readers = {
        ARROW: lambda file: pa.ipc.open_stream(file).read_all(),
        PARQUET: read_table,
        CSV: read_csv,
    }
    table = readers[kind](io.BytesIO(answer.content))
    assert table.column_names == [
        "decision",
        "p:healthy",
        "p:ill",
        "benefit:wait",
        "benefit:treat",
    ]
    return [list(row.values()) for row in table.to_pylist()], json.loads(
        shared or table.schema.metadata[b"payoff"]
    )


@pytest.mark.parametrize("sent", FORMATS)
@pytest.mark.parametrize("accept", ["application/json", *FORMATS])
def test_every_form_of_body_and_answer_says_the_same(service, numeric, sent, accept):
    """Columns in any order; an array has that of the model. Limits hold for the batch in all of them."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(55, 10, 500), rng.normal(75, 10, 500)])
    X[3, 1] = np.nan
    rows = [[None if np.isnan(cell) else cell for cell in row] for row in X.tolist()]
    fields = {
        "benefits": BENEFITS,
        "actions": ["wait", "treat"],
        "limits": {"treat": {"at_most": 20}},
    }
    plain, shared = read(
        service.post("/predict", json={"model": numeric, "instances": rows, **fields})
    )
    columns = pa.table({"pulse": [row[1] for row in rows], "age": X[:, 0]})

    answer = service.post(
        "/predict",
        params={
            "model": numeric,
            **{name: json.dumps(value) for name, value in fields.items()},
        },
        content=FORMATS[sent](X if sent == NPY else columns),
        headers={"Content-Type": sent, "Accept": accept},
    )

    assert answer.status_code == 200, answer.text
    found, rest = read(answer)
    assert found == plain
    for name in (
        "model",
        "classes",
        "actions",
        "limits",
        "total",
        "unlimited_total",
        "gap",
        "warnings",
    ):
        assert rest[name] == shared[name], name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        np.lib.format.MAGIC_PREFIX + b"\x01\x00\xff\xff{}",
        npy(np.zeros(2)),
        npy(np.zeros((2, 3))),
        npy(np.zeros((2, 2), dtype=complex)),
        npy(np.array([["a", "b"]])),
        npy(np.array([[1, None]], dtype=object)),
        npy(np.array([[np.inf, 0.0]])),
    ],
    ids=["empty", "header", "flat", "wide", "complex", "words", "objects", "infinite"],
)
def test_arrays_of_wrong_shape_or_kind(service, numeric, content):
    """An array of objects would be a pickle: it is refused, not opened."""
    query = {"model": numeric, "rule": "most_probable"}
    for kind in (NPY, ARROW):
        sent = {"params": query, "content": content, "headers": {"Content-Type": kind}}
        assert service.post("/predict", **sent).status_code == 422


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/x-npy;q=0.5, application/json", "application/json"),
        ("text/html, application/x-npy;q=0.5", NPY),
        ("application/x-npy;q=x", "application/json"),
        ("application/x-npy;q=0", "application/json"),
        ("APPLICATION/X-NPY; q=0.9, application/json; q=0.2", NPY),
    ],
)
def test_the_most_wanted_form_is_sent(service, ward, accept, kind):
    question = {"model": ward, "instances": ROWS, "rule": "most_probable"}
    assert (
        service.post("/predict", json=question, headers={"Accept": accept}).headers[
            "content-type"
        ]
        == kind
    )
