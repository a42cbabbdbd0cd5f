"""A matrix in words or costs is the one in numbers, and what is wrong with it is named."""

from __future__ import annotations

import random

import numpy as np
import pytest

from app.errors import Invalid
from app.usecases.matrices import Stakes, read_matrix
from tests.usecases.sent import matrix_of

CLASSES = ("healthy", "ill", 3)
WORDS = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}, "3": {"wait": 1, "treat": 2}}
NUMBERS = [[0, -1], [-10, 5], [1, 2]]


def read(**sent) -> Stakes:
    options = {name: sent.pop(name) for name in ("n_instances", "square", "named") if name in sent}
    stakes = read_matrix(matrix_of(**sent), CLASSES, **options)
    assert stakes is not None
    return stakes


def shuffled(words, rng):
    rows = [(name, dict(rng.sample(list(row.items()), len(row)))) for name, row in words.items()]
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
        assert stakes.actions == (["wait", "treat"] if field == "benefits" else ["treat", "wait"])
        named = read(**{field: words, "actions": ["wait", "treat"]})
        assert np.array_equal(named.benefits, sign * np.array(NUMBERS))
        each = read(**{field: [words, shuffled(WORDS, rng)], "n_instances": 2, "actions": ["wait", "treat"]})
        assert np.array_equal(each.benefits, sign * np.array([NUMBERS, NUMBERS]))


def test_negated_zeros_have_no_sign():
    assert not np.signbit(read(cost_matrix=[[0, 0], [1, 0], [0, 0]]).benefits[0]).any()


LAST = "/benefits/1/ill/treat"


def without(name):
    return {key: row for key, row in WORDS.items() if key != name}


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
        ({"benefits": NUMBERS, "named": True}, "/benefits", "name them in 'actions'"),
        ({"benefits": NUMBERS, "square": True}, "/benefits/0", "2 benefits where 3"),
        ({"benefits": NUMBERS, "cost_matrix": NUMBERS}, "/cost_matrix", "not both"),
        ({"benefits": NUMBERS, "actions": ["a", "a"]}, "/actions", "same name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_in_its_place(sent, loc, message):
    with pytest.raises(Invalid) as caught:
        read(**sent)
    assert (loc, True) in [(flaw.loc, message in flaw.msg) for flaw in caught.value.flaws], caught.value.flaws


@pytest.mark.parametrize("rows", [NUMBERS, WORDS, [NUMBERS], [WORDS], [], {}, {"a": 1}, 5, [[[[1]]]], "text", [5]])
def test_the_width_is_known_before_anything_is_checked(rows):
    width = 2 if rows and rows not in (5, "text") and (rows in (NUMBERS, WORDS) or rows in ([NUMBERS], [WORDS])) else 1
    assert matrix_of(rows).width(1) == width == matrix_of(cost_matrix=rows).width(1)
    assert matrix_of(rows, actions=["a"] * 7).width(1) == 7
