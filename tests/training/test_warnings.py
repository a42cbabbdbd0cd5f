"""What training and predictions warn of: few rows, rows that occur again, benefits that choose nothing, far values."""

import dataclasses
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from app.registry.card import FeatureCard
from app.registry.loaded import Holdout, Loaded
from app.requests.specifications import LearnerSpec, TrainSpec
from app.requests.strange_values import strange_values
from app.tables.dataset import ColumnReport, KeptColumn, Table
from app.tables.features import Feature, Schema
from app.training.evaluation import feature_cards
from app.training.splits import split_rows
from app.training.warnings import (
    compared,
    likely_splits,
    moving_shares,
    no_ranking,
    notes,
    rare_classes,
    repeated_rows,
    separating_features,
)
from payoff.errors import positions
from payoff.learners.catalogue import KINDS, resolve
from payoff.learners.parameters import request_of
from tests.conftest import trained
from tests.registry.making import make_card

NPY = "application/x-npy"
MANY = "'c7' (7 rows), 'c6' (8 rows), 'c5' (9 rows), 'c4' (10 rows), 'c3' (11 rows) and 2 more"
FEW = "classes with too few training rows for reliable probabilities: {}; provide at least {} of each"


def table_of(counts, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), 2)) + apart * y[:, None]
    names = tuple(f"c{k}" for k in range(len(counts)))
    return Table(
        Schema([Feature("a", "numeric", ()), Feature("b", "numeric", ())]),
        X,
        y,
        names,
        ("label",),
        "00",
    )


@pytest.mark.parametrize(
    ("counts", "part", "few", "needed"),
    [
        ([60, 40, 27], 0.25, None, 0),  # 20 training rows are enough
        ([60, 40, 7], 0.25, "'c2' (5 rows)", 27),
        ([60, *range(13, 6, -1)], 0.0, MANY, 20),
    ],
    ids=["enough", "few", "many classes"],
)
def test_classes_of_few_rows_are_named_with_the_rows_they_need(
    counts, part, few, needed
):
    table = table_of(counts)
    rows = split_rows(table.y, part, 0)
    found = rare_classes(table, rows)
    assert [one.startswith(FEW.format(few, needed)) for one in found] == [True] * bool(
        few
    )


@pytest.mark.parametrize(
    ("counts", "part", "names"),
    [
        ([400, 32], 0.25, "'c1' (24 rows: 20%)"),
        ([400, 100], 0.0, None),  # 100 rows leave a tenth
        ([90, 30], 0.0, None),  # not rarer than a quarter of an even share
        ([900, 64, 36], 0.0, "'c2' (36 rows: 17%), 'c1' (64 rows: 12%)"),
    ],
)
def test_rare_classes_are_named_with_how_wrong_promises_may_be(counts, part, names):
    table = table_of(counts)
    sentences = rare_classes(table, split_rows(table.y, part, 0))
    assert [names in sentence for sentence in sentences] == [True] * bool(names)


@pytest.mark.parametrize("counts", [[100, 60], [90, 60, 50]])
def test_features_that_say_nothing_about_the_class_are_told(counts):
    """Just where every prediction is the same: noise is found on some seeds, features that matter on none."""
    told = []
    for apart, seed in [(1.0, 0), *((0.0, seed) for seed in range(12))]:
        table = table_of(counts, seed, apart)
        model = (
            resolve({"kind": "logistic"}).build(random_state=0).fit(table.X, table.y)
        )
        told.append(bool(no_ranking(model, None)))
        assert told[-1] == (np.ptp(model.posterior(table.X), axis=0).max() < 1e-9)
    assert any(told) > told[0]


RANKING = SimpleNamespace(ranks=lambda: True)
CODES = np.arange(300) % 3
NOISE = np.random.default_rng(1).dirichlet(np.ones(3), 300)
LABELS = np.stack([CODES == 0, CODES == 1], axis=1).astype(np.uint8)


