"""Classes of few rows are warned about: in the job, in the card, and by each prediction of the model."""

import io
import json

import numpy as np
import pytest

from app.data.dataset import Table
from app.features import Feature, Schema
from app.learners.catalogue import resolve
from app.usecases.evaluation import split_rows
from app.usecases.training_warnings import rare_classes
from tests.conftest import trained
from tests.reference.tables import SMALL

NPY = "application/x-npy"
FEW = "classes with too few training rows for reliable probabilities: {}; provide at least {} of each"


def table_of(counts, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), 2)) + apart * y[:, None]
    names = tuple(f"c{k}" for k in range(len(counts)))
    return Table(Schema([Feature("a", "numeric", ()), Feature("b", "numeric", ())]), X, y, names, ("label",), "00")


@pytest.mark.parametrize(
    ("counts", "part", "few", "needed"),
    [
        ([60, 40, 27], 0.25, None, 0),  # 20 training rows are enough
        ([60, 40, 7], 0.25, "'c2' (5 of 7 rows), the rest was held out", 27),
        (
            [60, 13, 12, 11, 10, 9, 8, 7],
            0.0,
            "'c7' (7 rows), 'c6' (8 rows), 'c5' (9 rows), 'c4' (10 rows), 'c3' (11 rows) and 2 more",
            20,
        ),
    ],
    ids=["enough", "few", "many classes"],
)
def test_classes_of_few_rows_are_named_with_the_rows_they_need(counts, part, few, needed):
    table = table_of(counts)
    rows = split_rows(table.y, part, 0)
    model = resolve({"kind": "logistic"}).build(random_state=0).fit(table.X[rows.train], table.y[rows.train])
    found = rare_classes(model, table, rows)
    assert [one.startswith(FEW.format(few, needed)) for one in found] == [True] * bool(few)


@pytest.mark.parametrize("learner", ["logistic", "cost_naive_bayes", "random_forest", "auto"])
@pytest.mark.parametrize("counts", [[100, 60], [90, 60, 50]])
@pytest.mark.thorough
def test_features_that_say_nothing_about_the_class_are_told(learner, counts):
    """Just where every prediction is the same: noise is found on some seeds, features that matter on none."""
    asked = resolve({"kind": learner} | SMALL.get(learner, {}))
    told = []
    for apart, seed in [(1.0, 0), *((0.0, seed) for seed in range(12))]:
        table = table_of(counts, seed, apart)
        model = asked.build(random_state=0).fit(table.X, table.y)
        told.append(bool(rare_classes(model, table, split_rows(table.y, 0.0, 0))))
        assert told[-1] == (np.ptp(model.posterior(table.X), axis=0).max() < 1e-9)
    assert not told[0]
    assert any(told)


@pytest.mark.parametrize(("counts", "expected"), [([40, 40], 0), ([60, 5, 2], 1)])
def test_job_card_and_every_prediction_have_the_same_sentences(service, counts, expected):
    table = table_of(counts)
    labels = [table.classes[code] for code in table.y]
    data = {"features": ["a", "b"], "rows": table.X.tolist(), "labels": labels}
    name = f"rare-{len(counts)}"
    job = trained(service, {"model": name, "learner": {"kind": "logistic"}, "data": data, "refit": False})
    card = service.get(f"/models/{name}/versions/1").json()
    question = {"model": name, "rule": "most_probable"}
    answer = service.post("/predict", json=question | {"instances": [[0.0, 0.0]]}).json()
    array = io.BytesIO()
    np.save(array, np.zeros((1, 2)))
    headers = {"Content-Type": NPY, "Accept": NPY}
    npy = service.post("/predict", params=question, content=array.getvalue(), headers=headers)
    assert len(job["warnings"]) == expected
    assert card["warnings"] == job["warnings"] == answer["warnings"]
    assert json.loads(npy.headers["payoff-answer"])["warnings"] == job["warnings"]


def test_labels_of_few_rows_are_named_by_the_job_the_card_and_each_set(service):
    """Just like classes; a label that the hold-out lacks has no F1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    applies = {"often": X[:, 0] > 0, "rare": np.arange(80) < 8, "once": np.arange(80) == 50}
    labels = [[name for name, rows in applies.items() if rows[i]] for i in range(80)]
    data = {"features": ["a", "b"], "rows": X.tolist(), "labels": labels}
    job = trained(service, {"model": "few-labels", "learner": {"kind": "multilabel_logistic"}, "data": data})
    card = service.get("/models/few-labels/versions/1").json()
    asked = {"model": "few-labels", "setting": "multilabel", "loss": {"name": "f_beta"}, "instances": [[0.0, 0.0]]}
    answer = service.post("/retrieve", json=asked).json()
    (few,) = job["warnings"]
    assert few.startswith("labels with too few training rows for reliable probabilities: 'once' (1 row), 'rare' (")
    assert few.endswith(" of 8 rows), the rest was held out; provide at least 27 of each, or merge rare labels")
    *same, promised = answer["warnings"]
    assert card["warnings"] == job["warnings"] == same
    assert promised.endswith("has no 'correction': it takes 200 rows held out, and 20 could be used")
    assert card["metrics"]["per_label"]["once"]["f1"] is None
