"""The learners are scikit-learn estimators."""

from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from app.learners.benefit_logistic import BenefitLogistic
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.logistic import Logistic

LEARNERS = [
    Logistic(),
    Logistic(calibration="sigmoid"),
    Logistic(calibration="isotonic"),
    BenefitLogistic(),
    CostNaiveBayes(calibration="none"),
    CostNaiveBayes(),
    CostNaiveBayes(calibration="isotonic"),
]

WEIGHTS = "folds are drawn by rows, so a row of weight 2 and the row twice are calibrated on different folds"


def exempt(estimator: BaseEstimator) -> dict[str, str]:
    """Checks that an estimator cannot pass, each with its reason."""
    exemptions: dict[str, Any] = {}
    few = isinstance(estimator, CostNaiveBayes)  # it is calibrated on as few rows as the check has
    if estimator.calibration in ("isotonic", "sigmoid") or (few and estimator.calibration == "auto"):
        exemptions["check_sample_weight_equivalence_on_dense_data"] = WEIGHTS
    return exemptions


@pytest.mark.sampled
@parametrize_with_checks(LEARNERS, expected_failed_checks=exempt)
def test_estimators_keep_the_conventions(estimator, check):
    """Each of scikit-learn's checks passes, or is exempted with a reason."""
    check(estimator)
