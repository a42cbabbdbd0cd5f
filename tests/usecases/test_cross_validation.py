"""Small tables are evaluated on all their rows, by models that did not see them."""

import numpy as np
import pytest

from app.learners.catalogue import KINDS
from app.registry.loaded import Holdout
from app.usecases.evaluation import FEW_ROWS, cross_validated, number_of_folds, of_a_fold, split_rows
from app.usecases.specs import LearnerSpec, TrainSpec
from tests.conftest import trained, two_class_rows
from tests.reference.tables import SMALL
from tests.usecases.test_training_warnings import table_of

CLASSIFIERS = [name for name, kind in KINDS.items() if kind.labels == "one"]


def spec_of(**changes):
    return TrainSpec(model="m", learner=LearnerSpec(kind="logistic"), dataset="ds", **changes)


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
            return np.array([[float(row.tobytes() in self.seen)] * len(counts) for row in X])

    held = Holdout(Marking(split.train).posterior(table.X[split.holdout]), table.y[split.holdout])
    found = cross_validated(held, spec, table, split, folds, Marking)
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
    assert number_of_folds(spec, table, split_rows(table.y, spec.holdout, 0)) == expected


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.thorough
def test_the_card_states_the_rows_of_its_figures_with_every_learner(service, kind):
    """Metrics and the report on benefits have all rows of a small table; `holdout_rows` is the size of a fold."""
    data, name = two_class_rows(160), f"crossed-{kind}".replace("_", "-")
    order = {"model": name, "learner": {"kind": kind} | SMALL.get(kind, {}), "data": data, "benefits": [[1, 0], [0, 1]]}
    trained(service, order)
    card = service.get(f"/models/{name}/versions/1").json()
    report = service.post(f"/models/{name}/benefit", json={"benefits": [[1, 0], [0, 1]]}).json()
    assert card["data"]["evaluation"] == {"method": "cross-validation", "folds": 4, "rows": 160}
    assert (card["data"]["rows"], card["data"]["holdout_rows"]) == (160, 40)
    assert (card["metrics"]["rows"], report["rows"], report["evaluation"]) == (160, 160, "cross-validation")
    assert card["metrics"]["benefit"] == pytest.approx(report["expected_benefit"]["benefit"])


@pytest.mark.parametrize(
    ("rows", "changes", "expected"),
    [(FEW_ROWS, {}, {"method": "hold-out", "folds": None, "rows": 124}),
     (160, {"refit": False}, {"method": "hold-out", "folds": None, "rows": 40}), (160, {"holdout": 0}, None)],
)  # fmt: skip
def test_otherwise_the_figures_are_of_the_hold_out(service, rows, changes, expected):
    order = {"model": "held", "learner": {"kind": "logistic"}, "data": two_class_rows(rows)} | changes
    version = trained(service, order)["model"]["version"]
    card = service.get(f"/models/held/versions/{version}").json()
    assert card["data"]["evaluation"] == expected
    assert card["metrics"].get("rows") == (expected and expected["rows"])


def test_a_learner_with_seconds_shares_them_among_the_folds():
    spec = spec_of().model_copy(update={"learner": LearnerSpec(kind="auto", parameters={"max_seconds": 60.0})})
    assert of_a_fold(spec, 4).learner.parameters == {"max_seconds": 15.0}
    assert spec.learner.parameters == {"max_seconds": 60.0}
    assert of_a_fold(spec_of(), 4) == spec_of()