@pytest.mark.parametrize(
    ("y", "noise", "signal"),
    [
        (np.minimum(CODES, 1), NOISE[:, :2], np.eye(2)[np.minimum(CODES, 1)]),
        (CODES, NOISE, np.eye(3)[CODES]),
        (LABELS, NOISE[:, :2], LABELS),
        (CODES.astype(float), NOISE[:, :1], CODES[:, None]),
    ],
    ids=["two classes", "three classes", "labels", "numbers"],
)
def test_unseen_rows_that_are_not_ranked_better_than_by_chance_are_told(
    y, noise, signal
):
    """Whatever the learner; some signal within the noise is enough, and few rows say nothing."""
    reversed_, flat = noise - 0.2 * signal, np.ones(noise.shape)
    few = slice(0, 12)
    told = [
        bool(no_ranking(RANKING, Holdout(scores, truth)))
        for scores, truth in [
            (noise, y),
            (reversed_, y),
            (flat, y),
            (noise + 0.2 * signal, y),
            (reversed_[few], y[few]),
        ]
    ]

    assert told == [True, True, True, False, False]


def leaking(column, kind="numeric", n=400):
    """A table with noise and a column that is a function of the class (y) and of noise (z)."""
    rng = np.random.default_rng(0)
    y, z = (rng.random(n) < 0.2).astype(np.int64), rng.random(n)
    features = [
        Feature("noise", "numeric"),
        Feature("known later", kind, tuple("abcdefgh")),
    ]
    X = np.column_stack((rng.normal(size=n), column(y, z)))
    return Table(Schema(features), X, y, ("paid", "unpaid"), ("label",), "00")


@pytest.mark.parametrize(
    ("column", "kind", "named"),
    [
        (lambda y, z: np.where(y, 30 + 60 * z, 28 * z), "numeric", True),
        (lambda y, z: np.where(y | (z < 0.004), 30 + 60 * z, 0), "numeric", True),
        (
            lambda y, z: np.where(y, z, np.nan),
            "numeric",
            True,
        ),  # a date of what happened
        (lambda y, z: np.abs(y - 0.5) * z, "numeric", False),
        (lambda y, z: y + 2 * z, "numeric", False),
        (lambda y, z: np.where(y, 0, 1 + np.floor(7 * z)), "categorical", True),
        (lambda y, z: np.floor(8 * z) + 0 * y, "categorical", False),
    ],
    ids=["number", "nearly", "missing", "noise", "useful", "words", "words of noise"],
)
def test_a_feature_that_alone_tells_the_classes_is_named(column, kind, named):
    """Also where the rows are sorted by class, and not where hardly a row is of another class."""
    table = leaking(column, kind)
    order = np.argsort(table.y, kind="stable")
    by_class = dataclasses.replace(table, X=table.X[order], y=table.y[order])
    few = dataclasses.replace(table, X=table.X[:60], y=table.y[:60])

    told = [separating_features(one) for one in (table, by_class)]

    assert [["'known later'" in sentence for sentence in one] for one in told] == [
        [True] * named
    ] * 2
    assert not separating_features(few)


def test_a_job_names_what_leaks_and_what_ranks_nothing(service):
    """Of a learner that is not calibrated by folds, too."""
    table = leaking(lambda y, z: np.where(y, 30 + 60 * z, 28 * z))
    labels = [table.classes[code] for code in table.y]
    order = {
        "learner": {"kind": "random_forest", "n_estimators": 20, "calibration": "none"}
    }
    data = {
        "features": ["noise", "days_overdue"],
        "rows": table.X.tolist(),
        "labels": labels,
    }
    noise = {"features": ["noise"], "rows": table.X[:, :1].tolist(), "labels": labels}

    leak = trained(service, {"model": "leak", "data": data, **order})["warnings"]
    chance = trained(service, {"model": "chance", "data": noise, **order})["warnings"]

    assert [
        "'days_overdue' (100.00% of the rows)" in sentence for sentence in leak
    ] == [True]
    assert ["does not rank rows" in sentence for sentence in chance] == [True]


@pytest.mark.parametrize(("counts", "expected"), [([40, 40], 0), ([60, 5, 2], 1)])
def test_job_card_and_every_prediction_have_the_same_sentences(
    service, counts, expected
):
    table = table_of(counts)
    labels = [table.classes[code] for code in table.y]
    data = {"features": ["a", "b"], "rows": table.X.tolist(), "labels": labels}
    name = f"rare-{len(counts)}"
    job = trained(
        service,
        {"model": name, "learner": {"kind": "logistic"}, "data": data, "refit": False},
    )
    card = service.get(f"/models/{name}/versions/1").json()
    question = {"model": name, "rule": "most_probable"}
    answer = service.post(
        "/predict", json=question | {"instances": [[0.0, 0.0]]}
    ).json()
    array = io.BytesIO()
    np.save(array, np.zeros((1, 2)))
    headers = {"Content-Type": NPY, "Accept": NPY}
    npy = service.post(
        "/predict", params=question, content=array.getvalue(), headers=headers
    )
    assert len(job["warnings"]) == expected
    assert card["warnings"] == job["warnings"] == answer["warnings"]
    assert json.loads(npy.headers["payoff-answer"])["warnings"] == job["warnings"]


