"""How rows are split to evaluate a model, small tables whole, and how it is fitted again on all rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registry.loaded import Holdout
from app.requests.specifications import LearnerSpec, TrainSpec
from app.training.evaluation import (
    FEWEST_TO_HOLD_OUT,
    cross_validated,
    number_of_folds,
    of_a_fold,
)
from app.training.splits import split_rows
from payoff.learners import logistic
from payoff.learners.multilabel import MultilabelLogistic
from payoff.progress import listen
from tests.conftest import trained, two_class_rows
from tests.reference.tables import drawn
from tests.training.test_warnings import table_of


def spec_of(**changes):
    return TrainSpec(
        model="m", learner=LearnerSpec(kind="logistic"), dataset="ds", **changes
    )


@pytest.mark.parametrize("part", [0.05, 0.1, 0.25, 0.34, 0.45, 0.6])
@pytest.mark.parametrize("counts", [[40, 40], [30, 5, 2], [90, 3, 2, 2], [40, 8, 1]])
def test_each_row_is_predicted_by_a_model_of_other_rows_of_all_classes(counts, part):
    """Scores mark the rows that the model learned from: none of them is the row's own."""
    table = table_of(counts)
    split = split_rows(table.y, part, 3)
    spec = spec_of(holdout=part, seed=3)
    folds = number_of_folds(spec, table, split)
    learned = []

    class Marking:
        def __init__(self, rows):
            self.seen = {table.X[i].tobytes() for i in rows}
            assert set(table.y[rows]) == set(table.y)
            learned.append(rows)

        def posterior(self, X):
            return np.array(
                [[float(row.tobytes() in self.seen)] * len(counts) for row in X]
            )

    held = Holdout(
        Marking(split.train).posterior(table.X[split.holdout]), table.y[split.holdout]
    )
    found, judged = cross_validated(held, spec, table, split, folds, Marking)
    assert (table.y[judged] == found.y).all()
    assert 2 <= folds <= 10
    assert len(learned) <= folds
    assert not found.scores.any()
    assert (np.bincount(found.y, minlength=len(counts)) >= np.array(counts) - 1).all()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, 4), ({"holdout": 0.1}, 10), ({"holdout": 0.01}, 10), ({"holdout": 0.7}, 0), ({"refit": False}, 0),
     ({"holdout": 0.0}, 0)],
)  # fmt: skip
def test_the_folds_have_about_the_size_of_the_hold_out(changes, expected):
    table, spec = table_of([60, 60]), spec_of(**changes)
    assert (
        number_of_folds(spec, table, split_rows(table.y, spec.holdout, 0)) == expected
    )


@pytest.mark.parametrize(
    ("rows", "changes", "expected"),
    [(160, {}, {"method": "cross-validation", "folds": 4, "rows": 160}),
     (FEWEST_TO_HOLD_OUT, {}, {"method": "hold-out", "folds": None, "rows": 124}),
     (160, {"refit": False}, {"method": "hold-out", "folds": None, "rows": 40}), (160, {"holdout": 0}, None)],
)  # fmt: skip
def test_the_card_states_the_rows_of_its_figures(service, rows, changes, expected):
    """Metrics and the report on benefits have all rows of a small table, others those held out."""
    asked = {"benefits": [[1, 0], [0, 1]]}
    order = (
        {"model": "held", "learner": {"kind": "logistic"}, "data": two_class_rows(rows)}
        | asked
        | changes
    )
    version = trained(service, order)["model"]["version"]
    card = service.get(f"/models/held/versions/{version}").json()
    evaluation = card["data"]["evaluation"]
    assert evaluation == (expected and evaluation | expected)
    assert card["metrics"].get("rows") == (expected and expected["rows"])
    if expected:
        report = service.post(f"/models/held:{version}/benefit", json=asked).json()
        assert (report["rows"], report["evaluation"]) == (
            expected["rows"],
            expected["method"],
        )
        assert card["metrics"]["benefit"] == pytest.approx(
            report["expected_benefit"]["benefit"]
        )


def test_a_learner_with_seconds_shares_them_among_the_folds():
    spec = spec_of().model_copy(
        update={"learner": LearnerSpec(kind="auto", parameters={"max_seconds": 60.0})}
    )
    assert of_a_fold(spec, 4).learner.parameters == {"max_seconds": 15.0}
    assert spec.learner.parameters == {"max_seconds": 60.0}
    assert of_a_fold(spec_of(), 4) == spec_of()


