"""What every learner does alike: calibration on cross-fitted predictions, weights, missing values, progress."""

import numpy as np
import pytest
from sklearn.base import clone

from app import progress
from app.errors import Invalid
from app.learners.benefit_logistic import BenefitLogistic
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.logistic import Logistic
from tests.reference.tables import mixed

LEARNERS = [Logistic, BenefitLogistic, CostNaiveBayes]
CALIBRATIONS = ["auto", "isotonic", "sigmoid", "none"]

every_learner = pytest.mark.parametrize("learner", LEARNERS)
every_calibration = pytest.mark.parametrize("calibration", CALIBRATIONS)


@every_learner
@every_calibration
def test_rows_that_weigh_nothing_do_not_matter(learner, calibration):
    """Zero weights, also of a whole class, are as if the rows were not there."""
    X, y, categorical = mixed(200, 3, 4)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=200)
    weights[(y == 2) | (np.arange(200) % 7 == 0)] = 0
    model = learner(calibration=calibration, categorical_features=categorical, random_state=0)
    P = model.fit(X, y, weights).posterior(X)
    kept = weights > 0
    np.testing.assert_array_equal(model.classes_, [0, 1])
    np.testing.assert_array_equal(clone(model).fit(X[kept], y[kept], weights[kept]).posterior(X), P)


@every_learner
@pytest.mark.thorough
def test_weights_move_the_probabilities(learner):
    """Weighing class 1 threefold brings its weighted mean probability from 1/2 to 3/4, calibrated or not."""
    X, y, categorical = mixed(300, 2, 5)
    weights = np.where(y == 1, 3.0, 1.0)
    for calibration in CALIBRATIONS:
        model = learner(calibration=calibration, categorical_features=categorical, random_state=0)
        plain = model.fit(X, y).posterior(X)[:, 1].mean()
        heavy = np.average(model.fit(X, y, weights).posterior(X)[:, 1], weights=weights)
        assert plain == pytest.approx(0.5, abs=0.02)
        assert heavy == pytest.approx(0.75, abs=0.02)


def test_calibrators_see_only_rows_that_their_model_did_not():
    """A model that learns its rows by heart would look perfect in-sample; cross-fitted, noise stays noise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 100)), np.tile([0, 1], 30)
    raw = Logistic(C=1e6, calibration="none").fit(X, y).posterior(X)
    assert raw[np.arange(60), y].min() > 0.99
    calibrated = Logistic(C=1e6, calibration="sigmoid", random_state=0).fit(X, y).posterior(rng.normal(size=(200, 100)))
    assert np.abs(calibrated - 0.5).max() < 0.3


@pytest.mark.parametrize(
    ("smallest", "calibration", "used"),
    [
        (1, "isotonic", "none"),
        (2, "isotonic", "isotonic"),
        (3, "sigmoid", "sigmoid"),
        (19, "auto", "none"),
        (1000, "none", "none"),
    ],
)
def test_the_method_follows_the_smaller_of_two_classes(smallest, calibration, used):
    """A class's only row cannot be held out, and auto does not calibrate on few rows."""
    y = np.repeat([0, 1], [smallest, smallest + 3])
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    model = Logistic(calibration=calibration, random_state=0).fit(X, y)
    assert model.calibration_ == used
    assert (model.calibrator_ is None) == (used == "none")


@pytest.mark.parametrize("calibration", ["auto", "sigmoid", "isotonic"])
@pytest.mark.parametrize("rare", [1, 2, 3])
@every_learner
@pytest.mark.thorough
def test_one_rare_class_does_not_disable_calibration(learner, rare, calibration):
    """A class of one to three rows beside two of 200: they are calibrated on rows that their model did not see."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [200, 200, rare])
    X = rng.normal(size=(len(y), 3)) + 0.5 * y[:, None]
    model = learner(calibration=calibration, random_state=0).fit(X, y)
    assert model.calibration_ != "none"
    P = model.posterior(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    assert ((P > 0) & (P < 1)).all()


def test_progress_is_told_for_every_fold():
    """Five folds and the final fit are reported, rising from 0."""
    heard = []
    X, y, _ = mixed(100, 2, 6, words=(), missing=0.0)
    with progress.listen(lambda fraction, stage: heard.append((round(fraction, 3), stage))):
        Logistic(calibration="sigmoid", random_state=0).fit(X, y)
    fractions = [fraction for fraction, _ in heard]
    assert fractions == sorted(fractions)
    assert list(dict.fromkeys(fractions)) == [0.0, 0.167, 0.333, 0.5, 0.667, 0.833, 1.0]
    stages = dict.fromkeys(stage for _, stage in heard)
    assert list(stages) == [*(f"calibration fold {k} of 5" for k in range(1, 6)), "final fit"]


@every_learner
@pytest.mark.parametrize("code", [-1.0, 0.5, 2.0**20])
def test_what_is_no_category_code_is_refused(learner, code):
    """In training and in prediction, with the column."""
    X, y, categorical = mixed(40, 2, 8)
    model = learner(categorical_features=categorical)
    wrong = X.copy()
    wrong[3, 0] = code
    with pytest.raises(Invalid, match="column 0"):
        model.fit(wrong, y)
    with pytest.raises(Invalid, match="column 0"):
        model.fit(X, y).predict_proba(wrong)


@every_learner
def test_one_class_is_refused(learner):
    """A classifier needs two."""
    with pytest.raises(Invalid, match="class"):
        learner().fit(np.zeros((5, 2)), np.ones(5))


@every_learner
def test_labels_may_be_strings(learner):
    """`classes_` are the sorted labels, and predictions are labels."""
    X, y, categorical = mixed(80, 2, 9)
    labels = np.array(["yes", "no"])[y]
    model = learner(categorical_features=categorical).fit(X, labels)
    assert list(model.classes_) == ["no", "yes"]
    assert (model.predict(X) == labels).mean() > 0.7