RANDOM = np.random.default_rng(0)
NUMBERS = RANDOM.normal(size=(100, 3))
GAPPY = np.where((RANDOM.random((100, 3)) < 0.2) & (np.arange(3) < 2), np.nan, NUMBERS)
FEW_VALUES = RANDOM.integers(0, 3, size=(100, 4)).astype(float)


@pytest.mark.parametrize(
    ("X", "repeats"),
    [
        (NUMBERS, 0),
        (np.repeat(NUMBERS, 3, axis=0), 200),
        (np.concatenate([GAPPY, -GAPPY, GAPPY[:20]]), 20),
        (np.concatenate([NUMBERS, NUMBERS[:3]]), 0),  # too few to matter
        (FEW_VALUES, 0),
        (np.repeat(NUMBERS[:, :1], 2, axis=0), 0),
        (np.zeros((1, 3)), 0),
        (np.empty((0, 3)), 0),
    ],
    ids=[
        "none",
        "all",
        "with gaps",
        "few",
        "of few values",
        "one column",
        "one row",
        "no rows",
    ],
)
def test_copies_are_named(X, repeats):
    found = repeated_rows(SimpleNamespace(X=X))

    assert len(found) == bool(repeats)
    assert not repeats or found[0][0].startswith(f"{repeats} of {len(X)} rows")


def report(name, distinct, missing=0, examples=("1", "2")):
    return ColumnReport(name, "numeric", examples, missing, distinct)


def dataset_of(*reports, rows=1_000, forms=(), kept=()):
    """A record of numeric columns with these reports; `kept` ones are no features."""
    features = [
        Feature(each.name, "numeric", form=dict(forms).get(each.name, ""))
        for each in reports
        if each.name not in kept
    ]
    columns = {name: KeptColumn("numeric", dict(forms).get(name, "")) for name in kept}
    return SimpleNamespace(
        rows=rows,
        columns=reports,
        kept=columns,
        forms={feature.name: feature.form for feature in features}
        | {name: column.form for name, column in columns.items()},
    )


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (dataset_of(report("income", 300)), []),
        (dataset_of(report("customer_id", 300)), [("group", "customer_id")]),
        (dataset_of(report("shop", 300), kept=["shop"]), [("group", "shop")]),
        (dataset_of(report("customer_id", 990)), []),  # hardly any repeats
        (dataset_of(report("customer_id", 5)), []),  # all are in training
        (dataset_of(report("customer_id", 300, missing=1)), []),
        (
            dataset_of(
                report("born", 90, examples=("1950-01-01", "2001-01-01")),
                report("applied", 90, examples=("2020-01-01", "2026-01-01")),
                report("user_id", 400),
                report("shop_id", 50),
                forms={"born": "date", "applied": "date:%d.%m.%Y"},
                kept=["applied"],
            ),
            [("group", "shop_id"), ("time", "applied")],
        ),
    ],
)
def test_columns_by_which_new_cases_differ_are_found(dataset, expected):
    found = likely_splits(dataset)
    assert [(split.by, split.column) for split in found] == expected


