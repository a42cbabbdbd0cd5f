"""Prices as requests write them, and what acquiring costs."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.requests.costs import parse_prices
from payoff.acquisition.prices import rounded
from payoff.errors import Invalid

NAMES = ["age", "chol", "fbs", "a/b"]
BLOOD = [
    {"feature": "age", "cost": 1},
    {"feature": "chol", "cost": 7.27, "group": "blood", "discounted_cost": 5.17},
    {"feature": "fbs", "cost": 5.2, "group": "blood", "discounted_cost": 3.1},
    {"feature": "a/b", "cost": 0, "group": None, "discounted_cost": 0},
]


def places(costs, base=None):
    with pytest.raises(Invalid) as error:
        parse_prices(costs, NAMES, base)
    return [flaw.loc for flaw in error.value.flaws]


def test_the_first_of_a_group_costs_more():
    """The order decides who is first; other features are not touched."""
    prices = parse_prices(BLOOD, NAMES)
    assert prices.paid([1, 0, 2, 3]) == [7.27, 1, 3.1, 0]
    assert prices.paid([2, 1]) == [5.2, 5.17]
    assert prices.groups == ("blood",)
    assert len(prices) == 4


def test_an_object_gives_plain_prices():
    """Every feature is priced, in any order."""
    prices = parse_prices({"a/b": 4, "fbs": 3, "chol": 2, "age": 1}, NAMES)
    np.testing.assert_array_equal(prices.cost, [1, 2, 3, 4])
    np.testing.assert_array_equal(prices.discounted, [1, 2, 3, 4])
    assert (prices.group == -1).all()


def test_nothing_said_means_the_models_prices_or_one_each():
    """The base where there is one, else unit prices."""
    base = parse_prices(BLOOD, NAMES)
    assert parse_prices(None, NAMES, base) is base
    np.testing.assert_array_equal(parse_prices(None, NAMES).cost, np.ones(4))


def test_a_request_changes_some_prices_and_leaves_the_base_alone():
    """A bare price keeps the group, and brings the discounted price down to it; an entry replaces
    all.
    """
    base = parse_prices(BLOOD, NAMES)
    changed = parse_prices({"chol": 0, "age": 9}, NAMES, base)
    assert changed.paid([1, 2, 0]) == [0, 3.1, 9]
    assert parse_prices([{"feature": "chol", "cost": 2}], NAMES, base).paid([1, 2]) == [
        2,
        5.2,
    ]
    assert base.paid([0, 1, 2]) == [1, 7.27, 3.1]


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ("7", [""]),
        (3, [""]),
        ({"age": 1}, ["", "", ""]),
        ({"age": 1, "chol": 1, "fbs": 1, "a/b": -1, "x~/y": 2}, ["/a~1b", "/x~0~1y"]),
        (
            {"age": math.nan, "chol": math.inf, "fbs": True, "a/b": "1"},
            ["/age", "/chol", "/fbs", "/a~1b"],
        ),
        ({"age": 10**400, "chol": None, "fbs": 1, "a/b": 1}, ["/age", "/chol"]),
        ({"age": 5e-324, "chol": 1e-151, "fbs": 1e-150, "a/b": 0}, ["/age", "/chol"]),
        ([{"feature": "age", "cost": 1, "a/b~": 2}, *BLOOD[1:]], ["/0/a~1b~0"]),
        ([3], ["/0"]),
        ([{"feature": "age"}], ["/0"]),
        ([{"cost": 1}], ["/0"]),
        ([{"feature": "who", "cost": 1}], ["/0/feature"]),
        ([{"feature": ["age"], "cost": 1}], ["/0/feature"]),
        ([*BLOOD, {"feature": "age", "cost": -1}], ["/4/feature", "/4/cost"]),
        ([{**BLOOD[0], "price": 2}, *BLOOD[1:]], ["/0/price"]),
        ([{"feature": "age", "cost": 1, "group": "g"}, *BLOOD[1:]], ["/0"]),
        (
            [
                {"feature": "age", "cost": 1, "group": 2, "discounted_cost": 1},
                *BLOOD[1:],
            ],
            ["/0/group"],
        ),
        (
            [
                {"feature": "age", "cost": 1, "group": "", "discounted_cost": 1},
                *BLOOD[1:],
            ],
            ["/0/group"],
        ),
        (
            [{"feature": "age", "cost": 1, "discounted_cost": 0.5}, *BLOOD[1:]],
            ["/0/discounted_cost"],
        ),
        (
            [
                {"feature": "age", "cost": 1, "group": "g", "discounted_cost": 2},
                *BLOOD[1:],
            ],
            ["/0/discounted_cost"],
        ),
        (
            [
                {"feature": "age", "cost": 1, "group": "g", "discounted_cost": -2},
                *BLOOD[1:],
            ],
            ["/0/discounted_cost"],
        ),
        (
            [BLOOD[1], {**BLOOD[1], "group": "other"}, BLOOD[0], *BLOOD[2:]],
            ["/1/feature"],
        ),
    ],
)
def test_flaws_are_named_with_their_places(costs, expected):
    """Unknown features and keys, wrong numbers, features priced twice, groups half described,
    features left out.
    """
    assert places(costs) == expected


@given(
    cents=st.lists(st.integers(0, 10_000_000), min_size=1, max_size=30),
    decimals=st.integers(0, 6),
    left=st.integers(0, 10) | st.integers(0, 10**9),
)
def test_sums_of_prices_have_the_decimals_of_the_prices(cents, decimals, left):
    """10.37, not 10.370000000000001: the float nearest to the exact decimal sum, also of what is
    left of a budget.
    """
    unit = Decimal(10) ** -decimals
    written = [float(c * unit) for c in cents]
    exact, budget = sum(cents) * unit, float((sum(cents) + left) * unit)

    assert rounded(np.array([sum(written)])) == [float(exact)]
    assert rounded(np.array([budget - sum(written)]), budget) == [float(left * unit)]


def test_small_and_other_sums_keep_all_their_digits():
    """A tiny price keeps no errors of other sums."""
    assert rounded(np.array([0.1 + 0.2, 3e-30])) == [0.3, 3e-30]
    assert rounded(np.array([3.123456789, 3.75, 1e-300, 0.0])) == [
        3.123456789,
        3.75,
        1e-300,
        0.0,
    ]
    assert rounded(np.array([7.27 + 1 + 2.1])) == [10.37]
