"""A matrix in words or costs is the one in numbers, what is wrong with it is named, and a saved one means itself."""

import random
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from app.access.caller import ANYBODY
from app.registry.saved_documents import Saved
from app.requests.matrices import MatrixFields, named_matrix, read_matrix
from app.requests.saved_matrices import save, with_saved
from app.tables.features import Feature, Schema
from payoff.errors import Invalid
from tests.messages import says
from tests.reference.decisions import written_out

CLASSES = ("healthy", "ill", 3)
WORDS = {
    "healthy": {"wait": 0, "treat": -1},
    "ill": {"wait": -10, "treat": 5},
    "3": {"wait": 1, "treat": 2},
}
NUMBERS = [[0, -1], [-10, 5], [1, 2]]


def matrix_of(benefits=None, cost_matrix=None, actions=None):
    """The fields of a benefit matrix."""
    return MatrixFields(benefits=benefits, cost_matrix=cost_matrix, actions=actions)


def read(reading=read_matrix, **sent):
    options = {
        name: sent.pop(name)
        for name in ("n_instances", "square", "cases")
        if name in sent
    }
    stakes = reading(matrix_of(**sent), CLASSES, **options)
    assert stakes is not None
    return stakes


def shuffled(words, rng):
    rows = [
        (name, dict(rng.sample(list(row.items()), len(row))))
        for name, row in words.items()
    ]
    return dict(rng.sample(rows, len(rows)))


@pytest.mark.parametrize("field", ["benefits", "cost_matrix"])
def test_words_in_any_order_are_the_matrix_in_numbers(field):
    sign = 1.0 if field == "benefits" else -1.0
    rng = random.Random(0)
    for _ in range(50):
        words = shuffled(WORDS, rng)
        stakes = read(**{field: words})
        assert set(stakes.actions) == {"wait", "treat"}
        columns = [stakes.actions.index(name) for name in ("wait", "treat")]
        assert np.array_equal(stakes.benefits[:, columns], sign * np.array(NUMBERS))
        assert stakes.actions == (
            ["wait", "treat"] if field == "benefits" else ["treat", "wait"]
        )
        named = read(**{field: words, "actions": ["wait", "treat"]})
        assert np.array_equal(named.benefits, sign * np.array(NUMBERS))
        each = read(
            **{
                field: [words, shuffled(WORDS, rng)],
                "n_instances": 2,
                "actions": ["wait", "treat"],
            }
        )
        assert np.array_equal(each.benefits, sign * np.array([NUMBERS, NUMBERS]))


def test_negated_zeros_have_no_sign():
    assert not np.signbit(read(cost_matrix=[[0, 0], [1, 0], [0, 0]]).benefits[0]).any()