@pytest.mark.parametrize(
    ("y", "moves"),
    [
        (np.arange(800) % 2, False),
        (np.arange(800) // 400, False),  # sorted by class
        ((np.arange(800) * 7 % 100 < 20 + np.arange(800) / 20).astype(int), True),
        ((np.arange(40) * 7 % 10 < 2 + np.arange(40) / 10).astype(int), False),
    ],
    ids=["equal", "sorted", "moving", "few"],
)
def test_shares_that_move_along_the_file_are_told_with_the_remedy(y, moves):
    table = SimpleNamespace(y=y, classes=("paid", "late"))
    assert [sentence.count("'priors'") for sentence in moving_shares(table)] == (
        [1] if moves else []
    )


def test_a_doubt_ends_with_the_first_figure_that_both_splits_have():
    at_random = {"benefit": 1.25, "auc": 0.75, "rows": 3}
    assert "of a case is then 0.5, and 1.25 at random" in compared(
        at_random, {"benefit": 0.5, "auc": 0.7}
    )
    assert "ROC curve is then 0.7" in compared(at_random, {"auc": 0.7})
    assert compared(at_random, {"auc": None}) == ""


PRICED = [
    name for name, kind in KINDS.items() if request_of(kind).takes("feature_costs")
]
UNPRICED = "'benefits' did not choose the tree"
BENEFITS, COSTS = (
    {"benefits": [[1, 0], [0, 1]]},
    {"feature_costs": [{"feature": "a", "cost": 2}]},
)


def spec_of(kind="logistic", **changes):
    found = resolve({"kind": kind} | changes.pop("parameters", {}))
    learner = LearnerSpec(kind=found.kind, parameters=found.parameters)
    return TrainSpec(model="m", learner=learner, dataset="ds", **changes)


@pytest.mark.parametrize("kind", PRICED)
@pytest.mark.parametrize(
    ("changes", "told"), [(BENEFITS, True), ({}, False), (BENEFITS | COSTS, False)]
)
def test_benefits_that_chose_nothing_are_told(kind, changes, told):
    """Of the learner whose path has a point for every price; `auto` without prices compares learners by the benefits
    alone. A `lambda` was chosen by who sent it.
    """
    found = notes(SimpleNamespace(), spec_of(kind, **changes))
    assert [one.startswith(UNPRICED) for one in found] == [True] * (
        told and kind == "cost_tree"
    )
    if kind == "cost_tree":
        assert not notes(
            SimpleNamespace(), spec_of(kind, parameters={"lambda": 0.1}, **changes)
        )


def model_of(*features: FeatureCard) -> Loaded:
    card = make_card(features=[feature.model_dump() for feature in features])
    return Loaded(card, card.schema_of_features(), None, None)


AGE = FeatureCard(
    name="age", type="numeric", low=29, high=77, missing=0
)  # far: below 10.92, above 125
SEX = FeatureCard(name="sex", type="categorical", categories=["f", "m"], missing=3)
FLAT = FeatureCard(name="flat", type="numeric", low=1, high=1)
INCOME = FeatureCard(name="income", type="numeric", low=9157, high=193_097)
CHANGE = FeatureCard(name="change", type="numeric", low=-1, high=3)
DAY = FeatureCard(
    name="day", type="numeric", low=19_000, high=19_365, form="date:%Y-%m-%d"
)


@pytest.mark.parametrize(
    ("feature", "values", "far"),
    [
        (AGE, [10.93, 125], []),
        (AGE, [-19.1, 10.9], [0, 1]),
        (AGE, [125.1, 30, 1e9], [0, 2]),
        (AGE, [np.inf], [0]),
        (FLAT, [1.0, 1.5, 2.0], [1, 2]),
        (INCOME, [28, 500, 376_000], [0]),
        (INCOME, [0, -1], [0, 1]),
        (CHANGE, [-5, 7, 0], []),
        (CHANGE, [-5.1], [0]),
    ],
)
def test_far_is_farther_from_the_range_than_it_is_wide(feature, values, far):
    """Of what was constant in training, whatever differs; of positive numbers also as a ratio."""
    rows = np.array([[value, 7.0] for value in values])

    warnings = strange_values(model_of(feature, SEX), rows)

    assert len(warnings) == bool(far)
    told = f"{len(far)} of {len(values)} instances {positions(far, len(far))} have {feature.name!r}"
    assert not far or warnings[0].startswith(told)


def test_of_many_features_with_far_values_some_are_named():
    """The header of an answer as an array has to hold the warnings."""
    features = [CHANGE.model_copy(update={"name": f"change {j}"}) for j in range(7)]

    *named, others = strange_values(model_of(*features), np.full((2, 7), 100.0))

    assert [f"'change {j}'" in sentence for j, sentence in enumerate(named)] == [
        True
    ] * 5
    assert others.startswith("2 more features")


GAP = np.nan
UNLEARNED = (
    "(positions 0, 2) have no known value of 'age', which no row in training lacked"
)
EMPTY = "instances (position 1) have no value at all"


@pytest.mark.parametrize(
    ("features", "rows", "expected"),
    [
        ([AGE, SEX], [[40, GAP]], []),  # as some rows in training
        ([AGE, SEX], [[GAP, 1], [40, 1], [GAP, 0]], [UNLEARNED]),
        ([SEX, INCOME], [[0, 10_000], [GAP, GAP]], [EMPTY]),
        (
            [INCOME],
            [[GAP]],
            ["have no value at all"],
        ),  # of which the card does not say more
        ([AGE], [[30], [GAP]], [EMPTY, "no known value of 'age'"]),
        ([AGE, SEX], [], []),
    ],
)
def test_what_is_missing_that_no_row_in_training_lacked_is_named(
    features, rows, expected
):
    X = np.array(rows, dtype=float).reshape(len(rows), len(features))

    warnings = strange_values(model_of(*features), X)

    assert [part in told for part, told in zip(expected, warnings, strict=True)] == [
        True
    ] * len(warnings)


def test_a_missing_value_is_named_in_the_answers_of_all_formats(service):
    """Of a single row and of a batch; the answer's format and the request's do not matter."""
    table = table_of([40, 40])
    labels = [table.classes[code] for code in table.y]
    data = {"features": ["a", "b"], "rows": table.X.tolist(), "labels": labels}
    trained(service, {"model": "gaps", "learner": {"kind": "logistic"}, "data": data})
    question = {"model": "gaps", "rule": "most_probable"}
    array = io.BytesIO()
    np.save(array, np.array([[0.0, np.nan], [0.0, 0.0]]))
    text = {
        "params": question,
        "content": b"b,a\n,0\n0,0\n",
        "headers": {"Content-Type": "text/csv"},
    }
    npy = {
        "params": question,
        "content": array.getvalue(),
        "headers": {"Content-Type": NPY},
    }

    single = service.post(
        "/predict", json=question | {"instances": [{"a": 0, "b": None}]}
    )
    answers = [service.post("/predict", **body) for body in (text, npy)]
    as_array = service.post(
        "/predict", **(npy | {"headers": {"Content-Type": NPY, "Accept": NPY}})
    )
    loss = {"setting": "multiclass", "loss": {"name": "f_beta", "beta": 1}}
    sets = service.post(
        "/retrieve", json={"model": "gaps", "instances": [[0, None]], **loss}
    )

    told = [answer.json()["warnings"] for answer in (single, *answers, sets)]
    told.append(json.loads(as_array.headers["payoff-answer"])["warnings"])
    sentence = "of 'b', which no row in training lacked: answered as far as the other"
    assert [[sentence in warning for warning in one] for one in told] == [[True]] * 5


def test_an_unknown_category_is_answered_as_a_missing_one_near_the_shares(service):
    """Nearly all of one ward are ill; a ward that training did not have decides nothing."""
    wards = [["abcd"[i % 4], i % 7] for i in range(200)]
    labels = ["ill" if i % 4 == 0 and i % 20 else "well" for i in range(200)]
    data = {"features": ["ward", "other"], "rows": wards, "labels": labels}
    learner = {"kind": "random_forest", "n_estimators": 20}
    trained(service, {"model": "wards", "learner": learner, "data": data, "holdout": 0})
    question = {"model": "wards", "rule": "most_probable"}
    instances = [["new", 3], [None, 3], ["a", 3]]

    answer = service.post("/predict", json=question | {"instances": instances}).json()

    new, gap, known = (
        p[answer["classes"].index("ill")] for p in answer["probabilities"]
    )
    assert new == gap == pytest.approx(0.2, abs=0.1)
    assert known > 0.6


def test_the_card_has_the_range_of_the_rows_that_were_fitted():
    schema = Schema(
        [
            Feature("age", "numeric"),
            Feature("sex", "categorical", ("f", "m")),
            Feature("empty", "numeric"),
        ]
    )
    X = np.array(
        [[1.0, 0, np.nan], [5.0, 1, np.nan], [np.nan, 1, np.nan], [900.0, 1, np.nan]]
    )
    table = Table(schema, X, np.zeros(4, dtype=np.int64), ("a", "b"), ("y",), "00")

    age, sex, empty = feature_cards(table, np.array([0, 1, 2]))

    assert (age.low, age.high, age.missing) == (1, 5, 1)
    assert (sex.low, sex.categories, sex.missing) == (None, ["f", "m"], 0)
    assert (empty.high, empty.missing) == (None, 3)
