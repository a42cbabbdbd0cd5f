"""The direction of a reason is where another value would speak less against the action."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.answering.reasons import reasons
from app.registry.card import FeatureCard
from app.requests.reasons import ReasonsFields
from app.requests.rows import Rows
from app.tables.features import Feature, Schema
from payoff.decisions.explanations import Contributions

SCHEMA = Schema(
    [
        Feature("income", "numeric"),
        Feature("owner", "numeric"),
        Feature("job", "categorical", ("none", "some")),
        Feature("never", "numeric"),
    ]
)
CARDS = [
    FeatureCard(name="income", type="numeric", low=0, high=100),
    FeatureCard(name="owner", type="numeric", low=0, high=1),
    FeatureCard(name="job", type="categorical", categories=["none", "some"]),
    FeatureCard(name="never", type="numeric"),
]


def model_of(bad, ranks=True):
    """A model whose class `bad` has this probability, a function of income and owner."""

    def posterior(X):
        p = bad(np.nan_to_num(X[:, 0]), np.nan_to_num(X[:, 1]))
        return np.column_stack([1 - p, p])

    return SimpleNamespace(
        schema=SCHEMA,
        card=SimpleNamespace(features=CARDS),
        estimator=SimpleNamespace(posterior=posterior, ranks=lambda: ranks),
    )


def directions(model, row, towards=1):
    """Those of a row of which every feature counts against the action."""
    X = np.array([row])
    values = np.array([[4.0, 3.0, 2.0, 1.0]]) * (1 if towards else -1)
    parts = Contributions(values, np.zeros(1), np.ones(1, int), "log_odds")
    terms = ReasonsFields(reasons=4, against="approve")
    [found] = reasons(terms, model, Rows(X, []), parts, np.array([towards]))
    return {reason["feature"]: reason["direction"] for reason in found}


@pytest.mark.parametrize(("income", "owner"), [(10.0, 0.0), (55.0, 0.0), (50.0, 0.0)])
def test_a_value_is_low_where_a_higher_one_speaks_less_against(income, owner):
    """Wherever it lies among the others: also above the middle, or the least of two."""
    model = model_of(lambda income, owner: 0.9 - income / 200 - owner / 10)
    found = directions(model, [income, owner, 0.0, 7.0])
    assert found == {"income": "low", "owner": "low", "job": "any", "never": "any"}
    against_good = directions(model, [income, 1.0, 0.0, 7.0], towards=0)
    assert (against_good["income"], against_good["owner"]) == ("high", "high")


@pytest.mark.parametrize(("income", "direction"), [(5.0, "low"), (95.0, "high")])
def test_where_the_middle_is_best_both_ends_are_too_far(income, direction):
    model = model_of(lambda income, _: np.abs(income - 50) / 60)
    assert directions(model, [income, 0.0, 0.0, 1.0])["income"] == direction


def test_where_no_value_speaks_less_against_neither_end_is_blamed():
    """As on the lowest stretch of an isotonic curve, where one feature alone changes nothing."""
    model = model_of(lambda income, owner: 0.9 - owner / 10 + 0 * income)
    found = directions(model, [10.0, 0.0, 0.0, 1.0])
    assert (found["income"], found["owner"]) == ("any", "low")
    assert directions(model, [10.0, 1.0, 0.0, 1.0])["owner"] == "any"


def test_a_value_that_is_missing_says_so():
    model = model_of(lambda income, _: 0.5 + 0 * income)
    found = directions(model, [np.nan, 0.0, np.nan, 1.0])
    assert (found["income"], found["job"]) == ("missing", "missing")


def test_a_model_that_does_not_rank_has_no_reasons():
    model = model_of(lambda income, _: 0.5 + 0 * income, ranks=False)
    assert directions(model, [1.0, 1.0, 0.0, 1.0]) == {}