def case_matrix(rng, K, A, *, words):
    """A matrix some of whose cells depend on one of two columns."""
    cells = [
        {"column": name}
        | {
            key: rng.normal() * 10 ** rng.uniform(-3, 6)
            for key in ("times", "plus")
            if rng.random() < 0.7
        }
        for name in rng.choice(["amount", "size"], size=K * A).tolist()
    ]
    numbers = rng.normal(size=K * A).tolist()
    flat = [
        cell if rng.random() < 0.4 else number
        for cell, number in zip(cells, numbers, strict=True)
    ]
    rows = [flat[k * A : (k + 1) * A] for k in range(K)]
    return (
        {
            str(k): {f"a{a}": cell for a, cell in enumerate(row)}
            for k, row in enumerate(rows)
        }
        if words
        else rows
    )


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("field", ["benefits", "cost_matrix"])
def test_cells_are_the_matrices_of_the_cases_written_out(words, field):
    """20,000 random cases in all, equal to the last bit."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        K, A = rng.integers(2, 6, size=2).tolist()
        values = rng.normal(size=(50, 2)) * 10.0 ** rng.integers(-2, 6)
        matrix = case_matrix(rng, K, A, words=words)
        cases = [
            dict(zip(("amount", "size"), row, strict=True)) for row in values.tolist()
        ]
        out = matrix_of(**{field: written_out(matrix, cases)})
        sent = read_matrix(matrix_of(**{field: matrix}), range(K))
        if sent.cases is None:
            continue
        expected = read_matrix(out, range(K), n_instances=50)
        found = sent.cases.at(
            sent.cases.values(
                Schema([Feature("size", "numeric")]),
                values[:, 1:],
                {"amount": values[:, 0]},
            )
        )
        order = (
            [expected.actions.index(name) for name in sent.actions]
            if words
            else range(A)
        )
        assert np.array_equal(found, expected.benefits[..., order])
        again = read_matrix(matrix_of(sent.cases.cells()), range(K)).cases
        assert again.base.tolist() == sent.cases.base.tolist()
        assert {term[:4] for term in again.terms} == {
            term[:4] for term in sent.cases.terms
        }


CELL = {"column": "amount"}
LAST = "/benefits/1/ill/treat"


def without(name):
    return {key: row for key, row in WORDS.items() if key != name}


def in_cell(**member):
    return WORDS | {"ill": {"wait": 0, "treat": CELL | member}}


@pytest.mark.parametrize(
    ("sent", "loc", "message"),
    [
        ({"benefits": without("ill")}, "/benefits", "class 'ill' is missing"),
        ({"benefits": WORDS | {"il": {"wait": 0, "treat": 0}}}, "/benefits/il", "did you mean 'ill'"),
        ({"benefits": WORDS | {"ill": {"wait": 0}}}, "/benefits/ill", "action 'treat' is missing"),
        ({"cost_matrix": WORDS | {"ill": {"wait": 0, "treet": 0}}}, "/cost_matrix/ill/treet", "did you mean 'treat'"),
        ({"benefits": WORDS | {"ill": {"wait": 0, "treat": "5"}}}, "/benefits/ill/treat", "a benefit is a number"),
        ({"benefits": WORDS | {"ill": {"wait": 0, "treat": True}}}, "/benefits/ill/treat", "a benefit is a number"),
        ({"benefits": WORDS | {"ill": [0, 5]}}, "/benefits/ill", "a row is an object"),
        ({"benefits": WORDS, "actions": ["wait", "go"]}, "/benefits/healthy/treat", "unknown action 'treat'"),
        ({"benefits": WORDS, "square": True}, "/benefits/healthy/wait", "unknown action 'wait'"),
        ({"benefits": {name: {"x" * 201: 1, "y": 0} for name in WORDS}}, "/benefits", "201 characters"),
        ({"benefits": {}}, "/benefits", "names no action"),
        ({"benefits": {"healthy": {}, "ill": {}, "3": {}}}, "/benefits", "names no action"),
        ({"benefits": [WORDS, NUMBERS], "n_instances": 2}, "/benefits/1", "one form"),
        ({"benefits": [WORDS], "n_instances": 2}, "/benefits", "1 benefit matrices"),
        ({"benefits": [WORDS, WORDS]}, "/benefits", "one benefit matrix"),
        ({"benefits": [WORDS, WORDS | {"ill": {"wait": 0, "treat": None}}], "n_instances": 2}, LAST, "a number"),
        ({"benefits": NUMBERS, "reading": named_matrix}, "/benefits", "name them in 'actions'"),
        ({"benefits": NUMBERS, "square": True}, "/benefits/0", "2 benefits where 3"),
        ({"benefits": NUMBERS, "cost_matrix": NUMBERS}, "/cost_matrix", "not both"),
        ({"benefits": NUMBERS, "actions": ["a", "a"]}, "/actions", "same name"),
        ({"benefits": [[0, CELL], [1, 2], [1, 2]], "cases": False}, "/benefits/0/1", "here a benefit is a number"),
        ({"benefits": [[0, CELL], [1, 2]]}, "/benefits", "2 rows where 3 are needed"),
        ({"benefits": [[0, CELL], [1, 2], [1]]}, "/benefits/2", "1 benefits where 2"),
        ({"benefits": [[[0, CELL], [1, 2], [1, 2]]], "n_instances": 1}, "/benefits/0/0/1", "an object"),
        ({"benefits": [[0, {"times": 1}], [1, 2], [1, 2]]}, "/benefits/0/1/column", "required"),
        ({"benefits": in_cell(plus="2")}, "/benefits/ill/treat/plus", "a number, not '2'"),
        ({"cost_matrix": in_cell(times=1e300)}, "/cost_matrix/ill/treat/times", "at most 1e+150"),
        ({"benefits": in_cell(times=True)}, "/benefits/ill/treat/times", "not true"),
        ({"benefits": in_cell(add=2)}, "/benefits/ill/treat/add", "unknown field"),
        ({"benefits": WORDS | {"il": {"wait": 0, "treat": CELL}}}, "/benefits/il", "did you mean 'ill'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_in_its_place(sent, loc, message):
    with pytest.raises(Invalid) as caught:
        read(**sent)
    assert (loc, True) in [
        (flaw.loc, message in flaw.msg) for flaw in caught.value.flaws
    ], caught.value.flaws


@pytest.mark.parametrize(
    "rows",
    [
        NUMBERS,
        WORDS,
        [NUMBERS],
        [WORDS],
        [],
        {},
        {"a": 1},
        5,
        [[[[1]]]],
        "text",
        [5],
        [[{"column": "a", "times": 2}]],
    ],
)
def test_the_width_is_known_before_anything_is_checked(rows):
    width = (
        2
        if rows
        and rows not in (5, "text")
        and (rows in (NUMBERS, WORDS) or rows in ([NUMBERS], [WORDS]))
        else 1
    )
    widths = (matrix_of(rows).width, matrix_of(cost_matrix=rows).width)
    assert [max(1, columns) for columns in widths] == [width, width]
    assert matrix_of(rows, actions=["a"] * 7).width == 7


ORDERS = ([*CLASSES], ["ill", 3, "healthy"], [3, "healthy", "ill"])


class Matrices:
    """The store, which keeps whatever it is given."""

    @staticmethod
    def save(model, kind, matrix, content, *, key_name, also):  # noqa: ARG004
        return Saved(model, kind, matrix, 1, content, 0.0, key_name)


def kept(sent, classes=CLASSES):
    """What is saved of a request, for a model with these classes."""
    registry = MagicMock()
    registry.index.card.return_value.classes = list(classes)
    return save(
        MagicMock(registry=registry, documents=Matrices),
        "triage",
        "autumn",
        sent,
        by=ANYBODY,
    )


def saved(sent, classes=CLASSES):
    matrix = kept(sent, classes)
    return SimpleNamespace(
        documents=SimpleNamespace(
            of=lambda model, _kind: {"autumn": matrix} if model == "triage" else {}
        )
    )


@pytest.mark.parametrize("classes", ORDERS)
@pytest.mark.parametrize("actions", [None, ["wait", "treat"], ["treat", "wait"]])
@pytest.mark.parametrize("field", ["benefits", "cost_matrix"])
@pytest.mark.parametrize("reading", [read_matrix, named_matrix])
def test_a_matrix_means_the_same_for_classes_in_any_order(
    classes, actions, field, reading
):
    sent = matrix_of(**{field: WORDS}, actions=actions)
    stated = with_saved(saved(sent), matrix_of("autumn"), "triage", classes)
    assert stated.saved == "autumn:1"
    assert stated.width == 2
    itself, by_name = (reading(each, classes) for each in (sent, stated))
    assert by_name.actions == itself.actions
    assert by_name.benefits.tolist() == itself.benefits.tolist()


def test_another_version_may_have_other_classes():
    """A challenger decides by the matrix of the request, which was named for the version that was asked."""
    stated = with_saved(saved(matrix_of(WORDS)), matrix_of("autumn"), "triage", CLASSES)
    with pytest.raises(Invalid, match="'3'"):
        read_matrix(stated, ["healthy", "ill"])


MANY = {f"a{i}": 0 for i in range(1_001)}


@pytest.mark.parametrize(
    ("sent", "place", "words"),
    [
        (matrix_of([[0] * 1_001] * 3, None, [*MANY]), "/actions", ("1,001", "1,000")),
        (
            matrix_of(None, {str(name): MANY for name in CLASSES}),
            "/cost_matrix",
            ("1,001", "1,000"),
        ),
        (
            matrix_of([[0] * 500] * 3, None, [f"a{i:0198}" for i in range(500)]),
            "/benefits",
            ("256,000", "names"),
        ),
    ],
)
def test_a_matrix_larger_than_a_decision_needs_is_refused(sent, place, words):
    with pytest.raises(Invalid) as refused:
        kept(sent)
    [flaw] = refused.value.flaws
    assert flaw.loc == place
    assert says(flaw.msg, *words)


@pytest.mark.parametrize(
    "classes", [["healthy", "ill"], ["healthy", "ill", 3, 4], ["healthy", "ill", 4]]
)
def test_other_classes_are_refused_with_the_fix(classes):
    with pytest.raises(Invalid) as refused:
        with_saved(saved(matrix_of(WORDS)), matrix_of("autumn"), "triage", classes)
    [flaw] = refused.value.flaws
    assert flaw.loc == "/benefits"
    assert says(
        flaw.msg,
        "autumn:1",
        "'4'" if 4 in classes else "'3'",
        "PUT /models/triage/matrices/autumn",
    )


@pytest.mark.parametrize("several", [False, True])
def test_classes_are_looked_up_in_their_normal_form(several):
    words = {"Mu\u0308ller": {"a": 1, "b": 0}, " k": {"a": 0, "b": 1}}
    sent = matrix_of([words] * 2 if several else words)
    stakes = read_matrix(sent, ["M\u00fcller", "k"], n_instances=2 if several else None)
    assert stakes.benefits.tolist() == (
        [[[1, 0], [0, 1]]] * 2 if several else [[1, 0], [0, 1]]
    )
    twice = {
        "Mu\u0308ller": {"a": 1, "b": 0},
        "M\u00fcller": {"a": 5, "b": 1},
        "k": {"a": 0, "b": 1},
    }
    with pytest.raises(Invalid, match="class"):
        read_matrix(matrix_of(twice), ["M\u00fcller", "k"])