def test_what_shares_its_rarest_label_is_held_out_evenly():
    y = np.zeros((1000, 2), dtype=np.uint8)
    y[:100, 0] = y[50:500, 1] = 1
    rows = split_rows(y, 0.25, 3)
    assert len(rows.holdout) == 250
    assert y[rows.holdout].sum(axis=0) == pytest.approx(y.sum(axis=0) / 4, abs=6)
    assert np.array_equal(split_rows(y, 0.25, 3).train, rows.train)
    assert not np.array_equal(split_rows(y, 0.25, 4).train, rows.train)


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=n, max_size=n
        )
    ),
    st.floats(0, 0.95),
    st.integers(0, 5),
)
def test_every_row_is_on_one_side_and_every_label_that_varies_does_so_in_training(
    labels, part, seed
):
    y = np.array(labels, dtype=np.uint8)
    rows = split_rows(y, part, seed)
    assert sorted([*rows.train, *rows.holdout]) == list(range(len(y)))
    assert len(rows.train)
    varying = (y != y[0]).any(axis=0)
    assert np.array_equal((y[rows.train] != y[rows.train][0]).any(axis=0), varying)


@given(st.integers(1, 30), st.floats(0, 0.95), st.integers(0, 5))
def test_of_numbers_the_part_is_held_out_whatever_they_are(n, part, seed):
    """Each number there once, or all alike: the same share; one row at least is learnt from."""
    for y in (np.arange(n, dtype=np.float64), np.zeros(n)):
        rows = split_rows(y, part, seed)
        assert sorted([*rows.train, *rows.holdout]) == list(range(n))
        assert len(rows.holdout) == min(round(part * n), n - 1)


@pytest.mark.parametrize("chain", [False, True])
def test_a_label_that_first_occurs_in_the_rows_held_out_is_learned_by_a_refit(chain):
    """Which fits nothing for the calibration, that stays."""
    X, Y = drawn(300)
    Y[:200, 1] = 0
    model = MultilabelLogistic(
        chain=chain, categorical_features=[3], random_state=0
    ).fit(X[:200], Y[:200])
    assert np.ptp(model.posterior(X)[:, 1]) == pytest.approx(0.0, abs=1e-12)
    stages: list[str] = []
    with listen(lambda _, stage: stages.append(stage)):
        model.refit(X, Y)
    assert not [stage for stage in stages if "fold" in stage]
    assert np.ptp(model.posterior(X)[:, 1]) > 0.1
    if chain:
        return
    shape = model.numeric_transform_
    alone = logistic.Logistic(
        calibration="none", numeric_transform=shape, categorical_features=[3]
    ).fit(X, Y[:, 1])
    np.testing.assert_allclose(
        model.posterior(X)[:, 1], alone.posterior(X)[:, 1], atol=1e-9
    )


def test_what_is_reported_is_that_of_the_rows_held_out(service):
    """Metrics and reports on benefits do not depend on the refit; the published model and its card do."""
    data = two_class_rows(520)
    found = {}
    for refit in (True, False):
        order = {
            "model": f"refit-{refit}".lower(),
            "learner": {"kind": "logistic"},
            "data": data,
            "refit": refit,
        }
        name = order["model"]
        job = trained(service, order)
        card = service.get(f"/models/{name}/versions/1").json()
        assert job["metrics"] == card["metrics"]
        report = service.post(
            f"/models/{name}/benefit", json={"benefits": [[0, -1], [-5, 2]]}
        ).json()
        question = {"model": name, "instances": data["rows"], "rule": "most_probable"}
        answers = service.post("/predict", json=question).json()["probabilities"]
        rows = [card["data"][part] for part in ("rows", "holdout_rows", "refit")]
        found[refit] = (
            rows,
            card["metrics"],
            report["rules"],
            answers,
            sum(card["class_priors"].values()),
        )
    assert [found[refit][0] for refit in (True, False)] == [
        [520, 130, True],
        [390, 130, False],
    ]
    assert found[True][1:3] == found[False][1:3]
    assert found[True][3] != found[False][3]
