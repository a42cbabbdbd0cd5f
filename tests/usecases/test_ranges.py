"""Warnings about values far from those that a model learned from."""

import numpy as np
import pytest

from app.data.dataset import Table
from app.features import Feature, Schema
from app.registry.card import FeatureCard
from app.registry.loaded import Loaded
from app.text import positions
from app.usecases.evaluation import feature_cards
from app.usecases.predict import strange_values
from tests.registry.making import make_card


def model_of(*features: FeatureCard) -> Loaded:
    card = make_card(features=[feature.model_dump() for feature in features])
    return Loaded(card, card.schema_of_features(), None, None)


AGE = FeatureCard(name="age", type="numeric", low=29, high=77)  # 48 wide: far is below -19 and above 125
SEX = FeatureCard(name="sex", type="categorical", categories=["f", "m"])
FLAT = FeatureCard(name="flat", type="numeric", low=1, high=1)


@pytest.mark.parametrize(
    ("feature", "values", "far"),
    [(AGE, [-19, 125], []), (AGE, [-19.1], [0]), (AGE, [125.1, 30, 1e9], [0, 2]), (AGE, [np.nan], []),
     (AGE, [np.inf], [0]), (FLAT, [1.0, 1.5, 2.0], [1, 2])],
)  # fmt: skip
def test_far_is_farther_from_the_range_than_it_is_wide(feature, values, far):
    """Of what was constant in training, whatever differs."""
    warnings = strange_values(model_of(feature, SEX), np.array([[value, 7.0] for value in values]))

    assert len(warnings) == bool(far)
    told = f"{len(far)} of {len(values)} instances {positions(far, len(far))} have {feature.name!r}"
    assert not far or warnings[0].startswith(told)


def test_the_card_has_the_range_of_the_rows_that_were_fitted():
    schema = Schema([Feature("age", "numeric"), Feature("sex", "categorical", ("f", "m")), Feature("empty", "numeric")])
    X = np.array([[1.0, 0, np.nan], [5.0, 1, np.nan], [np.nan, 1, np.nan], [900.0, 1, np.nan]])
    table = Table(schema, X, np.zeros(4, dtype=np.int64), ("a", "b"), ("y",), "00")

    age, sex, empty = feature_cards(table, np.array([0, 1, 2]))

    assert (age.low, age.high) == (1, 5)
    assert (sex.low, sex.categories, empty.high) == (None, ["f", "m"], None)
