"""Models as ONNX files: onnxruntime gives the same probabilities."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.errors import Invalid
from app.features import Feature, Schema
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.imported import onnx_model
from app.learners.imported.estimator import Imported
from app.learners.imported.sklearn_model import scorer
from app.learners.logistic import Logistic
from app.learners.onnx_export import exported
from app.learners.random_forest import RandomForest
from tests.messages import says

N = 300
RNG = np.random.default_rng(0)
SCHEMA = Schema([Feature(name, "numeric") for name in ("age", "pulse", "pain")])
X = RNG.normal(size=(N, 3)) * [10, 9, 2] + [50, 70, 3]
X[RNG.random(X.shape) < 0.05] = np.nan
FULL = np.nan_to_num(X, nan=4.0)
score = FULL[:, 0] - 50 + RNG.normal(0, 8, N)
LABELS = {"two": np.digitize(score, (0,)), "three": np.digitize(score, (-5, 5))}
NAMES = {"two": ("healthy", "ill"), "three": (1, 2, 5)}

LEARNERS = {
    "linear": lambda: Logistic(calibration="none", numeric_transform="none"),
    "linear with hinges": lambda: Logistic(calibration="none", numeric_transform="spline"),
    "calibrated": lambda: Logistic(calibration="sigmoid", numeric_transform="clip"),
    "forest": lambda: RandomForest(n_estimators=7, calibration="none", random_state=0),
    "calibrated forest": lambda: RandomForest(n_estimators=7, calibration="sigmoid", random_state=0),
}


@pytest.mark.parametrize("several", LABELS)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_gives_the_same_probabilities(name, several):
    """Also of missing values, and imported again, with its classes."""
    model, classes = LEARNERS[name]().fit(X, LABELS[several]), NAMES[several]

    found = onnx_model.load(exported(model, SCHEMA, classes), SCHEMA, classes[::-1], None)

    np.testing.assert_allclose(found.posterior(X), model.posterior(X)[:, ::-1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("last", [LogisticRegression, lambda: RandomForestClassifier(5, random_state=0)])
def test_an_imported_model_is_converted(last):
    model = make_pipeline(StandardScaler(), last()).fit(FULL, np.array(NAMES["two"])[LABELS["two"]])
    held = Imported(scorer(model, SCHEMA, NAMES["two"]), 2, FULL[:1], {})

    content = exported(held, SCHEMA, NAMES["two"])
    again = Imported(onnx_model.load(content, SCHEMA, NAMES["two"], None), 2, FULL[:1], {})

    difference = np.abs(again.posterior(FULL) - held.posterior(FULL)).max(axis=1)
    assert (difference < 1e-6).mean() > 0.99  # a tree may take another branch where float32 is beside its threshold
    assert exported(again, SCHEMA, NAMES["two"]) == content


def test_an_imported_pipeline_of_words_and_numbers_is_converted():
    schema = Schema([Feature("word", "categorical", ("a", "b", "c")), Feature("age", "numeric")])
    codes = RNG.integers(0, 3, N)
    frame = pa.table({"age": FULL[:, 0], "word": np.array(["a", "b", "c"])[codes]})
    columns = make_column_transformer((OneHotEncoder(), ["word"]), (StandardScaler(), ["age"]))
    model = make_pipeline(columns, LogisticRegression()).fit(frame, np.array(NAMES["two"])[LABELS["two"]])
    held = Imported(scorer(model, schema, NAMES["two"]), 2, np.array([[0.0, 50.0]]), {})
    rows = np.column_stack((codes, FULL[:, 0]))

    found = onnx_model.load(exported(held, schema, NAMES["two"]), schema, NAMES["two"], None)

    np.testing.assert_allclose(found.posterior(rows), held.posterior(rows), rtol=0, atol=1e-6)


def test_what_cannot_be_exported_says_why():
    words = Schema([Feature("word", "categorical", ("a", "b"))])
    cases = [
        (CostNaiveBayes().fit(FULL, LABELS["two"]), SCHEMA, "logistic"),
        (Logistic(calibration="isotonic").fit(FULL, LABELS["two"]), SCHEMA, "isotonic"),
        (Logistic(categorical_features=[0]).fit(LABELS["two"][:, None], LABELS["two"]), words, "words"),
    ]
    for model, schema, named in cases:
        with pytest.raises(Invalid) as caught:
            exported(model, schema, (0, 1))
        assert says("/format", named) in caught.value.flaws
